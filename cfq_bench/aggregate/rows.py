"""The rows of one table: the seeds they are compared on, means, differences, best values."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from cfq_bench.aggregate.numbers import form_of, written
from cfq_bench.evaluation.keys import METRICS, metric_info
from cfq_bench.statistics.seeds import compared_seeds
from cfq_bench.statistics.summary import Summary, mean_and_sd, summarize

Values = Mapping[str, float | None]
"""Metrics of one run by key; None, or no entry, where undefined."""
Row = TypeVar("Row", bound=Hashable)

PAIRED = "recourse/boundary_error"
"""The metric whose difference to the baseline stands in every table."""
USUAL_BASELINE = "lsq"
"""Method of the usual baseline: label training."""
BITS = "deploy/avg_bits"
FULL_PRECISION_BITS = 32.0
NEAR = 0.05
"""Rows whose average bits differ by no more than this share are comparable."""


def near(bits: float | None, other: float | None) -> bool:
    """Whether average bits are comparable; unknown ones are not.

    >>> near(3.44, 3.5), near(4.0, 3.5), near(None, 3.5)
    (True, False, False)
    """
    # A little more, so that 3.8 is within 5 % of 4 in floats too.
    return bits is not None and other is not None and abs(bits - other) <= NEAR * other + 1e-9


@dataclass(frozen=True)
class Rows(Generic[Row]):
    """Finished runs of one table by row and seed.

    Attributes:
        by_seed: in the table's order.
        baseline: the row that the others are compared with; None where there is none.
    """

    by_seed: Mapping[Row, Mapping[int, Values]]
    baseline: Row | None = None

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the rows are compared on."""
        return compared_seeds(self.by_seed.values())

    def own(self, row: Row) -> tuple[int, ...]:
        """All seeds of a row, ascending."""
        return tuple(sorted(self.by_seed[row]))

    def whole(self, row: Row) -> bool:
        """Whether a row has all seeds that the table is compared on."""
        return all(seed in self.by_seed[row] for seed in self.seeds)

    def used(self, row: Row) -> tuple[int, ...]:
        """The seeds that a row is shown on: the table's, or its own if it lacks one of them."""
        return self.seeds if self.whole(row) else self.own(row)

    def count_text(self, row: Row) -> str:
        """How many seeds a row is shown on: of how many it has, or that they are its own alone."""
        used, own = len(self.used(row)), len(self.by_seed[row])
        if not self.whole(row):
            return f"{own} (own)"
        return str(used) if used == own else f"{used} of {own}"

    def values(self, row: Row, metric: str) -> dict[int, float]:
        """A metric at the seeds that the row is shown on, where it is defined."""
        found = {seed: self.by_seed[row][seed].get(metric) for seed in self.used(row)}
        return {seed: value for seed, value in found.items() if value is not None}

    def summary(self, row: Row, metric: str) -> Summary | None:
        """Mean and spread of a metric; None where no seed has it."""
        values = self.values(row, metric)
        return summarize(values, values)

    def pair(self, row: Row, metric: str = PAIRED) -> tuple[dict[int, float], dict[int, float]]:
        """A row's values and the baseline's at the seeds that the row is shown on and both have."""
        if self.baseline is None or self.baseline not in self.by_seed:
            return {}, {}
        ours, theirs = self.values(row, metric), {}
        for seed in ours:
            value = self.by_seed[self.baseline].get(seed, {}).get(metric)
            if value is not None:
                theirs[seed] = value
        return {seed: ours[seed] for seed in theirs}, theirs

    def differences(self, row: Row) -> list[float]:
        """`PAIRED` less the baseline's, seed by seed; none for the baseline itself."""
        if row == self.baseline:
            return []
        ours, theirs = self.pair(row)
        return [ours[seed] - theirs[seed] for seed in ours]

    def bits(self, row: Row) -> float | None:
        """Average weight bits."""
        values = list(self.values(row, BITS).values())
        return mean_and_sd(values)[0] if values else None

    def full_precision(self, row: Row) -> bool:
        """Whether a row deploys no quantized weights: a control, not a competitor."""
        bits = self.bits(row)
        return bits is not None and bits >= FULL_PRECISION_BITS

    @cached_property
    def comparable(self) -> frozenset[Row]:
        """Quantized rows at the baseline's bits; without one, at those that most rows have."""
        return frozenset(largest_group({r: self.bits(r) for r in self.by_seed}, self.baseline))

    def best(self, metric: str) -> frozenset[Row]:
        """Rows with the best mean of a metric; none where all are alike, as they are printed.

        A row takes part if it has the metric at every compared seed and is `comparable`. Bits are
        what rows are compared at, and are not won. A row above the baseline in the paired
        difference is not marked as the best in that column.
        """
        if not winnable(metric):
            return frozenset()
        printed: dict[Row, float] = {}
        for row in self.by_seed:
            values = list(self.values(row, metric).values())
            if row in self.comparable and self.whole(row) and len(values) == len(self.seeds):
                printed[row] = as_printed(metric, mean_and_sd(values)[0])
        if len(set(printed.values())) < 2:
            return frozenset()
        top = (max if metric_info(metric).higher_is_better else min)(printed.values())
        return frozenset(
            row
            for row, value in printed.items()
            if value == top and not (metric == PAIRED and self._above(row))
        )

    def _above(self, row: Row) -> bool:
        differences = self.differences(row)
        return bool(differences) and as_printed(PAIRED, mean_and_sd(differences)[0]) > 0.0


