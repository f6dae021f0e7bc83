"""Rows per second of the solvers, on one core."""

import statistics
from collections.abc import Iterator

import torch

from benchmarks.task import Task, real_task
from benchmarks.timing import Measurement, interleave, wall
from cfq_bench.actions.solver import make_solver
from cfq_bench.config.loader import load_settings

KAPPA = 0.1


def measure(repeats: int) -> Iterator[Measurement]:
    with real_task("compas") as task:
        yield from _measure(task, repeats, {"pgd": 5_000.0, "search": 1_000.0})
    with real_task("german") as task:
        yield from _measure(task, repeats, {"pgd": None, "search": None})


def _measure(task: Task, repeats: int, limits: dict[str, float | None]) -> Iterator[Measurement]:
    x = task.data.test.x
    with torch.no_grad():
        target = 1 - task.teacher(x).argmax(1)
    solvers = {name: make_solver(load_settings(solver=name).solver) for name in limits}

    def side(name: str) -> object:
        return solvers[name].solve(task.teacher, task.space, x, target, KAPPA)

    seconds = interleave(
        {"pgd": wall(lambda: side("pgd")), "search": wall(lambda: side("search"))}, repeats
    )
    for name, limit in limits.items():
        yield Measurement(
            f"{name} solver, {task.name}",
            len(x) / statistics.median(seconds[name]),
            "rows/s",
            {name: seconds[name]},
            limit=limit,
            at_least=True,
            note=f"{len(x)} test rows to the opposite class, kappa {KAPPA}",
        )
