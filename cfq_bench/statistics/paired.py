"""Two rows of a table compared at the same seeds, and one method over several data sets."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfq_bench.statistics.bootstrap import Interval, hierarchical_interval, seed_interval
from cfq_bench.statistics.seeds import shared_seeds
from cfq_bench.statistics.summary import mean_and_sd

RowValues = Mapping[int, Mapping[int | str, float]]
"""Values of rows by seed and row id, where they are defined: lines of a table, names of images."""


@dataclass(frozen=True)
class Difference:
    """A mean paired difference, ours minus the other's.

    Attributes:
        mean: over the common seeds.
        interval: 95 %; None with one seed, which says nothing about others.
        seeds: the common seeds, ascending.
        by_seed: the difference at each of them.
        over_rows: whether rows were drawn anew too.
    """

    mean: float
    interval: Interval | None
    seeds: tuple[int, ...]
    by_seed: tuple[float, ...]
    over_rows: bool

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.interval is not None and self.interval.clear

    @property
    def std(self) -> float | None:
        """Sample standard deviation over the seeds; None with one."""
        return mean_and_sd(self.by_seed)[1]


def paired_difference(
    ours: Mapping[int, float],
    other: Mapping[int, float],
    rows: Sequence[tuple[RowValues, RowValues]] = (),
) -> Difference | None:
    """Difference of two rows of a table at their common seeds.

    Args:
        ours: the metric by seed.
        other: the same for the row that it is compared with.
        rows: where per-row values are kept, (ours, other) for each group of rows whose means make
            up the metric. They refine the interval, never the mean, and count only where all
            common seeds have them and they give the metric.

    Returns:
        None without a common seed.

    >>> found = paired_difference({0: 0.3, 1: 0.5, 7: 9.9}, {0: 0.1, 1: 0.1, 2: 5.0})
    >>> round(found.mean, 3), found.seeds
    (0.3, (0, 1))
    """
    seeds = shared_seeds([ours, other])
    if not seeds:
        return None
    by_seed = tuple(ours[seed] - other[seed] for seed in seeds)
    parts = [[_row_differences(a, b, seed) for a, b in rows] for seed in seeds] if rows else []
    over_rows = bool(parts) and all(
        all(len(group) for group in groups)
        and np.isclose(np.mean([group.mean() for group in groups]), value, atol=1e-6)
        for groups, value in zip(parts, by_seed, strict=True)
    )
    interval = hierarchical_interval(parts) if over_rows else seed_interval(by_seed)
    return Difference(mean_and_sd(by_seed)[0], interval, seeds, by_seed, over_rows)


def _row_differences(ours: RowValues, other: RowValues, seed: int) -> NDArray[np.float64]:
    """Differences of the rows that both have."""
    mine, theirs = ours.get(seed, {}), other.get(seed, {})
    if list(mine) == list(theirs):  # as usual: the same people in the same order
        a, b = (np.fromiter(rows.values(), np.float64, len(rows)) for rows in (mine, theirs))
        return a - b
    return np.array([mine[row] - theirs[row] for row in mine if row in theirs], dtype=np.float64)


def sign_test(differences: Sequence[float]) -> float | None:
    """Two-sided exact p-value that positive and negative differences are equally likely.

    Ties are left out, as usual. Five data sets that all agree give 0.0625, the least possible.

    >>> sign_test([-0.1, -0.2, -0.3, -0.1, -0.4])
    0.0625
    >>> sign_test([0.0]) is None
    True
    """
    signs = [value for value in differences if value != 0.0]
    if not signs:
        return None
    # Of the binomial distribution at 1/2, which is symmetric; scipy.stats takes longer to import
    # than a report to draw.
    fewer = min(sum(value > 0.0 for value in signs), sum(value < 0.0 for value in signs))
    tail = sum(math.comb(len(signs), k) for k in range(fewer + 1))
    return min(1.0, tail / float(2 ** (len(signs) - 1)))
