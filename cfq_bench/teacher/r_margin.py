"""R-Margin: a teacher with a margin at its own recourse points (paper, E.1).

    CE(f(x), y) + weight * max(0, gamma - m_f(x + delta_f))

where m_f is the target margin and delta_f the K-step action on f as it is now: the points move with
the model, without a gradient through the steps. The paper gives neither the weight nor gamma.
"""

from torch import Tensor
from torch.nn import functional as F

from cfq_bench.actions.outcome import target_margin
from cfq_bench.backbones.batch_norm import running_statistics
from cfq_bench.config.base import Positive
from cfq_bench.config.teacher import RecourseTeacherSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.teacher.base import TeacherObjective
from cfq_bench.teacher.points import present_points


class Config(RecourseTeacherSettings):
    """Settings of R-Margin."""

    gamma: Positive
    """Margin that the hinge asks for, in logits."""
    valid_only: bool
    """Leave out points where the model itself does not give the target: they are no recourse."""


class RMargin(TeacherObjective):
    """Cross-entropy on the labels and a hinge at the model's own recourse points."""

    def loss(self, batch: Batch) -> Tensor:
        """The objective (nats and logits), means over the batch and over the points."""
        x, y, _ = batch
        config = self.config
        with running_statistics(self):  # points are no sample of the data
            points = present_points(self, self.context.space, x, config)
            if config.valid_only:
                points = points.take(points.valid)
            margin = target_margin(self(points.inputs), points.target)
        loss: Tensor = F.cross_entropy(self(x), y) + config.weight * hinge(margin, config.gamma)
        return loss


def hinge(margin: Tensor, gamma: float) -> Tensor:
    """Mean of max(0, gamma - m) over P margins in logits; 0 where there is none.

    >>> import torch
    >>> hinge(torch.tensor([0.25, 2.0]), 1.0)
    tensor(0.3750)
    """
    return (gamma - margin).clamp_min(0.0).sum() / max(1, len(margin))
