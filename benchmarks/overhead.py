"""The three parts of CFQ's training time (paper, Equation of Table 21), as shares of the first.

    T_CFQ(K) = T_QAT + T_recourse(K) + T_valid

One step runs factual rows and recourse points in a single pass, so no timer can tell T_valid from
T_QAT. Whole runs that differ in one term can: eta = 0 is T_QAT, points from before training add
T_valid, and points of K steps in every batch add T_recourse(K).
"""

import statistics
from collections.abc import Iterator, Mapping
from functools import partial

from benchmarks.task import Task, real_task
from benchmarks.timing import Measurement, interleave
from cfq_bench.methods.base import fit_method

BITS = "budget.avg_bits=4"
STEPS = (1, 2, 3)
"""K of Tables 11 and 21."""


def measure(repeats: int) -> Iterator[Measurement]:
    with real_task("compas") as task:
        sides = {
            "qat": partial(_fit, task, "method.eta=0"),
            "valid": partial(_fit, task, "method.source=cached"),
            **{
                f"k{k}": partial(_fit, task, "method.source=on_the_fly", f"method.steps={k}")
                for k in STEPS
            },
        }
        seconds = interleave(sides, repeats)
    yield _part("T_valid / T_QAT, compas", seconds, "valid", "qat")
    for k in STEPS:
        yield _part(f"T_recourse(K={k}) / T_QAT, compas", seconds, f"k{k}", "valid")
    for k in STEPS:
        yield _part(f"T_CFQ(K={k}) / T_QAT, compas", seconds, f"k{k}", None)


def _fit(task: Task, *overrides: str) -> float:
    """Seconds of a whole fit; what is done once before training (cached points) is left out."""
    method = task.method("cfq", BITS, *overrides)
    seconds = fit_method(method)
    every_batch = method.config.source == "on_the_fly"
    return seconds + (method.context.seconds.get("teacher_actions_s", 0.0) if every_batch else 0.0)


def _part(
    name: str, seconds: Mapping[str, list[float]], side: str, without: str | None
) -> Measurement:
    """Median over rounds of what a side takes beyond another, relative to T_QAT."""
    rounds = zip(seconds[side], seconds[without or side], seconds["qat"], strict=True)
    shares = [(a - (b if without else 0.0)) / qat for a, b, qat in rounds]
    sides = {key: seconds[key] for key in (side, without, "qat") if key is not None}
    return Measurement(
        name,
        statistics.median(shares),
        "x",
        sides,
        note="whole runs that differ in this term alone, uniform 4 bits",
    )
