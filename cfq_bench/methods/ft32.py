"""FT32: the control that tells how much of VD is continued training and not bits."""

import copy
from typing import Any

import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.config.base import MethodSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.methods.base import Context, Method, Phase
from cfq_bench.methods.fp32 import float_deployment
from cfq_bench.training.trainer import cosine


class Config(MethodSettings):
    """FT32 has no settings of its own."""


class FT32(Method):
    """The teacher fine-tuned on labels in full precision, for as many steps as label QAT."""

    def __init__(self, config: MethodSettings, context: Context) -> None:
        super().__init__(config, context)
        self.network = copy.deepcopy(context.teacher)
        for parameter in self.network.parameters():
            parameter.requires_grad_(True)
        self.horizon = 1

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, C)."""
        logits: Tensor = self.network(x)
        return logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Cross-entropy on the labels."""
        x, y, _ = batch
        loss = F.cross_entropy(self(x), y)
        if batch_idx % self.context.settings.training.log_every == 0:
            self.log("tune/loss", loss.detach())
        return loss

    def begin(self, phase: Phase) -> None:
        """Take the length of the schedule."""
        self.horizon = phase.horizon

    def deployed(self) -> nn.Module:
        """The fine-tuned network."""
        return self.network

    def deployment(self) -> dict[str, Any]:
        """32 bits everywhere."""
        return float_deployment(self.network)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Adam and cosine, as label QAT."""
        rate = self.context.settings.training.lr
        optimizer = torch.optim.Adam(self.network.parameters(), lr=rate, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(self.horizon))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
