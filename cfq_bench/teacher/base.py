"""What a teacher objective provides: a LightningModule that trains a backbone."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor

from cfq_bench.actions.space import ActionSpace
from cfq_bench.backbones.base import Backbone
from cfq_bench.data.datamodule import Batch
from cfq_bench.training.trainer import LeanModule, cosine


@dataclass(frozen=True)
class TeacherContext:
    """What a teacher objective is given.

    Attributes:
        network: the backbone that becomes the teacher, trained in place.
        space: the action space; an objective that uses it says `uses_actions` in its Config.
        sibling: further backbones of the same kind, each number with an initialization of its own.
        weight_decay: L2 of the weights.
        total_steps: optimizer steps of one whole schedule.
    """

    network: Backbone
    space: ActionSpace
    sibling: Callable[[int], Backbone]
    weight_decay: float
    total_steps: int


class TeacherObjective(LeanModule, ABC):
    """Trains the context's network in full precision; subclasses define `loss`.

    Logs ``val_loss``, which decides the epoch whose weights are kept.

    Args:
        config: the teacher's settings.
        context: the network and what it is trained with.
    """

    def __init__(self, config: Any, context: TeacherContext) -> None:
        super().__init__()
        self.config = config
        self.context = context
        self.network = context.network

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, classes)."""
        logits: Tensor = self.network(x)
        return logits

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """The objective of one batch."""

    def then(self) -> "TeacherObjective | None":
        """A further fit, asked for when this one is done; None: the network is the teacher."""
        return None

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """One step on the objective."""
        return self.loss(batch)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Log the objective on the validation rows."""
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Adam with a cosine to 0 over the whole schedule."""
        optimizer = torch.optim.Adam(
            self.parameters(), lr=self.config.lr, weight_decay=self.context.weight_decay
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(self.context.total_steps))
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }
