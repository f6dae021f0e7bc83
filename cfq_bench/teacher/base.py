"""What a teacher objective provides: a LightningModule that trains a backbone."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor

from cfq_bench.backbones.base import Backbone
from cfq_bench.data.datamodule import Batch
from cfq_bench.training.trainer import LeanModule, cosine


class TeacherObjective(LeanModule, ABC):
    """Trains `network` in full precision; subclasses define `loss`.

    Logs ``val_loss``, which decides the epoch whose weights are kept.

    Args:
        config: the teacher's settings.
        network: the backbone, trained in place.
        weight_decay: L2 of the weights.
        total_steps: optimizer steps of the whole schedule.
    """

    def __init__(
        self, config: Any, network: Backbone, weight_decay: float, total_steps: int
    ) -> None:
        super().__init__()
        self.config = config
        self.network = network
        self.weight_decay = weight_decay
        self.total_steps = total_steps

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, classes)."""
        logits: Tensor = self.network(x)
        return logits

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """The objective of one batch."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """One step on the objective."""
        return self.loss(batch)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Log the objective on the validation rows."""
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Adam with a cosine to 0 over the whole schedule."""
        optimizer = torch.optim.Adam(
            self.network.parameters(), lr=self.config.lr, weight_decay=self.weight_decay
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(self.total_steps))
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }
