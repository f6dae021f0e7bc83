"""MixedPrec-QAT: label QAT at bits that an accuracy-oriented allocator chose (paper, Table 1).

The bits come from HAWQ or HAQ (`conf/method/mixed_hawq.yaml`, `mixed_haq.yaml`), whatever the
budget; the training is that of LSQ.
"""

from torch import Tensor
from torch.nn import functional as F

from cfq_bench.config.qat import QATSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.methods.qat import QATMethod


class Config(QATSettings):
    """MixedPrec has no settings of its own."""

    def auto_allocator(self, uniform: bool) -> str:
        """Its own allocator, also where uniform bits would spend the budget."""
        return self.mixed_allocator


class MixedPrec(QATMethod):
    """Cross-entropy on the labels, at bits that are chosen before training."""

    def objective(self, batch: Batch) -> Tensor:
        """Cross-entropy (nats), mean over the batch."""
        x, y, _ = batch
        return F.cross_entropy(self(x), y)
