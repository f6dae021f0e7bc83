"""Every row against the baseline: paired differences of the boundary error, what they decide.

A verdict needs an interval over seeds, hence two seeds or more, and agreement over data sets:

- *lower*: the interval of the mean over data sets is below 0, no data set is clearly above, and
  more data sets are below than not; *higher* is its mirror image;
- *mixed*: data sets disagree, either clearly (one clearly below, another clearly above) or because
  the interval of the mean leaves out 0 and some data set is clearly on the other side, or most of
  them are not on this one;
- *not decided*: anything else.

Rows at other average bits than the baseline's are not compared in words, nor are networks that are
the baseline's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from cfq_bench.aggregate.networks import same_runs
from cfq_bench.aggregate.numbers import label_of
from cfq_bench.aggregate.places import Kept, Place, Setting
from cfq_bench.aggregate.rows import near
from cfq_bench.record.archive import DIRECTIONS
from cfq_bench.statistics.paired import Difference, RowValues, paired_difference, sign_test
from cfq_bench.statistics.seeds import shared_seeds
from cfq_bench.statistics.summary import mean_and_sd

LOWER = ("recourse/vd", "recourse/vd_adverse", "recourse/crg_abs")
"""What a better row must lower, all of them; 0 on both sides will do."""
ACCURACY_LOSS = 0.003
DRIFT = 0.01
"""What a better row may lose in accuracy, and how far it may move the favourable rate."""

Decision = Literal["lower", "higher", "mixed", "not decided"]


@dataclass(frozen=True)
class Comparison:
    """One row against the baseline, over the data sets that have both.

    Attributes:
        row: its label.
        baseline: the other's.
        difference: of the mean over data sets, ours minus the baseline's, seed by seed, at the
            seeds that all of them have.
        by_data: the difference on each data set.
        hindrances: by data set, why the row is not better by the protocol's rule; empty where it
            is.
        bits: average bits of the row and of the baseline, means over data sets; None if unknown.
        comparable: whether they are near on every data set.
        itself: whether the row is the baseline's networks under another name.
    """

    row: str
    baseline: str
    difference: Difference
    by_data: dict[str, Difference]
    hindrances: dict[str, list[str]]
    bits: tuple[float | None, float | None]
    comparable: bool
    itself: bool

    @property
    def decision(self) -> Decision:
        """What the module says."""
        return decide(self.difference, list(self.by_data.values()))

    @property
    def p_value(self) -> float | None:
        """Of the sign test over data sets; None with one data set, or without a difference."""
        means = [difference.mean for difference in self.by_data.values()]
        return sign_test(means) if len(means) > 1 else None


def decide(overall: Difference, by_data: Sequence[Difference]) -> Decision:
    """The verdict, from the difference of means over data sets and that on each data set."""
    below = any(one.clear and one.mean < 0 for one in by_data)
    above = any(one.clear and one.mean > 0 for one in by_data)
    if below and above:
        return "mixed"
    if not overall.clear:
        return "not decided"
    sign = -1.0 if overall.mean < 0 else 1.0
    agreeing = sum(sign * one.mean > 0 for one in by_data)
    if (above if sign < 0 else below) or 2 * agreeing <= len(by_data):
        return "mixed"
    return "lower" if sign < 0 else "higher"


@dataclass(frozen=True)
class Compared:
    """A setting whose rows are compared with its baseline, each pair once for all tables.

    Attributes:
        setting: the cells.
        kept: per-row validity by run id.
    """

    setting: Setting
    kept: Kept

    @cached_property
    def by_data(self) -> dict[str, dict[str, Difference]]:
        """By row and data set, in the suite's order; without pairs that have no common seed."""
        found: dict[str, dict[str, Difference]] = {}
        for row in self.setting.rows:
            for data, place in self.setting.places.items():
                if row != self.setting.baseline and row in place.results:
                    pair = _difference(place, row, self.kept)
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
            overall = _over_data(places, row, self.kept)
            if overall is not None:
                found[row] = Comparison(
                    row,
                    baseline,
                    overall,
                    by_data,
                    {place.data: hindrances_of(place, row) for place in places},
                    (_mean_bits(places, row), _mean_bits(places, baseline)),
                    all(near(p.rows.bits(row), p.rows.bits(baseline)) for p in places),
                    all(same_runs(p.results[row], p.results[baseline]) for p in places),
                )
        return found

    def seeds_over_data(self, row: str) -> tuple[int, ...]:
        """Seeds that means of a row over data sets are taken at.

        Those of its difference to the baseline, so that both stand side by side; of a row without
        a difference, those that it has on all of its data sets.
        """
        if row in self.comparisons:
            return self.comparisons[row].difference.seeds
        places = [place for place in self.setting.places.values() if row in place.results]
        return shared_seeds(place.rows.used(row) for place in places)


