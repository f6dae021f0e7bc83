"""Recourse by protected group: every metric by attribute and value, worst group, largest gap.

Long format: names of attributes and groups are values, never parts of a key. Numbers come from the
per-row results, so they are over the same populations as the record's metrics.

The worst of several groups is above their mean even where all are alike, the more so the smaller
they are: read a gap beside the groups' intervals.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from cfq_bench.evaluation.intervals import (
    UNKNOWN,
    Interval,
    bootstrap_mean,
    mean_of_rates,
    wilson,
)
from cfq_bench.seeds import derive_seed

METRICS = ("acc", "vd", "vd_adverse", "boundary_error", "crg", "crg_abs")
WORST_IS_HIGHEST = ("vd", "boundary_error", "crg")
"""Metrics whose worst group is reported; CRG's is the one whose recourse grew dearest."""
GAPS = ("acc", "vd", "boundary_error", "crg")
"""Metrics whose gap is reported: the greatest value less the least (Table 10)."""


@dataclass(frozen=True)
class GroupValue:
    """One metric of one group; NaN where no row is behind it.

    Attributes:
        attribute: the protected attribute.
        group: its value.
        metric: one of `METRICS`.
        value: the metric over the group's rows.
        count: rows behind it; for boundary error those of the smaller direction.
        low: 95 % interval from here (`cfq_bench.evaluation.intervals`),
        high: to here.
    """

    attribute: str
    group: str
    metric: str
    value: float
    count: int
    low: float
    high: float


def group_values(
    rows: pd.DataFrame,
    correct: np.ndarray,
    groups: pd.DataFrame,
    *,
    cost_epsilon: float,
    seed: int,
) -> list[GroupValue]:
    """Every metric of every group.

    Args:
        rows: per-row results (`row_table`), with a ``group_...`` column per attribute.
        correct: (N,) bool, which test rows f_q classifies right.
        groups: the attributes of the test rows, in the same order.
        cost_epsilon: as for CRG.
        seed: of the bootstrap.
    """
    out = []
    for attribute in groups.columns:
        own = groups[attribute].to_numpy()
        of_row = rows[f"group_{attribute}"].to_numpy()
        for group in sorted(set(own)):
            part = _values(
                rows[of_row == group],
                correct[own == group],
                cost_epsilon,
                derive_seed(seed, "groups", attribute, str(group)),
            )
            for metric, (value, count, interval) in zip(METRICS, part, strict=True):
                out.append(GroupValue(attribute, str(group), metric, value, count, *interval))
    return out


def _values(
    rows: pd.DataFrame, correct: np.ndarray, cost_epsilon: float, seed: int
) -> Iterator[tuple[float, int, Interval]]:
    """Value, rows and interval of one group, in the order of `METRICS`."""
    yield _rate(correct)
    found = rows[rows["status_f"] == "found"]
    favourable = found[found["direction"] == "favourable"]
    adverse = found[found["direction"] == "adverse"]
    vd, twin = (_rate(~part["valid_q"].to_numpy(dtype=bool)) for part in (favourable, adverse))
    yield vd
    yield twin
    pair = (vd[0] + twin[0]) / 2
    yield pair, min(vd[1], twin[1]), mean_of_rates((vd[0], twin[0]), (vd[2], twin[2]))
    both = favourable[favourable["status_q"] == "found"]
    cost_f, cost_q = (both[name].to_numpy(dtype=np.float64) for name in ("cost_f", "cost_q"))
    gap = (cost_q - cost_f) / (cost_f + cost_epsilon)
    yield _mean(gap, seed)
    yield _mean(np.abs(gap), seed)


def _rate(flags: np.ndarray) -> tuple[float, int, Interval]:
    count, hits = len(flags), int(flags.sum())
    return (hits / count if count else np.nan), count, wilson(hits, count)


def _mean(values: np.ndarray, seed: int) -> tuple[float, int, Interval]:
    if not len(values):
        return np.nan, 0, UNKNOWN
    return float(values.mean()), len(values), bootstrap_mean(values, seed)


def group_metrics(
    values: list[GroupValue], least_rows: int
) -> tuple[dict[str, float], dict[str, int]]:
    """The ``group/`` metrics, and the rows behind each (of the smaller group, for a gap).

    The worst group is the worst over all attributes; a gap is the largest over the attributes of
    the gap between two groups of one. A group of one attribute is not compared with one of another.

    Args:
        values: from `group_values`.
        least_rows: groups with fewer rows behind a metric take no part in its worst and its gap.
    """
    metrics: dict[str, float] = {}
    counts: dict[str, int] = {}
    for metric in GAPS:
        fit = [v for v in values if v.metric == metric and v.count >= least_rows]
        if metric in WORST_IS_HIGHEST:
            worst = max(fit, key=lambda v: v.value, default=None)
            metrics[f"group/{metric}_worst"] = np.nan if worst is None else worst.value
            counts[f"group/{metric}_worst"] = 0 if worst is None else worst.count
        gap, count = max(_gaps(fit), key=lambda pair: pair[0], default=(np.nan, 0))
        metrics[f"group/{metric}_gap"] = gap
        counts[f"group/{metric}_gap"] = count
    return metrics, counts


def _gaps(fit: list[GroupValue]) -> Iterator[tuple[float, int]]:
    """The gap within each attribute that has two groups, with the rows of the smaller one."""
    for attribute in sorted({value.attribute for value in fit}):
        own = sorted((v for v in fit if v.attribute == attribute), key=lambda v: v.value)
        if len(own) > 1:
            yield own[-1].value - own[0].value, min(own[0].count, own[-1].count)


def as_lines(values: list[GroupValue]) -> list[dict[str, object]]:
    """For a record's details."""
    return [asdict(value) for value in values]
