"""What a solver answers, for each row."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

Model = Callable[[Tensor], Tensor]
"""Any callable from inputs (B, ...) to logits (B, classes), in evaluation mode."""


class Status(IntEnum):
    """Why a row has an action, or none."""

    FOUND = 0
    NOT_FOUND = 1
    """The search is exhausted; an action may still exist."""
    INFEASIBLE = 2
    """Proved: no action in A(x) reaches the target at the required margin."""
    NOT_NEEDED = 3
    """The model gives the target already."""


@dataclass(frozen=True)
class Solution:
    """Answers for B rows.

    Attributes:
        point: (B, D) where the action leads; the origin itself unless the status is FOUND.
        status: (B,) int8, `Status`.
        cost: (B,) float32: 0 where not needed, inf where there is no action.
        margin: (B,) float32: target margin of the model at `point`, in logits.
    """

    point: Tensor
    status: Tensor
    cost: Tensor
    margin: Tensor

    @property
    def found(self) -> Tensor:
        """(B,) bool."""
        return self.status == Status.FOUND

    @property
    def solved(self) -> Tensor:
        """(B,) bool: found, or not needed."""
        return self.found | (self.status == Status.NOT_NEEDED)


def target_margin(logits: Tensor, target: Tensor) -> Tensor:
    """m(u) = g(u)_tgt - max over the other classes of g(u).

    Args:
        logits: (B, C) float.
        target: (B,) int64 in [0, C).

    Returns:
        (B,) float; positive where the target is predicted.

    >>> target_margin(torch.tensor([[1.0, 3.0]]), torch.tensor([1]))
    tensor([2.])
    """
    wanted = logits.gather(1, target[:, None])
    others = logits.scatter(1, target[:, None], -torch.inf)
    return wanted[:, 0] - others.amax(dim=1)
