"""A suite's results by place: settings, data sets, rows, seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cfq_bench.errors import unknown_name
from cfq_bench.evaluation.keys import metric_info
from cfq_bench.record.archive import RowValidity
from cfq_bench.report.compare import setting_words
from cfq_bench.results.collect import Result
from cfq_bench.statistics.paired import RowValues

USUAL_BASELINES = ("LSQ", "FP32")
"""What rows are compared with where nothing is said: the first of these that a setting has."""
FULL_PRECISION_BITS = 32.0

Axes = tuple[tuple[str, str], ...]
Rows = Mapping[str, RowValidity]
"""Validity of the teacher's actions by run id, where it was kept."""


@dataclass(frozen=True)
class Place:
    """One cell: a data set under one setting.

    Attributes:
        data: the data set.
        axes: the other axes but the seed.
        rows: finished runs by row label and seed, rows in the suite's order.
    """

    data: str
    axes: Axes
    rows: dict[str, dict[int, Result]] = field(default_factory=dict)

    def by_seed(self, row: str, metric: str) -> dict[int, float]:
        """A metric of one row at every seed where it is defined."""
        runs = self.rows.get(row, {})
        found = {seed: result.value(metric) for seed, result in runs.items()}
        return {seed: value for seed, value in found.items() if value is not None}

    def failures(self, row: str, direction: str, kept: Rows) -> RowValues:
        """By seed and row id, 1 where the teacher's action failed on f_q and 0 where it held."""
        found = {}
        for seed, result in self.rows.get(row, {}).items():
            validity = kept.get(result.record.run_id, {}).get(direction)
            if validity is not None:
                found[seed] = validity.failures
        return found

    def full_precision(self, row: str) -> bool:
        """Whether a row deploys no quantized weights: a control, not a competitor."""
        bits = self.by_seed(row, "deploy/avg_bits").values()
        return bool(bits) and min(bits) >= FULL_PRECISION_BITS

    @property
    def shared(self) -> list[str]:
        """What all runs have in common, in words."""
        words = [
            setting_words(result.record.config)
            for row in self.rows.values()
            for result in row.values()
        ]
        common = set(words[0]).intersection(*words[1:])
        return [word for word in words[0] if word in common]


@dataclass(frozen=True)
class Setting:
    """Cells that differ in their data set alone.

    Attributes:
        axes: what they share.
        places: by data set, in the suite's order.
        baseline: the row that the others are compared with; None where it is not there.
    """

    axes: Axes
    places: dict[str, Place]
    baseline: str | None

    @property
    def title(self) -> str:
        """Its axes in words; empty where the suite has no axis but data and seed."""
        return ", ".join(axis_text(axis, value) for axis, value in self.axes)

    @property
    def rows(self) -> list[str]:
        """Labels of all its rows, each once."""
        return list(dict.fromkeys(row for place in self.places.values() for row in place.rows))

    def full_precision(self, row: str) -> bool:
        """Whether a row is a control without quantization."""
        return any(place.full_precision(row) for place in self.places.values())


def axis_text(axis: str, value: str) -> str:
    """A place on an axis in words.

    >>> axis_text("budget", "W4A8"), axis_text("budget", "3.5"), axis_text("regime", "moderate")
    ('W4A8', '3.5 bits', 'regime moderate')
    """
    if axis == "budget":
        return f"{value} bits" if value.replace(".", "").isdigit() else value
    return f"{axis} {value}"


def arranged(finished: Iterable[Result], baseline: str | None = None) -> list[Setting]:
    """Sort finished runs into settings, in the suite's order.

    Args:
        finished: from `cfq_bench.results.collect`.
        baseline: the row to compare with; None takes each setting's usual one
            (`USUAL_BASELINES`, else its first row).

    Raises:
        UserError: no run has that row.
    """
    found: dict[Axes, dict[str, Place]] = {}
    for result in finished:
        data = result.run.axes["data"]
        axes = tuple(pair for pair in result.cell if pair[0] != "data")
        place = found.setdefault(axes, {}).setdefault(data, Place(data, axes))
        place.rows.setdefault(result.row, {})[result.seed] = result
    settings = []
    for axes, places in found.items():
        rows = list(dict.fromkeys(row for place in places.values() for row in place.rows))
        settings.append(Setting(axes, places, _baseline(rows, baseline)))
    if baseline is not None and all(setting.baseline is None for setting in settings):
        raise unknown_name("row", baseline, {row for one in settings for row in one.rows})
    return settings


def _baseline(rows: list[str], wanted: str | None) -> str | None:
    if wanted is not None:
        return wanted if wanted in rows else None
    return next((row for row in USUAL_BASELINES if row in rows), rows[0])


def label_of(metric: str) -> str:
    """A column's head: ``recourse/vd@0`` is VD at 0.

    >>> label_of("recourse/vd"), label_of("recourse/vd@0.25")
    ('VD', 'VD @ 0.25')
    """
    suffix = f" @ {metric.split('@')[1]}" if "@" in metric else ""
    return metric_info(metric).label + suffix
