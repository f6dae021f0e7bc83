"""What quantizers add to a training step; bare loops, so that Lightning does not dilute it."""

import statistics
from collections.abc import Iterator

from benchmarks.loops import train_fp32, train_method
from benchmarks.task import Task, generated_task
from benchmarks.timing import Measurement, Side, compare, interleave, wall

STEPS = 300
NEVER_LOG = "training.log_every=1000000"
SIZE = "generated rows of Adult's size, MLP 104-64-32-2, batch 256"


def measure(repeats: int) -> Iterator[Measurement]:
    with generated_task() as task:
        sides = {
            "fp32": wall(lambda: train_fp32(task, STEPS)),
            "lsq": _side(task, "lsq", "budget.avg_bits=4"),
            "pact": _side(task, "pact", "budget.avg_bits=4"),
            "gumbel": _side(task, "pact", "budget.avg_bits=3.5", "budget.allocator=gumbel"),
        }
        seconds = interleave(sides, repeats)
    yield compare(
        "LSQ+PACT step / FP32 step, generated rows", seconds, "pact", "fp32", limit=2.8, note=SIZE
    )
    yield compare("LSQ step / FP32 step, generated rows", seconds, "lsq", "fp32", note=SIZE)
    yield compare(
        "bit search step / FP32 step, generated rows",
        seconds,
        "gumbel",
        "fp32",
        limit=4.0,
        note="LSQ+PACT with a Gumbel-Softmax sample of 4 candidates in every step",
    )
    step_ms = statistics.median(seconds["fp32"]) / STEPS * 1e3
    yield Measurement(
        "FP32 step, generated rows", step_ms, "ms", {"fp32": seconds["fp32"]}, note=SIZE
    )


def _side(task: Task, name: str, *overrides: str) -> Side:
    """Seconds of the loop alone: a method starts with a calibration of its steps."""

    def run() -> float:
        method = task.method(name, NEVER_LOG, *overrides)
        return wall(lambda: train_method(method, task, STEPS))()

    return run
