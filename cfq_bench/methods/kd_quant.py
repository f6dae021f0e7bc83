"""KD+Quant: a smaller student is distilled from the teacher, then quantized (paper, Table 29).

The paper names its training signal as the teacher's logits at factual inputs, so both stages, in
float and quantized, minimise the same divergence and no label is used. `kd_qat` differs: it distils
into a quantized copy of the teacher itself.
"""

from torch import Tensor

from cfq_bench.config.base import Positive
from cfq_bench.config.compression import StudentSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.methods.qat import distillation
from cfq_bench.methods.stages import Student


class Config(StudentSettings):
    """Settings of KD+Quant."""

    temperature: Positive
    """T: logits of both networks are divided by it (Hinton et al. 2015)."""


class KDQuant(Student):
    """KL to the teacher's softened output at x."""

    config: Config

    def objective(self, batch: Batch) -> Tensor:
        """T^2 KL(teacher / T || student / T) at x (nats), mean over the batch."""
        x, _, rows = batch
        heat = self.config.temperature
        return heat**2 * distillation(self(x) / heat, self.context.teacher_logits[rows] / heat)
