"""Recourse points of the teacher as a training signal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cfq_bench.actions.outcome import Model
from cfq_bench.actions.pgd import Keep, projected_gradient
from cfq_bench.actions.solver import Solver, in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.qat import Target


@dataclass(frozen=True)
class RecoursePoints:
    """P recourse points of the teacher.

    Attributes:
        rows: (P,) int64, the factual row that each point belongs to, among those asked about.
        point: (P, D) where the action leads, in the action space's coordinates.
        inputs: (P, ...) model inputs there.
        target: (P,) int64.
        valid: (P,) bool, whether the teacher gives the target there.
        logits: (P, C) the teacher's logits there.
    """

    rows: Tensor
    point: Tensor
    inputs: Tensor
    target: Tensor
    valid: Tensor
    logits: Tensor

    def take(self, index: Tensor) -> "RecoursePoints":
        """Some of the points."""
        return RecoursePoints(**{name: value[index] for name, value in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """By name, for a cache."""
        return dict(vars(self))

    @classmethod
    def join(cls, parts: Sequence["RecoursePoints"]) -> "RecoursePoints":
        """All points of several sets, in order."""
        tensors = [part.tensors() for part in parts]
        return cls(**{name: torch.cat([part[name] for part in tensors]) for name in tensors[0]})

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], device: torch.device) -> "RecoursePoints":
        """From a cache."""
        return cls(**{name: tensor.to(device) for name, tensor in tensors.items()})


def choose_targets(predicted: Tensor, policy: Target) -> tuple[Tensor, Tensor]:
    """The class that each row's action aims at, for binary tasks.

    Args:
        predicted: (B,) int64, the teacher's classes; 1 is favourable.
        policy: opposite: the other class; favourable: class 1 for all; rejected_only: class 1, for
            the rows that the teacher rejects.

    Returns:
        Targets (B,), and which rows take part (B,) bool.
    """
    if policy == "opposite":
        return 1 - predicted, torch.ones_like(predicted, dtype=torch.bool)
    takes_part = predicted == 0 if policy == "rejected_only" else predicted >= 0
    return torch.ones_like(predicted), takes_part


def teacher_actions(
    teacher: Model,
    space: ActionSpace,
    x: Tensor,
    policy: Target,
    *,
    steps: int,
    step_size: float,
    keep: Keep,
) -> RecoursePoints:
    """K-step teacher actions (paper, Section 4.1), one for each row.

    Rows that the teacher already gives the target need no action: their point is the factual. An
    image's is its reconstruction, which the teacher may see otherwise; it is then not valid.

    Args:
        teacher: inputs to logits.
        space: the action space.
        x: (B, ...) factual inputs.
        policy: which class each row aims at.
        steps: K.
        step_size: alpha.
        keep: which iterate; see `projected_gradient`.
    """
    with torch.no_grad():
        predicted = teacher(x).argmax(dim=1)
    target, takes_part = choose_targets(predicted, policy)
    point, valid = projected_gradient(
        teacher, space, x, target, kappa=0.0, steps=steps, step_size=step_size, keep=keep
    )
    with torch.no_grad():
        reached = predicted == target  # needs no action, as for a solver
        point = torch.where(reached[:, None], space.origin(x), point)
        inputs = space.to_input(point)
        logits = teacher(inputs)
        valid = torch.where(reached, logits.argmax(dim=1) == target, valid)
    rows = torch.arange(len(x), device=x.device)
    return RecoursePoints(rows, point, inputs, target, valid & takes_part, logits)


def recourse_pool(
    teacher: Model,
    space: ActionSpace,
    solver: Solver,
    x: Tensor,
    policy: Target,
    *,
    kappas: list[float],
) -> RecoursePoints:
    """Minimal-cost actions on the teacher, solved once and drawn from during training.

    Args:
        teacher: inputs to logits.
        space: the action space.
        solver: the search that looks for them.
        x: (P, ...) train rows, already sampled.
        policy: which class each row aims at.
        kappas: required margins; the rows are dealt out to them in turn.
    """
    with torch.no_grad():
        predicted = in_blocks(teacher)(x).argmax(dim=1)
    target, takes_part = choose_targets(predicted, policy)
    asked = takes_part.nonzero()[:, 0]
    parts = []
    for i, kappa in enumerate(kappas):
        rows = asked[i :: len(kappas)]
        solution = solver.solve(teacher, space, x[rows], target[rows], kappa)
        keep = solution.solved
        rows, point = rows[keep], solution.point[keep]
        with torch.no_grad():
            inputs = space.to_input(point)
            logits = in_blocks(teacher)(inputs)
        valid = solution.margin[keep] > 0
        parts.append(RecoursePoints(rows, point, inputs, target[rows], valid, logits))
    return RecoursePoints.join(parts)
