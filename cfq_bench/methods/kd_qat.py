"""KD-QAT: the control that distils the teacher at factual inputs only, without labels.

The paper has no such row; it takes much of the gain that label QAT's drift costs.
"""

from torch import Tensor

from cfq_bench.config.qat import QATSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.methods.qat import QATMethod, distillation


class Config(QATSettings):
    """KD-QAT has no settings of its own."""


class KDQAT(QATMethod):
    """KL to the teacher's soft output at x."""

    def objective(self, batch: Batch) -> Tensor:
        """KL(teacher || student) at x (nats), mean over the batch."""
        x, _, rows = batch
        return distillation(self(x), self.context.teacher_logits[rows])
