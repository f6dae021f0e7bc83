"""The standard teacher: cross-entropy on the labels."""

from torch import Tensor
from torch.nn import functional as F

from cfq_bench.config.base import Positive, TeacherSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.teacher.base import TeacherObjective


class Config(TeacherSettings):
    """Settings of standard training."""

    lr: Positive
    """Adam learning rate, cosine to 0 over `data.fit.teacher_epochs`."""


class Standard(TeacherObjective):
    """Minimises the cross-entropy on the labels."""

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy (nats), mean over the batch."""
        x, y, _ = batch
        return F.cross_entropy(self(x), y)
