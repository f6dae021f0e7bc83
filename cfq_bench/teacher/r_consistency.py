"""R-Consistency: predictors that agree at recourse points (paper, E.1).

    mean over m of CE(f_m(x), y) + weight * disagreement of the f_m at x + delta

where delta is the K-step action on the ensemble's average as it is now, the same for all members.
What becomes the teacher is one member, or the ensemble's average distilled into one network.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.backbones.batch_norm import running_statistics
from cfq_bench.config.teacher import RecourseTeacherSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.teacher.base import TeacherContext, TeacherObjective
from cfq_bench.teacher.points import present_points


class Config(RecourseTeacherSettings):
    """Settings of R-Consistency."""

    members: Annotated[int, Field(ge=2)]
    """M, predictors that differ in their initialization; all see the same batches."""
    deploy: Literal["member", "distilled"]
    """The teacher: the first member, or a network trained on the ensemble's average afterwards."""


class RConsistency(TeacherObjective):
    """Cross-entropy of every member and the spread of their logits at shared recourse points."""

    def __init__(self, config: Any, context: TeacherContext) -> None:
        super().__init__(config, context)
        self.is_member = config.deploy == "member"
        numbers = range(1, config.members + (0 if self.is_member else 1))
        self.others = nn.ModuleList(map(context.sibling, numbers))

    def members(self) -> list[nn.Module]:
        """The predictors; the network that becomes the teacher is the first, or none of them."""
        return [self.network, *self.others] if self.is_member else [*self.others]

    def average(self, x: Tensor) -> Tensor:
        """Mean logits of the members (B, C)."""
        return self.every(x).mean(0)

    def every(self, x: Tensor) -> Tensor:
        """Logits of each member (M, B, C)."""
        return torch.stack([member(x) for member in self.members()])

    def loss(self, batch: Batch) -> Tensor:
        """The objective (nats and squared logits), means over members, rows and points."""
        x, y, _ = batch
        with running_statistics(self):  # points are no sample of the data
            points = present_points(self.average, self.context.space, x, self.config)
        task = torch.stack([F.cross_entropy(logits, y) for logits in self.every(x)]).mean()
        with running_statistics(self):
            spread = disagreement(self.every(points.inputs))
        loss: Tensor = task + self.config.weight * spread
        return loss

    def then(self) -> TeacherObjective | None:
        """Distil the average, where the teacher is none of the members."""
        if self.is_member:
            return None
        self.others.eval()  # its batch norms have their statistics now
        return _Distilled(self.config, self.context, self.average)


class _Distilled(TeacherObjective):
    """Trains the network on the output of a finished ensemble, without labels."""

    def __init__(
        self, config: Any, context: TeacherContext, average: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__(config, context)
        self.average = average

    def loss(self, batch: Batch) -> Tensor:
        """KL(average || network) at x (nats), mean over the batch."""
        x, _, _ = batch
        with torch.no_grad():
            wanted = F.log_softmax(self.average(x), 1)
        return F.kl_div(F.log_softmax(self(x), 1), wanted, reduction="batchmean", log_target=True)


def disagreement(logits: Tensor) -> Tensor:
    """Mean squared distance of M members' logits (M, P, C) from their average; 0 for P = 0.

    >>> disagreement(torch.tensor([[[0.0, 1.0]], [[2.0, 1.0]]]))
    tensor(0.5000)
    """
    spread = (logits - logits.mean(0)).square()
    return spread.sum() / max(1, spread.numel())
