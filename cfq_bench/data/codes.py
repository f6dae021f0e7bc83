"""Numbers that may be codes for a missing value, such as -9 or 999, and numbers that are dates."""

import numpy as np

_REPEATED = [int(digit * times) for digit in "6789" for times in range(2, 10)]
_BELOW = frozenset([-1, *(-one for one in range(6, 10)), *(-code for code in _REPEATED)])
_ABOVE = frozenset(
    [code - less for code in _REPEATED if str(code)[0] in "789" for less in (0, 1, 2)]
)
_NINES = frozenset(code for code in _REPEATED if str(code)[0] == "9")
_FEWEST = 2
"""Distinct values that a column needs beside its codes to be one of numbers."""


def codes_in(numbers: np.ndarray) -> list[int]:
    """Values that are written like codes and stand apart from the others, which are not negative.

    >>> codes_in(np.array([18.0, 25, 33, 41, 57, 62, -9, 999]))
    [-9, 999]
    >>> codes_in(np.array([90.0, 92, 94, 95, 97, 99])), codes_in(np.arange(-9.0, 30))
    ([], [])
    """
    values = np.unique(numbers)
    below, rest = values[values < 0], values[values >= 0]
    if len(below) > 4 or len(rest) <= _FEWEST or not _BELOW.issuperset(below.tolist()):
        return []
    if len(below) > 1 and np.diff(below).min() == 1 and below.max() == -1:
        return []  # -1, -2: a number that goes below 0
    first = len(rest)
    while first > 0 and rest[first - 1] in _ABOVE:
        first -= 1
    above, rest = rest[first:], rest[:first]
    if len(above) == 0 or not _NINES & set(above.tolist()) or not _apart(rest, float(above[0])):
        above = above[:0]
    return [int(code) for code in (*below, *above)]


def _apart(rest: np.ndarray, code: float) -> bool:
    """Whether a code lies further above the other values than they lie apart."""
    if len(rest) <= _FEWEST:
        return False
    upper = rest[len(rest) // 2 :]
    gap = code - rest[-1]
    return bool(gap > 3 * np.diff(upper).max() and gap > 0.1 * (rest[-1] - rest[0]))


def are_years(numbers: np.ndarray) -> bool:
    """Whether all are years of our time."""
    return bool(((numbers >= 1900) & (numbers <= 2100)).all() and len(np.unique(numbers)) > 2)


def are_days(numbers: np.ndarray) -> bool:
    """Whether all are dates written as YYYYMMDD.

    >>> are_days(np.array([20190131, 20200229])), are_days(np.array([20191331]))
    (True, False)
    """
    year, month, day = numbers // 10_000, numbers // 100 % 100, numbers % 100
    valid = (year >= 1900) & (year <= 2100) & (month >= 1) & (month <= 12) & (day >= 1)
    return bool((valid & (day <= 31)).all())
