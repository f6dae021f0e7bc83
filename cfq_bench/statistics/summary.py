"""One row of a table over its seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cfq_bench.statistics.bootstrap import Interval, seed_interval


@dataclass(frozen=True)
class Summary:
    """Mean and spread of one value per seed.

    Attributes:
        mean: over `seeds`.
        std: sample standard deviation; None with one seed.
        interval: 95 % of the mean; None with one seed.
        seeds: those that have a value, ascending.
    """

    mean: float
    std: float | None
    interval: Interval | None
    seeds: tuple[int, ...]


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
    data = np.array([known[seed] for seed in chosen])
    std = float(data.std(ddof=1)) if len(data) > 1 else None
    return Summary(float(data.mean()), std, seed_interval(data), chosen)
