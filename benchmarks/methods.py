"""What CFQ costs over plain quantization-aware training, and CF-PTQ over PTQ: whole fits."""

import statistics
from collections.abc import Iterator

from benchmarks.task import Task, real_task
from benchmarks.timing import Measurement, compare, interleave
from cfq_bench.methods.base import fit_method

BITS = "budget.avg_bits=4"
PAIRED = "whole runs, uniform 4 bits, the same optimizer steps"


def measure(repeats: int) -> Iterator[Measurement]:
    for name, limited in (("compas", True), ("german", False)):
        with real_task(name) as task:
            yield from _measure(task, repeats, limited)
            yield from _measure_ptq(task, repeats)


def _measure(task: Task, repeats: int, limited: bool) -> Iterator[Measurement]:
    actions: dict[str, list[float]] = {"cached": [], "pool": []}

    def run(method: str, *overrides: str, apart: list[float] | None = None) -> float:
        """Seconds of the fit, actions included unless `apart` takes them."""
        model = task.method(method, BITS, *overrides)
        seconds = fit_method(model)
        actions = model.context.seconds.get("teacher_actions_s", 0.0)
        if apart is None:
            return seconds + actions
        apart.append(actions)
        return seconds

    sides = {
        "pact": lambda: run("pact"),
        "on_the_fly": lambda: run("cfq", "method.source=on_the_fly", "method.steps=3"),
        "cached": lambda: run(
            "cfq", "method.source=cached", "method.steps=3", apart=actions["cached"]
        ),
        "kd_qat": lambda: run("kd_qat"),
        "pool": lambda: run("cfq_distilled", "method.epoch_factor=1.0", apart=actions["pool"]),
    }
    seconds = interleave(sides, repeats)
    yield compare(
        f"CFQ K=3 on the fly / PACT, {task.name}",
        seconds,
        "on_the_fly",
        "pact",
        limit=3.2 if limited else None,
        aim=2.0 if limited else None,
        note=PAIRED,
    )
    yield compare(
        f"CFQ cached / PACT, {task.name}",
        seconds,
        "cached",
        "pact",
        limit=1.35 if limited else None,
        note=f"{PAIRED}; the actions apart",
    )
    yield compare(
        f"CFQ distilled / KD-QAT, {task.name}",
        seconds,
        "pool",
        "kd_qat",
        note=f"{PAIRED}; the pool apart",
    )
    rows = len(task.data.train)
    yield Measurement(
        f"cached actions, once, {task.name}",
        statistics.median(actions["cached"]) * 1e3,
        "ms",
        {"cached": actions["cached"]},
        note=f"K=3 steps for {rows} train rows",
    )
    # Every later run reads the pool from the cache.
    yield Measurement(
        f"recourse pool, once, {task.name}",
        actions["pool"][0],
        "s",
        {"pool": actions["pool"]},
        note=f"search solver, {rows} train rows; the first repeat, the others read the cache",
    )


def _measure_ptq(task: Task, repeats: int) -> Iterator[Measurement]:
    """Calibration and allocation; the recourse pool is apart, as the actions are for CFQ."""
    mixed = "budget.avg_bits=3.5"
    sides = {
        "ptq": lambda: fit_method(task.method("ptq", BITS)),
        "mixed_ptq": lambda: fit_method(task.method("mixed_ptq", mixed)),
        "cf_ptq": lambda: fit_method(task.method("cf_ptq", mixed)),
    }
    seconds = interleave(sides, repeats)
    yield compare(
        f"mixed PTQ / PTQ, {task.name}",
        seconds,
        "mixed_ptq",
        "ptq",
        note="3.5 bits by sensitivity over uniform 4 bits; the paper has 1.08",
    )
    yield compare(
        f"CF-PTQ / PTQ, {task.name}",
        seconds,
        "cf_ptq",
        "ptq",
        limit=1.29,
        note="3.5 bits over uniform 4 bits, the recourse pool apart; the paper has 1.29",
    )
    ptq_ms = statistics.median(seconds["ptq"]) * 1e3
    yield Measurement(f"PTQ, {task.name}", ptq_ms, "ms", {"ptq": seconds["ptq"]})
