"""PACT: label quantization-aware training with learned clipping (Choi et al. 2018)."""

from torch import Tensor
from torch.nn import functional as F

from cfq_bench.config.qat import QATSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.methods.qat import QATMethod


class Config(QATSettings):
    """PACT has no settings of its own."""


class PACT(QATMethod):
    """Cross-entropy on the labels; LSQ steps for weights, PACT thresholds for activations."""

    def objective(self, batch: Batch) -> Tensor:
        """Cross-entropy (nats), mean over the batch."""
        x, y, _ = batch
        return F.cross_entropy(self(x), y)
