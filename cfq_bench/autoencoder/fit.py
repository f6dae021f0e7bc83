"""Train an autoencoder, or take it from the cache: once per data set, seed and settings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.autoencoder.network import Autoencoder
from cfq_bench.cache import Cache
from cfq_bench.codebase import entry_code
from cfq_bench.config.images import AutoencoderSettings
from cfq_bench.data.datamodule import Batch, SplitDataModule
from cfq_bench.data.dataset import Dataset, Split
from cfq_bench.errors import UserError
from cfq_bench.seeds import derive_seed
from cfq_bench.training.trainer import LeanModule, Runtime, cosine, fit, freeze


class Reconstruction(LeanModule):
    """Trains an autoencoder on the mean squared error of pixels, with noise on the latents.

    Args:
        config: the settings of the autoencoder.
        network: the autoencoder, trained in place.
        total_steps: optimizer steps.
        seed: of the noise.
    """

    def __init__(
        self, config: AutoencoderSettings, network: Autoencoder, total_steps: int, seed: int
    ) -> None:
        super().__init__()
        self.config = config
        self.network = network
        self.total_steps = total_steps
        self.noise = torch.Generator().manual_seed(seed)

    def forward(self, x: Tensor) -> Tensor:
        """Reconstructions (B, C, H, W)."""
        return self.network.decode(self.network.encode(x))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Mean squared error of one batch of images in [0, 1]."""
        x, _, _ = batch
        z = self.network.encode(x)
        noise = torch.randn(z.shape, generator=self.noise).to(z.device)
        return F.mse_loss(self.network.decode(z + self.config.noise * noise), x)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Adam with a cosine to 0."""
        optimizer = torch.optim.Adam(self.parameters(), lr=self.config.lr, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(self.total_steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


@dataclass(frozen=True)
class Trained:
    """An autoencoder and what it is worth.

    Attributes:
        network: frozen, in evaluation mode, on the run's device.
        error: mean squared error of a pixel in [0, 1], on the validation images.
        baseline: the same for the mean train image: what knowing nothing of an image costs.
    """

    network: Autoencoder
    error: float
    baseline: float


def obtain_autoencoder(
    config: AutoencoderSettings, data: Dataset, seed: int, cache: Cache, runtime: Runtime
) -> Trained:
    """The autoencoder of a data set and seed.

    Raises:
        UserError: the cached file is corrupt, the images cannot be halved that often, or what was
            trained is no better than the mean image.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "autoencoder", "init"))
        network = Autoencoder(config, data.input_shape)

    def train() -> dict[str, Tensor]:
        _train(config, network, data, seed, runtime)
        error, baseline = _errors(network, data)
        return {**network.state_dict(), "error": error, "baseline": baseline}

    key: dict[str, Any] = {
        "code": entry_code((__name__,)),
        "data": data.fingerprint,
        "autoencoder": config.model_dump(mode="json"),
        "seed": seed,
        "device": runtime.device.type,
    }
    stored = cache.get_or_make("autoencoder", key, train)
    error, baseline = (float(stored.pop(name)) for name in ("error", "baseline"))
    if error >= baseline:
        raise UserError(
            f"the autoencoder is no better than the mean image (squared errors {error:.3g} and "
            f"{baseline:.3g}), so that no action can be found: raise actions.autoencoder.epochs"
        )
    network.load_state_dict(stored)
    freeze(network.to(runtime.device))
    return Trained(network, error, baseline)


def _train(
    config: AutoencoderSettings, network: Autoencoder, data: Dataset, seed: int, runtime: Runtime
) -> None:
    order = derive_seed(seed, "autoencoder", "order")
    batches = SplitDataModule(data, config.batch_size, order)
    steps = config.epochs * len(batches.train_loader)
    module = Reconstruction(config, network, steps, derive_seed(seed, "autoencoder", "noise"))
    fit(
        module,
        batches,
        Runtime(runtime.device, False, runtime.progress),
        what="training the autoencoder",
        max_epochs=config.epochs,
        total_steps=steps,
        log_every=steps,
    )
    freeze(network)


@torch.no_grad()
def _errors(network: Autoencoder, data: Dataset) -> tuple[Tensor, Tensor]:
    """Mean squared errors on the validation images: of the network, and of the mean train image."""
    mean = torch.stack([x.sum(0) for x in data.train.blocks()]).sum(0) / len(data.train)
    return (
        _mean_square(data.validation, lambda x: network.decode(network.encode(x))),
        _mean_square(data.validation, lambda x: mean.expand_as(x)),
    )


def _mean_square(split: Split, reconstruct: Callable[[Tensor], Tensor]) -> Tensor:
    total = torch.stack([(reconstruct(x) - x).square().sum() for x in split.blocks()]).sum()
    return total / split.x.numel()