def winnable(metric: str) -> bool:
    """Whether a metric has a best value: a direction is better, and it is not what rows share.

    >>> winnable("recourse/vd"), winnable("recourse/crg"), winnable("deploy/avg_bits")
    (True, False, False)
    """
    info = METRICS.get(metric.split("@")[0])
    return (
        info is not None
        and info.higher_is_better is not None
        and metric.split("/")[0] != ("deploy")
    )


def as_printed(metric: str, value: float) -> float:
    """A value as rounded as it is printed: what prints alike is alike."""
    return float(written(value, form_of(metric)).removesuffix(" s").replace(",", ""))


def largest_group(bits: Mapping[Row, float | None], reference: Row | None = None) -> list[Row]:
    """Quantized rows at comparable bits.

    Args:
        bits: average bits by row.
        reference: the row whose bits count; where it has none, or is in full precision, those of
            the row that most others are near to, the first of such.

    >>> largest_group({"FP32": 32.0, "INT8": 8.0, "INT4": 4.0, "mixed": 3.9})
    ['INT4', 'mixed']
    >>> largest_group({"FP32": 32.0, "INT8": 8.0, "INT4": 4.0, "mixed": 3.9}, "INT8")
    ['INT8']
    """
    known = {
        row: value
        for row, value in bits.items()
        if value is not None and value < FULL_PRECISION_BITS
    }
    if reference in known:
        return _near_to(known, reference)
    groups = [_near_to(known, row) for row in known]
    return max(groups, key=len, default=[])


def _near_to(bits: Mapping[Row, float], reference: Row) -> list[Row]:
    return [row for row, value in bits.items() if near(value, bits[reference])]


def baseline_of(methods: Mapping[Row, str], bits: Mapping[Row, float | None]) -> Row | None:
    """The row that others are compared with where nothing is said.

    The first row of label training, else the first at the bits that most rows have.

    Args:
        methods: name of the method by row, in the table's order.
        bits: average bits by row.

    >>> baseline_of({"FP32": "fp32", "CFQ": "cfq", "LSQ": "lsq"}, {})
    'LSQ'
    >>> baseline_of({"FP32": "fp32", "CFQ": "cfq"}, {"FP32": 32.0, "CFQ": 3.5})
    'CFQ'
    """
    trained = next((row for row, method in methods.items() if method == USUAL_BASELINE), None)
    if trained is not None:
        return trained
    return next(iter(largest_group({row: bits.get(row) for row in methods})), None)
