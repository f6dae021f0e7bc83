"""Recourse points of the teacher as a training signal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.outcome import Model
from cfq_bench.actions.pgd import Keep, projected_gradient
from cfq_bench.actions.solver import Solver, in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.qat import Target
from cfq_bench.config.settings import Settings
from cfq_bench.data.dataset import TabularData
from cfq_bench.teacher.fit import teacher_key


@dataclass(frozen=True)
class RecoursePoints:
    """P recourse points of the teacher.

    Attributes:
        inputs: (P, ...) model inputs at x + delta_fp.
        target: (P,) int64.
        valid: (P,) bool, whether the teacher gives the target there.
        logits: (P, C) the teacher's logits there.
    """

    inputs: Tensor
    target: Tensor
    valid: Tensor
    logits: Tensor

    def take(self, rows: Tensor) -> "RecoursePoints":
        """Some of the points."""
        return RecoursePoints(
            self.inputs[rows], self.target[rows], self.valid[rows], self.logits[rows]
        )

    def tensors(self) -> dict[str, Tensor]:
        """For a cache."""
        return {
            "inputs": self.inputs,
            "target": self.target,
            "valid": self.valid,
            "logits": self.logits,
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], device: torch.device) -> "RecoursePoints":
        """From a cache."""
        return cls(**{name: tensor.to(device) for name, tensor in tensors.items()})


def recourse_key(
    settings: Settings, data: TabularData, space: ActionSet, device: torch.device
) -> dict[str, Any]:
    """What every answer of the solver on a teacher depends on, as JSON data for a cache."""
    return {
        **teacher_key(settings, data),
        "actions": space.fingerprint,
        "solver": settings.solver.model_dump(mode="json", exclude={"name"}),
        "device": device.type,
    }


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

    Rows that the teacher already gives the target need no action: their point is the factual.

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
    return RecoursePoints(inputs, target, (valid | reached) & takes_part, logits)


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
    x, target = x[takes_part], target[takes_part]
    parts = []
    for i, kappa in enumerate(kappas):
        rows = slice(i, None, len(kappas))
        solution = solver.solve(teacher, space, x[rows], target[rows], kappa)
        keep = solution.solved
        with torch.no_grad():
            inputs = space.to_input(solution.point[keep])
            logits = in_blocks(teacher)(inputs)
        parts.append(RecoursePoints(inputs, target[rows][keep], solution.margin[keep] > 0, logits))
    return RecoursePoints(
        torch.cat([part.inputs for part in parts]),
        torch.cat([part.target for part in parts]),
        torch.cat([part.valid for part in parts]),
        torch.cat([part.logits for part in parts]),
    )
