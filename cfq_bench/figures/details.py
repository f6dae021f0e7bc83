"""Figures of what a record's details hold: groups, margins, bits of layers."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from cfq_bench.figures.bars import grouped_bars
from cfq_bench.figures.builders import TEACHER
from cfq_bench.figures.curves import ranges
from cfq_bench.figures.kinds import Builder
from cfq_bench.figures.series import (
    Measure,
    Panel,
    Place,
    Series,
    axis_label,
    of_row,
    one_kind,
    over_seeds,
    panels_of,
    rows_of,
    tabulate,
)
from cfq_bench.results.collect import Result
from cfq_bench.statistics.summary import Summary

GROUPS = "groups"
MARGINS = "margins"
BITS = "deploy/bits_per_layer"
SENSITIVITIES = "sensitivities"


def by_group(*metrics: str) -> Builder:
    """Bars by protected group, a row of the page for each attribute of a data set.

    Args:
        metrics: as groups in a record's details name them, such as ``vd``.
    """

    def build(results: Sequence[Result]) -> Figure:
        rows = rows_of(results)

        def series(part: list[Result], attribute: str, key: str) -> tuple[Series, ...]:
            def value(row: str, group: Place) -> Summary | None:
                return over_seeds(of_row(part, row), _of_group(attribute, group, key))

            return tabulate(rows, _groups(part)[attribute], value)

        page = [
            [
                Panel(
                    f"{title}, {attribute}",
                    axis_label(f"recourse/{key}"),
                    series(part, attribute, key),
                )
                for key in metrics
            ]
            for title, part in panels_of(results).items()
            for attribute in _groups(part)
        ]
        return grouped_bars(page)

    return build


def margins(results: Sequence[Result]) -> Figure:
    """Quantiles of the target margin at the teacher's actions, on f and on each f_q."""
    rows = {TEACHER: "fp32", **rows_of(results)}
    levels = [line["quantile"] for line in results[0].record.details[MARGINS]]

    def series(part: list[Result]) -> tuple[Series, ...]:
        def value(row: str, level: Place) -> Summary | None:
            if row == TEACHER:
                return over_seeds(part, _quantile(level, "teacher"))
            return over_seeds(of_row(part, row), _quantile(level, "quantized"))

        return tabulate(rows, levels, value)

    return ranges(one_kind(results, "target margin (logits)", series))


def layer_bits(results: Sequence[Result]) -> Figure:
    """Weight bits of every layer."""
    rows = rows_of(results)
    layers = list(dict.fromkeys(name for r in results for name in r.record.details[BITS]))

    def series(part: list[Result]) -> tuple[Series, ...]:
        def value(row: str, layer: Place) -> Summary | None:
            return over_seeds(of_row(part, row), lambda r: r.record.details[BITS].get(layer))

        return tabulate(rows, layers, value)

    return grouped_bars(one_kind(results, "weight bits", series))


def sensitivities(results: Sequence[Result]) -> Figure:
    """Sensitivity of the teacher's layers at people as they are and where recourse leads.

    Each kind is relative to its greatest: the two have no common unit.
    """
    kinds = {"factual": "lsq", "counterfactual": "cfq"}  # as their colours: labels, and recourse
    lines = [line for r in results for line in r.record.details[SENSITIVITIES]]
    layers = list(dict.fromkeys(line["layer"] for line in lines))

    def series(part: list[Result]) -> tuple[Series, ...]:
        # The teacher is that of every row: one row tells it all.
        one = of_row(part, part[0].row)

        def value(kind: str, layer: Place) -> Summary | None:
            return over_seeds(one, _sensitivity(layer, kind))

        return tabulate(kinds, layers, value)

    return grouped_bars(one_kind(results, "relative sensitivity", series))


def _sensitivity(layer: Place, kind: str) -> Measure:
    def measure(result: Result) -> float | None:
        lines = result.record.details[SENSITIVITIES]
        values = {line["layer"]: _number(line[kind]) for line in lines}
        greatest = max((value or 0.0 for value in values.values()), default=0.0)
        found = values.get(str(layer))
        return None if found is None or greatest == 0.0 else found / greatest

    return measure


def _groups(results: Sequence[Result]) -> dict[str, list[str]]:
    """Groups by protected attribute."""
    found: dict[str, dict[str, None]] = {}
    for line in (line for r in results for line in r.record.details[GROUPS]):
        found.setdefault(line["attribute"], {})[line["group"]] = None
    return {attribute: list(groups) for attribute, groups in found.items()}


def _of_group(attribute: str, group: Place, key: str) -> Measure:
    """A group's metric; undefined with fewer rows than may take part in the worst group."""

    def measure(result: Result) -> float | None:
        least: int = result.record.config["evaluation"]["group_min_rows"]
        place = (attribute, group, key)
        for line in result.record.details[GROUPS]:
            if (line["attribute"], line["group"], line["metric"]) == place:
                return _number(line["value"]) if line["count"] >= least else None
        return None

    return measure


def _quantile(level: Place, column: str) -> Measure:
    def measure(result: Result) -> float | None:
        lines = result.record.details[MARGINS]
        return next((_number(n[column]) for n in lines if n["quantile"] == level), None)

    return measure


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
