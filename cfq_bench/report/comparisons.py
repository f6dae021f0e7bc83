"""Every row against the baseline: paired differences of the boundary error, what they decide."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from cfq_bench.record.archive import DIRECTIONS
from cfq_bench.report.places import Place, Rows, Setting, label_of
from cfq_bench.statistics.paired import (
    Difference,
    RowValues,
    common_seeds,
    paired_difference,
    sign_test,
)

METRIC = "recourse/boundary_error"
LOWER = ("recourse/vd", "recourse/vd_adverse", "recourse/crg_abs")
"""What a better row must lower, all of them; 0 on both sides will do."""
ACCURACY_LOSS = 0.003
DRIFT = 0.01
"""What a better row may lose in accuracy, and how far it may move the favourable rate."""

Decision = Literal["below", "above", "not decided"]


@dataclass(frozen=True)
class Comparison:
    """One row against the baseline, over the data sets that have both.

    Attributes:
        row: its label.
        baseline: the other's.
        difference: of the mean over data sets, ours minus the baseline's, seed by seed.
        by_data: the difference on each data set.
        hindrances: by data set, why the row is not better by the protocol's rule; empty where it
            is.
    """

    row: str
    baseline: str
    difference: Difference
    by_data: dict[str, Difference]
    hindrances: dict[str, list[str]]

    @property
    def decision(self) -> Decision:
        """Where the 95 % interval lies: below 0, above 0, or around it (or there is none)."""
        if not self.difference.clear:
            return "not decided"
        return "below" if self.difference.mean < 0 else "above"

    @property
    def p_value(self) -> float | None:
        """Of the sign test over data sets; None with one data set, or without a difference."""
        means = [difference.mean for difference in self.by_data.values()]
        return sign_test(means) if len(means) > 1 else None


@dataclass(frozen=True)
class Compared:
    """A setting whose rows are compared with its baseline, each pair once for all tables.

    Attributes:
        setting: the cells.
        kept: per-row validity by run id.
    """

    setting: Setting
    kept: Rows

    @cached_property
    def by_data(self) -> dict[str, dict[str, Difference]]:
        """By row and data set, in the suite's order; without pairs that have no common seed."""
        baseline = self.setting.baseline
        if baseline is None:
            return {}
        found: dict[str, dict[str, Difference]] = {}
        for row in self.setting.rows:
            for data, place in self.setting.places.items():
                pair = None if row == baseline else self._difference_in(place, row, baseline)
                if pair is not None:
                    found.setdefault(row, {})[data] = pair
        return found

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """By row, for those that have seeds in common with the baseline, the same everywhere."""
        baseline, found = self.setting.baseline, {}
        for row, by_data in self.by_data.items():
            assert baseline is not None
            places = [self.setting.places[data] for data in by_data]
            overall = _over_data(places, row, baseline, self.kept)
            if overall is not None:
                hindrances = {place.data: hindrances_of(place, row, baseline) for place in places}
                found[row] = Comparison(row, baseline, overall, by_data, hindrances)
        return found

    def _difference_in(self, place: Place, row: str, baseline: str) -> Difference | None:
        ours, other = (place.by_seed(name, METRIC) for name in (row, baseline))
        return paired_difference(ours, other, _row_pairs(place, row, baseline, self.kept))


def hindrances_of(place: Place, row: str, baseline: str) -> list[str]:
    """Why a row is not better than the baseline by the protocol's rule; empty if it is.

    Better means: VD, VD adverse and |CRG| all lower (or 0 on both sides), accuracy lower by at most
    0.3 point, favourable drift within 1 point; means over the common seeds.
    """
    reasons = []
    for metric in LOWER:
        pair = _means(place, row, baseline, metric)
        if pair is None:
            reasons.append(f"{label_of(metric)} unknown")
        elif not (pair[0] < pair[1] or pair[0] == pair[1] == 0.0):
            reasons.append(f"{label_of(metric)} not lower")
    accuracy = _means(place, row, baseline, "task/acc")
    if accuracy is None or accuracy[0] < accuracy[1] - ACCURACY_LOSS:
        reasons.append("accuracy lower")
    drift = _means(place, row, baseline, "task/favourable_drift")
    if drift is None or abs(drift[0]) > DRIFT:
        reasons.append("drift over 1 point")
    return reasons


def _means(place: Place, row: str, baseline: str, metric: str) -> tuple[float, float] | None:
    ours, other = place.by_seed(row, metric), place.by_seed(baseline, metric)
    seeds = common_seeds([ours, other])
    if not seeds:
        return None
    return float(np.mean([ours[s] for s in seeds])), float(np.mean([other[s] for s in seeds]))


def _over_data(places: list[Place], row: str, baseline: str, kept: Rows) -> Difference | None:
    """Data sets are given, not drawn: the interval is over seeds, and people within data sets."""
    seeds = common_seeds(
        [place.by_seed(name, METRIC) for place in places for name in (row, baseline)]
    )
    ours, other = (
        {
            seed: float(np.mean([place.by_seed(name, METRIC)[seed] for place in places]))
            for seed in seeds
        }
        for name in (row, baseline)
    )
    pairs = [pair for place in places for pair in _row_pairs(place, row, baseline, kept)]
    return paired_difference(ours, other, pairs)


def _row_pairs(
    place: Place, row: str, baseline: str, kept: Rows
) -> list[tuple[RowValues, RowValues]]:
    """(ours, baseline's) failures for rejected and for accepted people."""
    return [
        (place.failures(row, name, kept), place.failures(baseline, name, kept))
        for name in DIRECTIONS
    ]
