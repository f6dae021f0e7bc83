"""LSQ: label quantization-aware training with learned steps (Esser et al. 2020)."""

from torch import Tensor
from torch.nn import functional as F

from cfq_bench.config.qat import QATSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.methods.qat import QATMethod


class Config(QATSettings):
    """LSQ has no settings of its own."""


class LSQ(QATMethod):
    """Cross-entropy on the labels; LSQ steps for weights and activations."""

    def objective(self, batch: Batch) -> Tensor:
        """Cross-entropy (nats), mean over the batch."""
        x, y, _ = batch
        return F.cross_entropy(self(x), y)
