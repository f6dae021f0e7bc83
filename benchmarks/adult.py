"""The solvers on Adult, the widest table: speed, and the memory of solving all its rows."""

import statistics
import sys
from collections.abc import Iterator

import torch

from benchmarks.memory import peaks_of
from benchmarks.task import Task, at_hand, real_task
from benchmarks.timing import Measurement, interleave, wall
from cfq_bench.actions.solver import CHUNK, make_solver
from cfq_bench.config.loader import load_settings

KAPPA = 0.1
LIMITS = {"pgd": 5_000.0, "search": 500.0}
MOST_MIB = 1024.0
"""Over what the imports take, which depends on the versions of libraries and not on this work."""


def measure(repeats: int) -> Iterator[Measurement]:
    if not at_hand("adult"):
        print("skipped adult: its raw files are not at hand", file=sys.stderr)
        return
    with real_task("adult") as task:
        yield from _speed(task, repeats)
        yield from _memory(task)


def _speed(task: Task, repeats: int) -> Iterator[Measurement]:
    """Rows are solved in chunks, so that the speed on one chunk is that on any number."""
    x = task.data.test.x[torch.from_numpy(task.rejected(CHUNK))]
    target = torch.ones(len(x), dtype=torch.int64)
    solvers = {name: make_solver(load_settings(solver=name).solver) for name in LIMITS}

    def side(name: str) -> object:
        return solvers[name].solve(task.teacher, task.space, x, target, KAPPA)

    seconds = interleave(
        {"pgd": wall(lambda: side("pgd")), "search": wall(lambda: side("search"))}, repeats
    )
    for name, limit in LIMITS.items():
        yield Measurement(
            f"{name} solver, adult",
            len(x) / statistics.median(seconds[name]),
            "rows/s",
            {name: seconds[name]},
            limit=limit,
            at_least=True,
            note=f"{len(x)} rejected test rows (a seeded sample), kappa {KAPPA}",
        )


def _memory(task: Task) -> Iterator[Measurement]:
    """The peak of a fresh process that reads data and teacher and solves all rejected rows."""
    peak = peaks_of("solve", task.name, task.cache.root)
    imports, process = peak["imported_mib"], peak["done_mib"]
    about = f"all {peak['rows']:.0f} rejected test rows, teacher from the cache"
    yield Measurement(
        "memory over imports, search on adult",
        process - imports,
        "MiB",
        limit=MOST_MIB,
        note=f"data, teacher and {about}",
    )
    yield Measurement(
        "peak memory of that process",
        process,
        "MiB",
        note=f"{imports:.0f} MiB are imports, {peak['loaded_mib'] - imports:.0f} data and teacher",
    )
