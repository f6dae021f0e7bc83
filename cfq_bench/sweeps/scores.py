"""From the records of a point to its value, its constraints and the choice among points."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cfq_bench.record.record import Record
from cfq_bench.sweeps.settings import Bound, SweepSettings

DIGITS = 12
"""Constraints are rounded to these: exactly 5 % below the budget is within 5 %."""


@dataclass(frozen=True)
class Score:
    """What a point is worth.

    Attributes:
        values: the mean over seeds of each objective; empty where there is none.
        constraints: by name; at most 0 is kept.
        reason: why there is no value.
    """

    values: list[float] = field(default_factory=list)
    constraints: dict[str, float] = field(default_factory=dict)
    reason: str | None = None


def score(sweep: SweepSettings, records: Sequence[Record]) -> Score:
    """The mean over the seeds' records, or the reason why there is none."""
    for record in records:
        seed = record.config["seed"]
        if record.status != "ok":
            return Score(reason=f"seed {seed}: {record.reason}")
        for key in (*sweep.objectives, *sweep.constraints):
            if record.metrics.get(key) is None:
                return Score(reason=f"seed {seed}: {key} is undefined")
    constraints: dict[str, float] = {}
    for key, bound in sweep.constraints.items():
        constraints |= _violations(key, bound, [_metric(record, key) for record in records])
    if sweep.budget_tolerance is not None:
        off = [
            abs(_metric(record, "deploy/avg_bits") / record.config["budget"]["avg_bits"] - 1)
            for record in records
        ]
        constraints["budget"] = max(off) - sweep.budget_tolerance
    return Score(
        [_mean([_metric(record, key) for record in records]) for key in sweep.objectives],
        {name: round(value, DIGITS) for name, value in constraints.items()},
    )


def feasible(constraints: dict[str, float]) -> bool:
    """Whether every constraint is kept.

    >>> feasible({"budget": 0.0, "task/acc at_least": 0.01})
    False
    """
    return all(value <= 0 for value in constraints.values())


def rank(sweep: SweepSettings, values: Sequence[float]) -> tuple[float, ...]:
    """Orders points: least is best by the first objective, then by the others."""
    signs = [-1 if direction == "maximize" else 1 for direction in sweep.directions]
    return tuple(sign * value for sign, value in zip(signs, values, strict=True))


def _violations(key: str, bound: Bound, values: list[float]) -> dict[str, float]:
    found = {}
    if bound.at_least is not None:
        found[f"{key} at_least"] = bound.at_least - _mean(values)
    if bound.at_most is not None:
        found[f"{key} at_most"] = _mean(values) - bound.at_most
    if bound.within is not None:  # a drift up at one seed and down at the other does not cancel
        found[f"{key} within"] = _mean([abs(value) for value in values]) - bound.within
    return found


def _metric(record: Record, key: str) -> float:
    value = record.metrics[key]
    if value is None:
        raise ValueError(f"run {record.run_id} has no {key}")
    return value


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
