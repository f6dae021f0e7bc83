"""Prune+Quant: the teacher is pruned, recovers on labels, and is quantized (paper, Table 29).

Structured pruning by magnitude or sensitivity, then label quantization-aware training.
"""

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from cfq_bench.config.compression import PruneSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.methods.stages import Pruned
from cfq_bench.quantization.pruning import magnitude, sensitivity


class Config(PruneSettings):
    """Settings of Prune+Quant."""

    criterion: Literal["magnitude", "sensitivity"]
    """What is removed: the smallest weights, or those whose loss changes least (first order)."""


class PruneQuant(Pruned):
    """Cross-entropy on the labels, of a pruned network."""

    config: Config

    def scores(self) -> list[Tensor]:
        """Size, or first-order change of the cross-entropy on the train rows."""
        unit = self.config.prune
        if self.config.criterion == "magnitude":
            return magnitude(self.origin, unit)
        x, y = self.scored_rows()

        def loss(logits: Tensor) -> Tensor:
            return F.cross_entropy(logits, y, reduction="none")

        return sensitivity(self.origin, unit, x, loss)

    def objective(self, batch: Batch) -> Tensor:
        """Cross-entropy (nats), mean over the batch."""
        x, y, _ = batch
        return F.cross_entropy(self(x), y)
