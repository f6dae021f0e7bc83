"""The projection onto the action set, which every gradient step of a solver calls."""

import statistics
import sys
from collections.abc import Iterator

import torch

from benchmarks.task import at_hand, real_task
from benchmarks.timing import Measurement, interleave, wall

ROWS = 100_000
LIMIT_MS = 50.0


def measure(repeats: int) -> Iterator[Measurement]:
    for name in ("compas", "german", "adult"):
        if not at_hand(name):
            print(f"  left out {name}: its files are not at hand", file=sys.stderr)
            continue
        with real_task(name) as task:
            train = task.data.train.x
            origin = train.repeat(-(-ROWS // len(train)), 1)[:ROWS]
            noise = torch.randn(origin.shape, generator=torch.Generator().manual_seed(0))
            point = origin + noise
            space = task.space
            work = wall(
                lambda space=space, origin=origin, point=point: space.project(origin, point)
            )
            seconds = interleave({"project": work}, repeats)
        yield Measurement(
            f"projection, {name}",
            statistics.median(seconds["project"]) * 1e3,
            "ms",
            seconds,
            limit=LIMIT_MS if name == "adult" else None,
            note=f"{ROWS:,} rows of {origin.shape[1]} columns",
        )
