"""One row of a table over its seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfq_bench.statistics.bootstrap import Interval


def mean_and_sd(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean, and standard deviation (n - 1) where there are two values or more.

    The one mean and the one spread of all tables. Sums are taken in order and without
    compensation, as JavaScript takes them, so that the dashboard's script gives the same bits.

    >>> mean_and_sd([1.0, 3.0])
    (2.0, 1.4142135623730951)
    >>> mean_and_sd([0.5])
    (0.5, None)
    """
    total = 0.0
    for value in values:
        total += value
    mean = total / len(values)
    if len(values) == 1:
        return mean, None
    squares = 0.0
    for value in values:
        squares += (value - mean) * (value - mean)
    return mean, sqrt(squares / (len(values) - 1))


@dataclass(frozen=True)
class Summary:
    """Mean and spread of one value per seed.

    Attributes:
        mean: over `seeds`.
        std: sample standard deviation; None with one seed.
        seeds: those that have a value, ascending.
        values: at each of them.
    """

    mean: float
    std: float | None
    seeds: tuple[int, ...]
    values: tuple[float, ...]

    @cached_property
    def interval(self) -> "Interval | None":
        """95 % of the mean; None with one seed."""
        # Not every table shows intervals, and SciPy takes a while to import.
        from cfq_bench.statistics.bootstrap import seed_interval

        return seed_interval(self.values)


def summarize(values: Mapping[int, float | None], seeds: Iterable[int]) -> Summary | None:
    """Summarize the values at some seeds; an undefined one (None) is left out.

    Returns:
        None where no seed has a value.

    >>> found = summarize({0: 1.0, 1: 3.0, 2: 100.0}, [0, 1])
    >>> found.mean, round(found.std, 3)
    (2.0, 1.414)
    """
    known = {seed: value for seed in seeds if (value := values.get(seed)) is not None}
    if not known:
        return None
    chosen = tuple(sorted(known))
    data = tuple(float(known[seed]) for seed in chosen)
    return Summary(*mean_and_sd(data), chosen, data)
