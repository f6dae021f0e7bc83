"""Quantization-aware training: what LSQ, PACT, KD-QAT and CFQ have in common."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.config.qat import QATSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.methods.base import Context, Phase
from cfq_bench.methods.quantized import QuantizedMethod
from cfq_bench.seeds import derive_seed
from cfq_bench.training.trainer import cosine


class QATMethod(QuantizedMethod):
    """Trains a quantized copy of the teacher; subclasses define `objective`.

    The allocator chooses the bits before training, or learns them in a search that the training
    begins with; then a tail trains at the chosen bits.

    Args:
        config: the method's settings.
        context: data, teacher and action set of the run.
    """

    def __init__(self, config: QATSettings, context: Context) -> None:
        super().__init__(config, context)
        self.phase = Phase("tune", 1, 0, 1)
        self.noise = torch.Generator().manual_seed(derive_seed(context.settings.seed, "gumbel"))

    @abstractmethod
    def objective(self, batch: Batch) -> Tensor:
        """The method's loss on one batch, without regularizers of the quantizers."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """One step: sample bits while searching, then the objective and its regularizers."""
        searching = self.phase.name == "search"
        if searching:
            self.allocator.draw(self.network, batch_idx / self.phase.steps, self.noise)
        loss = self.objective(batch)
        l2 = self.context.settings.training.threshold_l2
        if l2 > 0 and self.config.activation_quantizer == "pact":
            loss = loss + l2 * self.network.threshold_penalty()
        if searching:
            loss = loss + self.allocator.bit_cost(self.network, self.budget.avg_bits)
        self.log_sometimes(batch_idx, {"loss": loss})
        return loss

    def log_sometimes(self, step: int, values: dict[str, Tensor]) -> None:
        """Log every N steps: Lightning's `log` at every step costs half a training step."""
        if step % self.context.settings.training.log_every == 0:
            for name, value in values.items():
                self.log(f"{self.phase.name}/{name}", value.detach())
            if self.phase.name == "search":
                self.log("search/expected_bits", self.network.expected_bits().detach())

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Keep steps and thresholds above their floor."""
        self.network.clamp_quantizers()

    def phases(self) -> list[Phase]:
        """One fit, or a search and a tail that share the same number of steps."""
        (whole,) = super().phases()
        return self.quantized_phases(whole)

    def quantized_phases(self, whole: Phase) -> list[Phase]:
        """The fits of the quantized network, which share the steps of the whole."""
        return self.allocator.phases(whole)

    def begin(self, phase: Phase) -> None:
        """Fix the bits before the phase that trains at them."""
        self.phase = phase
        if phase.name != "tune":
            return
        bits = self.choose_bits()
        if self.allocator.restarts():
            self.network.reset(self.origin, self.calibration_rows())
        self.network.select_bits(bits)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Adam without weight decay; steps, thresholds and bit logits have rates of their own."""
        settings = self.context.settings
        quantizers = self.network.quantizer_parameters()
        special: list[nn.Parameter] = list(quantizers)
        groups: list[dict[str, Any]] = [
            {"params": quantizers, "lr": settings.training.quantizer_lr},
        ]
        logits = self.network.policy_logits
        if logits is not None:
            special.append(logits)
            if self.phase.name == "search":
                groups.append({"params": [logits], "lr": settings.policy.lr})
        ids = {id(parameter) for parameter in special}
        weights = [p for p in self.network.parameters() if id(p) not in ids]
        groups.insert(0, {"params": weights, "lr": settings.training.lr})
        optimizer = torch.optim.Adam(groups, fused=True)
        factor = cosine(self.phase.horizon)

        def scheduled(step: int) -> float:
            return factor(step + self.phase.offset)

        warmup = settings.policy.warmup * self.phase.steps

        def after_warmup(step: int) -> float:
            return 0.0 if step < warmup else 1.0

        factors: list[Callable[[int], float]] = [scheduled, scheduled, after_warmup]
        factors = factors[: len(groups)]
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, list(factors))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def distillation(logits: Tensor, teacher_logits: Tensor) -> Tensor:
    """KL(teacher || student) in nats, mean over rows; logits (B, C)."""
    student, teacher = F.log_softmax(logits, 1), F.log_softmax(teacher_logits, 1)
    return F.kl_div(student, teacher, reduction="batchmean", log_target=True)
