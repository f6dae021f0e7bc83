"""A suite's results by place: settings, data sets, rows, seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cfq_bench.aggregate.labels import setting_words
from cfq_bench.aggregate.rows import Rows, baseline_of
from cfq_bench.aggregate.runs import several_splits, split_words
from cfq_bench.errors import unknown_name
from cfq_bench.record.archive import RowValidity
from cfq_bench.results.collect import Result
from cfq_bench.statistics.paired import RowValues
from cfq_bench.statistics.summary import mean_and_sd

Axes = tuple[tuple[str, str], ...]
Kept = Mapping[str, RowValidity]
"""Validity of the teacher's actions by run id, where it was kept."""


@dataclass(frozen=True)
class Place:
    """One cell: a data set under one setting.

    Attributes:
        data: the data set.
        axes: the other axes but the seed.
        results: finished runs by row label and seed, rows in the suite's order.
        baseline: label of the row that the others are compared with; None where it is not here.
    """

    data: str
    axes: Axes
    results: Mapping[str, Mapping[int, Result]]
    baseline: str | None

    @cached_property
    def rows(self) -> Rows[str]:
        """What is computed from them."""
        values = {
            row: {seed: result.record.metrics for seed, result in runs.items()}
            for row, runs in self.results.items()
        }
        return Rows(values, self.baseline)

    def failures(self, row: str, direction: str, kept: Kept) -> RowValues:
        """By seed and row id, 1 where the teacher's action failed on f_q and 0 where it held."""
        found = {}
        for seed, result in self.results[row].items():
            validity = kept.get(result.record.run_id, {}).get(direction)
            if validity is not None:
                found[seed] = validity.failures
        return found

    def is_teacher(self, row: str) -> bool:
        """Whether a row is the teacher itself."""
        return all(
            result.record.config["method"]["name"] == "fp32"
            for result in self.results[row].values()
        )

    def count(self, row: str, metric: str) -> int:
        """People behind a metric, over the seeds that the row is shown on; 0 where unknown."""
        counts = [
            self.results[row][seed].record.counts.get(metric, 0) for seed in self.rows.used(row)
        ]
        return sum(counts) if all(counts) else 0

    @property
    def shared(self) -> list[str]:
        """What all runs have in common, in words."""
        words = [
            setting_words(result.record.config)
            for runs in self.results.values()
            for result in runs.values()
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
        split: on which rows they were measured, where these are not the test rows or the suite
            has several splits; else empty.
    """

    axes: Axes
    places: dict[str, Place]
    baseline: str | None
    split: str = ""

    @property
    def title(self) -> str:
        """Its axes in words, and the split; empty where there is nothing to tell apart."""
        words = [axis_text(axis, value) for axis, value in self.axes]
        if self.split and self.split not in words:
            words.append(self.split)
        return ", ".join(words)

    @property
    def rows(self) -> list[str]:
        """Labels of all its rows, each once."""
        return ordered(place.results for place in self.places.values())

    def full_precision(self, row: str) -> bool:
        """Whether a row is a control without quantization."""
        return any(
            place.rows.full_precision(row) for place in self.places.values() if row in place.results
        )


def ordered(cells: Iterable[Iterable[str]]) -> list[str]:
    """Labels of rows, each once, in the suite's order: that of the cell with most of them.

    A cell leaves rows out whose runs are missing or failed.

    >>> ordered([["FP32", "CFQ"], ["FP32", "LSQ", "CFQ"], ["PTQ"]])
    ['FP32', 'LSQ', 'CFQ', 'PTQ']
    """
    most_first = sorted((list(cell) for cell in cells), key=len, reverse=True)
    return list(dict.fromkeys(row for cell in most_first for row in cell))


def axis_text(axis: str, value: str) -> str:
    """A place on an axis in words.

    >>> axis_text("budget", "W4A8"), axis_text("budget", "3.5"), axis_text("regime", "moderate")
    ('W4A8', '3.5 bits', 'regime moderate')
    >>> axis_text("split", "validation")
    'validation rows'
    """
    if axis == "budget":
        return f"{value} bits" if value.replace(".", "").isdigit() else value
    return f"{value} rows" if axis == "split" else f"{axis} {value}"


@dataclass
class _Found:
    """Results of one setting while they are sorted."""

    places: dict[str, dict[str, dict[int, Result]]] = field(default_factory=dict)
    methods: dict[str, str] = field(default_factory=dict)
    split: str = ""


def arranged(finished: Iterable[Result], baseline: str | None = None) -> list[Setting]:
    """Sort finished runs into settings, in the suite's order.

    Args:
        finished: from `cfq_bench.results.collect`.
        baseline: the row to compare with; None takes each setting's usual one
            (`cfq_bench.aggregate.rows.baseline_of`).

    Raises:
        UserError: no run has that row.
    """
    every = list(finished)
    several = several_splits(result.record.config for result in every)
    found: dict[Axes, _Found] = {}
    for result in every:
        config = result.record.config
        axes = tuple(pair for pair in result.cell if pair[0] != "data")
        one = found.setdefault(axes, _Found())
        one.split = split_words(config, several=several)
        one.methods.setdefault(result.row, config["method"]["name"])
        runs = one.places.setdefault(result.run.axes["data"], {})
        runs.setdefault(result.row, {})[result.seed] = result
    settings = [_setting(axes, one, baseline) for axes, one in found.items()]
    if baseline is not None and all(setting.baseline is None for setting in settings):
        raise unknown_name("row", baseline, {row for one in settings for row in one.rows})
    return settings


def _setting(axes: Axes, found: _Found, wanted: str | None) -> Setting:
    chosen = _baseline(found) if wanted is None else wanted
    if chosen not in found.methods:
        chosen = None
    places = {
        data: Place(data, axes, results, chosen if chosen in results else None)
        for data, results in found.places.items()
    }
    return Setting(axes, places, chosen, found.split)


def _baseline(found: _Found) -> str | None:
    """The usual one, by bits as means over data sets."""
    by_row: dict[str, list[float]] = {}
    for results in found.places.values():
        rows = Place("", (), results, None).rows
        for row in results:
            bits = rows.bits(row)
            by_row.setdefault(row, []).extend([] if bits is None else [bits])
    bits_of = {row: mean_and_sd(bits)[0] if bits else None for row, bits in by_row.items()}
    methods = {row: found.methods[row] for row in ordered(found.places.values())}
    return baseline_of(methods, bits_of)
