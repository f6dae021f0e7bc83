"""The teacher's evaluation actions: solved once per (teacher, action set, solver), then cached."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cfq_bench.actions.outcome import Solution
from cfq_bench.actions.solver import Solver
from cfq_bench.actions.space import ActionSpace
from cfq_bench.backbones.base import Backbone
from cfq_bench.cache import Cache
from cfq_bench.config.settings import EvaluationSettings, Settings
from cfq_bench.data.dataset import Dataset
from cfq_bench.seeds import derive_seed
from cfq_bench.teacher.keys import recourse_key
from cfq_bench.training.trainer import Runtime


@dataclass(frozen=True)
class Direction:
    """Test rows that the teacher puts in one class, and actions to the other.

    Attributes:
        name: favourable (rejected rows, towards class 1) or adverse (accepted rows, towards 0).
        rows: (B,) int64 positions in the test split.
        x: (B, ...) factual inputs.
        target: (B,) int64.
        solutions: the teacher's actions by required margin.
    """

    name: str
    rows: Tensor
    x: Tensor
    target: Tensor
    solutions: dict[float, Solution]


def all_kappas(settings: EvaluationSettings) -> list[float]:
    """The headline margin first, then the others."""
    return [settings.kappa, *(k for k in settings.extra_kappas if k != settings.kappa)]


def teacher_recourse(
    settings: Settings,
    data: Dataset,
    teacher: Backbone,
    space: ActionSpace,
    solver: Solver,
    cache: Cache,
    runtime: Runtime,
) -> list[Direction]:
    """Solve both directions on the teacher at every margin, or read them from the cache.

    Raises:
        UserError: a cached file is corrupt.
    """
    with torch.no_grad():
        predicted = torch.cat([teacher(x).argmax(1) for x in data.test.blocks()])
    base_key = {
        **recourse_key(settings, data, space, runtime.device, __name__),
        "max_rows": settings.evaluation.max_rows,
    }
    directions = []
    for name, target in (("favourable", 1), ("adverse", 0)):
        rows = _sample((predicted != target).nonzero()[:, 0], settings, name)
        x = data.test.inputs(rows)
        targets = torch.full((len(rows),), target, device=x.device)

        def solve(kappa: float, name: str = name, x: Tensor = x, targets: Tensor = targets) -> Any:
            report = started(runtime, f"recourse on the teacher, {name}", len(x))
            solution = solver.solve(teacher, space, x, targets, kappa, report)
            runtime.progress.stop()
            return vars(solution)

        solutions = {}
        for kappa in all_kappas(settings.evaluation):
            key = {**base_key, "direction": name, "kappa": kappa}
            tensors = cache.get_or_make("teacher_recourse", key, partial(solve, kappa))
            on_device = {part: tensor.to(runtime.device) for part, tensor in tensors.items()}
            solutions[kappa] = Solution(**on_device)
        directions.append(Direction(name, rows, x, targets, solutions))
    return directions


def started(runtime: Runtime, what: str, total: int) -> Callable[[int], None]:
    """Start a progress bar and return what advances it."""
    runtime.progress.start(what, total)
    return runtime.progress.advance


def _sample(rows: Tensor, settings: Settings, name: str) -> Tensor:
    most = settings.evaluation.max_rows
    if most is None or len(rows) <= most:
        return rows
    generator = torch.Generator().manual_seed(derive_seed(settings.seed, "evaluation", name))
    chosen = torch.randperm(len(rows), generator=generator)[:most].sort().values
    return rows[chosen.to(rows.device)]
