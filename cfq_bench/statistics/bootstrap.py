"""Bootstrap intervals of a mean, over seeds alone and over seeds and rows.

Everything is seeded by the shape of the data: the same numbers give the same interval, in any
process. With the handful of seeds that a benchmark can pay for, a plain percentile interval is too
narrow (five normal values: about 83 % coverage where 95 % is claimed), so that the level is raised
as in Hesterberg, "What Teachers Should Know about the Bootstrap" (2015), Section 4.4. That still
gives about 90 % with five values, because no resampled mean leaves their range. Every interval over
seeds is therefore the hull of the bootstrap's and of Student's t over the seeds' means: at least as
wide as either. One seed says nothing about other seeds, so that it has no interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

from cfq_bench.seeds import derive_seed

Floats = NDArray[np.float64]

LEVEL = 0.95
RESAMPLES = 9999
ROW_RESAMPLES = 500
"""Resamples of the rows of one seed, from which every replicate takes one at random."""


@dataclass(frozen=True)
class Interval:
    """A mean and where it may lie.

    Attributes:
        mean: the point estimate.
        low: lower end.
        high: upper end.
    """

    mean: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether 0 lies outside."""
        return self.low > 0.0 or self.high < 0.0


def expanded_level(level: float, n: int) -> float:
    """The level at which the percentile interval of n normal values is as wide as Student's t.

    Args:
        level: nominal coverage, in (0, 1).
        n: number of independent values, at least 2.

    >>> round(expanded_level(0.95, 5), 4)
    0.9981
    >>> round(expanded_level(0.95, 10_000), 4)
    0.95
    """
    tail = stdtrit(n - 1, (1.0 - level) / 2.0) * sqrt(n / (n - 1))
    return float(1.0 - 2.0 * ndtr(tail))


def percentile_interval(values: ArrayLike, level: float = LEVEL) -> Interval:
    """Percentile bootstrap interval of the mean of independent values.

    Args:
        values: (n,), finite, at least one.
        level: nominal coverage.

    >>> percentile_interval([0.0, 0.0, 0.0])
    Interval(mean=0.0, low=0.0, high=0.0)
    """
    data = np.asarray(values, dtype=np.float64)
    means = _weights(len(data), RESAMPLES) @ data / len(data)
    return _between(float(data.mean()), means, level)


def seed_interval(values: ArrayLike) -> Interval | None:
    """95 % interval of the mean of one value per seed; None with fewer than two seeds.

    >>> seed_interval([0.1]) is None
    True
    """
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2:
        return None
    return _hull(
        percentile_interval(data, expanded_level(LEVEL, len(data))), student_interval(data)
    )


def student_interval(values: ArrayLike, level: float = LEVEL) -> Interval:
    """Student's t interval of the mean of independent values.

    Args:
        values: (n,), finite, at least two.
        level: nominal coverage.

    >>> found = student_interval([0.0, 1.0])
    >>> round(found.low, 2), found.mean, round(found.high, 2)
    (-5.85, 0.5, 6.85)
    """
    data = np.asarray(values, dtype=np.float64)
    n, mean = len(data), float(np.mean(data))
    half = -float(stdtrit(n - 1, (1.0 - level) / 2.0)) * float(np.std(data, ddof=1)) / sqrt(n)
    return Interval(mean, mean - half, mean + half)


def _hull(one: Interval, other: Interval) -> Interval:
    """The least interval that holds both; of one mean."""
    return Interval(one.mean, min(one.low, other.low), max(one.high, other.high))


def hierarchical_interval(parts: Sequence[Sequence[ArrayLike]]) -> Interval | None:
    """95 % interval of a mean over seeds of means over rows; both are drawn anew.

    Args:
        parts: for every seed, one array of values per group of rows, (n_1,), (n_2,), ... Rows are
            drawn within their group, and a seed's value is the mean of its groups' means: the
            boundary error has two groups, rejected and accepted people.

    Returns:
        None with fewer than two seeds, or where a group has no rows.
    """
    n = len(parts)
    if n < 2 or any(np.size(rows) == 0 for groups in parts for rows in groups):
        return None
    bank = np.stack([_row_means(groups) for groups in parts])  # (seeds, ROW_RESAMPLES)
    means = bank[_replicates(n)].mean(axis=1)
    by_seed = [
        float(np.mean([np.mean(np.asarray(rows, np.float64)) for rows in groups]))
        for groups in parts
    ]
    drawn = _between(float(np.mean(by_seed)), means, expanded_level(LEVEL, n))
    return _hull(drawn, student_interval(by_seed))


@lru_cache(maxsize=16)
def _replicates(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of n seeds every replicate takes, and which resample of its rows; (RESAMPLES, n)."""
    rng = np.random.default_rng(derive_seed(n, "hierarchical bootstrap"))
    return rng.integers(0, n, (RESAMPLES, n)), rng.integers(0, ROW_RESAMPLES, (RESAMPLES, n))


def _row_means(groups: Sequence[ArrayLike]) -> Floats:
    """Resampled values of one seed, (ROW_RESAMPLES,)."""
    # Groups of equal size need draws of their own: `place` keeps them apart.
    drawn = [_means_of(np.asarray(rows, np.float64), place) for place, rows in enumerate(groups)]
    return np.asarray(np.mean(drawn, axis=0))


def _means_of(rows: Floats, place: int) -> Floats:
    """Means of resampled rows, (ROW_RESAMPLES,)."""
    # Most people fare alike under two methods: their difference of 0 adds nothing.
    some = np.flatnonzero(rows)
    weights = _row_weights(len(rows), place)[:, some].astype(np.float64)
    return np.asarray(weights @ rows[some] / len(rows))


@lru_cache(maxsize=256)
def _row_weights(n: int, place: int) -> NDArray[np.uint8]:
    """As `_weights`, for the rows of one seed, in an eighth of the memory."""
    return _counts(n, ROW_RESAMPLES, place).astype(np.uint8)  # each is about 1, and never 256


@lru_cache(maxsize=64)
def _weights(n: int, resamples: int) -> Floats:
    """How often each of n values is drawn, (resamples, n); rows sum to n."""
    return _counts(n, resamples).astype(np.float64)


def _counts(n: int, resamples: int, place: int = 0) -> NDArray[np.int64]:
    rng = np.random.default_rng(derive_seed(n, "bootstrap", str(resamples), str(place)))
    drawn = rng.integers(0, n, (resamples, n)) + n * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=n * resamples).reshape(resamples, n)


def _between(mean: float, resampled: Floats, level: float) -> Interval:
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(resampled, [tail, 1.0 - tail])
    # A mean of equal values may differ from itself in the last bit.
    return Interval(mean, min(float(low), mean), max(float(high), mean))