def hindrances_of(place: Place, row: str) -> list[str]:
    """Why a row is not better than the baseline by the protocol's rule; empty if it is.

    Better means: VD, VD adverse and |CRG| all lower (or 0 on both sides), accuracy lower by at most
    0.3 point, favourable drift within 1 point; means over the common seeds.
    """
    reasons = []
    for metric in LOWER:
        pair = _means(place, row, metric)
        if pair is None:
            reasons.append(f"{label_of(metric)} unknown")
        elif not (pair[0] < pair[1] or pair[0] == pair[1] == 0.0):
            reasons.append(f"{label_of(metric)} not lower")
    accuracy = _means(place, row, "task/acc")
    if accuracy is None or accuracy[0] < accuracy[1] - ACCURACY_LOSS:
        reasons.append("accuracy lower")
    drift = _means(place, row, "task/favourable_drift")
    if drift is None or abs(drift[0]) > DRIFT:
        reasons.append("drift over 1 point")
    return reasons


def _means(place: Place, row: str, metric: str) -> tuple[float, float] | None:
    ours, other = place.rows.pair(row, metric)
    if not ours:
        return None
    return mean_and_sd(list(ours.values()))[0], mean_and_sd(list(other.values()))[0]


def _mean_bits(places: Sequence[Place], row: str) -> float | None:
    bits = [place.rows.bits(row) for place in places]
    known = [value for value in bits if value is not None]
    return mean_and_sd(known)[0] if known else None


def _difference(place: Place, row: str, kept: Kept) -> Difference | None:
    ours, other = place.rows.pair(row)
    return paired_difference(ours, other, _row_pairs(place, row, kept))


def _over_data(places: Sequence[Place], row: str, kept: Kept) -> Difference | None:
    """Data sets are given, not drawn: the interval is over seeds, and people within data sets."""
    pairs = [place.rows.pair(row) for place in places]
    seeds = shared_seeds(ours for ours, _ in pairs)
    ours, other = (
        {seed: mean_and_sd([pair[side][seed] for pair in pairs])[0] for seed in seeds}
        for side in (0, 1)
    )
    rows = [one for place in places for one in _row_pairs(place, row, kept)]
    return paired_difference(ours, other, rows)


def _row_pairs(place: Place, row: str, kept: Kept) -> list[tuple[RowValues, RowValues]]:
    """(ours, baseline's) failures for rejected and for accepted people."""
    if place.baseline is None:
        return []
    return [
        (place.failures(row, name, kept), place.failures(place.baseline, name, kept))
        for name in DIRECTIONS
    ]


def distinct(
    comparisons: Sequence[tuple[Setting, Comparison]],
) -> list[tuple[Setting, Comparison]]:
    """Comparisons of which no two are of the same networks against the same networks.

    The first of such stands for all.
    """
    found: list[tuple[Setting, Comparison]] = []
    for setting, one in comparisons:
        if not any(_alike(setting, one, *other) for other in found):
            found.append((setting, one))
    return found


def _alike(setting: Setting, one: Comparison, other_setting: Setting, other: Comparison) -> bool:
    if one.by_data.keys() != other.by_data.keys():
        return False
    places: Mapping[str, Place] = setting.places
    return all(
        same_runs(places[data].results[mine], other_setting.places[data].results[theirs])
        for data in one.by_data
        for mine, theirs in ((one.row, other.row), (one.baseline, other.baseline))
    )
