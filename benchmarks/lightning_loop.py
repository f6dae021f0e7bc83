"""What Lightning costs on a small network: our `fit` over a bare PyTorch loop."""

from collections.abc import Iterator

from benchmarks.loops import BATCH, train_fp32
from benchmarks.task import ADULT_ROWS, Task, generated_task
from benchmarks.timing import Measurement, compare, interleave, wall
from cfq_bench.methods.base import fit_method

EPOCHS = 4
STEPS = EPOCHS * (ADULT_ROWS // BATCH)


def measure(repeats: int) -> Iterator[Measurement]:
    with generated_task() as task:
        sides = {"lightning": lambda: _fit(task), "bare": wall(lambda: train_fp32(task, STEPS))}
        seconds = interleave(sides, repeats)
    yield compare(
        "Lightning loop / bare loop, generated rows",
        seconds,
        "lightning",
        "bare",
        limit=1.7,
        note=f"ft32, {STEPS} steps, rows of Adult's size, MLP 104-64-32-2, batch {BATCH}",
    )


def _fit(task: Task) -> float:
    return fit_method(task.method("ft32", f"data.fit.epochs={EPOCHS}"))
