"""95 % intervals for rates and means, for counts as small as a subgroup's."""

import math

import numpy as np

Z = 1.959963984540054
"""The normal distribution's 97.5 % point."""
DRAWS = 1000
"""Bootstrap resamples."""
Interval = tuple[float, float]
UNKNOWN: Interval = (math.nan, math.nan)


def wilson(successes: int, count: int) -> Interval:
    """Wilson's score interval of a rate; NaN for no rows, within [0, 1] otherwise.

    Unlike p +- z sqrt(p (1 - p) / n), it has a width at 0 of n and at n of n.

    >>> [round(end, 3) for end in wilson(0, 10)]
    [0.0, 0.278]
    """
    if count == 0:
        return UNKNOWN
    rate, square = successes / count, Z * Z / count
    centre = (rate + square / 2) / (1 + square)
    half = Z * math.sqrt(rate * (1 - rate) / count + square / (4 * count)) / (1 + square)
    low = 0.0 if successes == 0 else centre - half
    return low, 1.0 if successes == count else centre + half


def mean_of_rates(rates: tuple[float, float], intervals: tuple[Interval, Interval]) -> Interval:
    """Interval of the mean of two independent rates, from the interval of each (MOVER).

    Zou and Donner, 2008. A bootstrap would claim certainty where both rates are 0.

    Args:
        rates: both in [0, 1].
        intervals: of each rate.

    >>> low, high = mean_of_rates((0.0, 0.0), ((0.0, 0.3), (0.0, 0.4)))
    >>> round(low, 3), round(high, 3)
    (0.0, 0.25)
    """
    below = math.hypot(*(rate - low for rate, (low, _) in zip(rates, intervals, strict=True)))
    above = math.hypot(*(high - rate for rate, (_, high) in zip(rates, intervals, strict=True)))
    mean = sum(rates) / 2
    return mean - below / 2, mean + above / 2


def bootstrap_mean(values: np.ndarray, seed: int) -> Interval:
    """Percentile bootstrap of a mean; NaN for fewer than two rows, which say nothing of spread.

    >>> bootstrap_mean(np.array([2.0, 2.0, 2.0]), seed=0)
    (2.0, 2.0)
    """
    if len(values) < 2:
        return UNKNOWN
    rng = np.random.default_rng(seed)
    means = values[rng.integers(0, len(values), (DRAWS, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
