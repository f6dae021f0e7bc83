"""A small convolutional autoencoder whose latents have mean 0 and standard deviation 1."""

import itertools

from torch import Tensor, nn

from cfq_bench.config.images import AutoencoderSettings
from cfq_bench.errors import UserError


class Autoencoder(nn.Module):
    """Images (B, C, H, W) in [0, 1] to latents (B, D), and back.

    Each convolution halves height and width; the decoder mirrors the encoder. Batch norm without a
    scale ends the encoder, so that one unit of a latent is one standard deviation of train images.

    Args:
        settings: dimensions.
        shape: (C, H, W) of an image.

    Raises:
        UserError: height or width cannot be halved that often.
    """

    def __init__(self, settings: AutoencoderSettings, shape: tuple[int, ...]) -> None:
        super().__init__()
        colours, height, width = shape
        times = len(settings.channels)
        if height % 2**times or width % 2**times:
            raise UserError(
                f"actions.autoencoder.channels has {times} entries, and images of {height} x "
                f"{width} pixels cannot be halved {times} times"
            )
        sizes = [colours, *settings.channels]
        small = (sizes[-1], height // 2**times, width // 2**times)
        features = small[0] * small[1] * small[2]
        self.latent = settings.latent
        down: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            down += [nn.Conv2d(before, after, 4, stride=2, padding=1), nn.ReLU()]
        self.encoder = nn.Sequential(
            *down,
            nn.Flatten(),
            nn.Linear(features, settings.latent),
            nn.BatchNorm1d(settings.latent, affine=False),
        )
        up: list[nn.Module] = []
        for before, after in itertools.pairwise(reversed(sizes)):
            up += [nn.ReLU(), nn.ConvTranspose2d(before, after, 4, stride=2, padding=1)]
        self.decoder = nn.Sequential(
            nn.Linear(settings.latent, features), nn.Unflatten(1, small), *up, nn.Sigmoid()
        )

    def encode(self, x: Tensor) -> Tensor:
        """E(x): latents (B, D)."""
        latents: Tensor = self.encoder(x)
        return latents

    def decode(self, z: Tensor) -> Tensor:
        """D(z): images (B, C, H, W) in [0, 1]."""
        images: Tensor = self.decoder(z)
        return images
