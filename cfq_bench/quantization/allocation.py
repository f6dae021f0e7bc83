"""Exact division of a bit budget among the units of a network."""

import math
from collections.abc import Sequence

import numpy as np

from cfq_bench.quantization.cost import average_bits

USE_UP = 0.05
"""An allocation spends at least 95 % of what its candidates can spend within the budget."""


def least_cost(
    costs: Sequence[Sequence[float]],
    sizes: Sequence[int],
    candidates: Sequence[Sequence[int]],
    budget: float,
    slack: float = USE_UP,
) -> list[int]:
    """Bits with the least summed cost, among all allocations that use up the budget.

    Exact, by a dynamic programme over the bits spent: time and memory grow with the number of units
    times that of weights (in units of their common divisor), not with all combinations.

    Args:
        costs: finite cost of every candidate of every unit, any sign.
        sizes: weights of each unit.
        candidates: bit-widths of each unit, ascending.
        budget: greatest average bits.
        slack: share of the largest feasible average that may be left over.

    Returns:
        Bits of each unit; of equally cheap allocations the one that spends most.

    Raises:
        ValueError: the budget is below the fewest bits of all units.

    >>> least_cost([[9.0, 0.0], [5.0, 0.0]], [10, 10], [[2, 4], [2, 4]], 3.0)
    [4, 2]
    """
    total, fewest = sum(sizes), [row[0] for row in candidates]
    floor = sum(n * b for n, b in zip(sizes, fewest, strict=True))
    room = math.floor((budget + 1e-9) * total) - floor
    if room < 0:
        raise ValueError(f"the fewest bits {fewest} take more than {budget:g} average bits")
    extra = [[n * (b - row[0]) for b in row] for n, row in zip(sizes, candidates, strict=True)]
    unit = math.gcd(*(bits for row in extra for bits in row)) or 1
    width = min(room, sum(row[-1] for row in extra)) // unit + 1
    # least[s]: the least cost of the units so far that spends exactly s extra units of bits.
    least = np.full(width, np.inf)
    least[0] = 0.0
    picks = []
    for shifts, prices in zip(extra, costs, strict=True):
        least, pick = _with_one_more(least, [bits // unit for bits in shifts], prices)
        picks.append(pick)
    spent = np.flatnonzero(np.isfinite(least))
    enough = (1.0 - slack) * (floor + int(spent[-1]) * unit) - 1e-9 * total
    allowed = spent[floor + spent * unit >= enough][::-1]  # dearest first, so that it wins ties
    left = int(allowed[np.argmin(least[allowed])])
    chosen = []
    for pick, shifts in zip(reversed(picks), reversed(extra), strict=True):
        chosen.append(int(pick[left]))
        left -= shifts[chosen[-1]] // unit
    return [row[r] for row, r in zip(candidates, reversed(chosen), strict=True)]


def _with_one_more(
    least: np.ndarray, shifts: Sequence[int], prices: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Least costs with one more unit, and the candidate that each of them picks for it."""
    best = np.full(len(least), np.inf)
    pick = np.zeros(len(least), dtype=np.int8)
    for r, (shift, price) in enumerate(zip(shifts, prices, strict=True)):
        if shift < len(least):
            moved = least[: len(least) - shift] + price
            better = moved < best[shift:]
            best[shift:][better] = moved[better]
            pick[shift:][better] = r
    return best, pick


def spend_rest(
    bits: Sequence[int], sizes: Sequence[int], candidates: Sequence[Sequence[int]], budget: float
) -> list[int]:
    """Raise units to their next candidate, smallest unit first, while the budget allows.

    >>> spend_rest([4, 4, 4], [768, 2048, 64], [[2, 3, 4, 8]] * 3, 4.1)
    [4, 4, 8]
    """
    bits = list(bits)
    allowed = budget * sum(sizes) + 1e-6
    raised = True
    while raised:
        raised = False
        for unit in sorted(range(len(bits)), key=lambda u: sizes[u]):
            higher = [b for b in candidates[unit] if b > bits[unit]]
            spent = sum(n * b for n, b in zip(sizes, bits, strict=True))
            if higher and spent + sizes[unit] * (higher[0] - bits[unit]) <= allowed:
                bits[unit] = higher[0]
                raised = True
    return bits


def fewest_average(sizes: Sequence[int], candidates: Sequence[Sequence[int]]) -> float:
    """Average bits with every unit at its fewest: no budget below it can hold.

    >>> fewest_average([10, 30], [[8], [2, 4]])
    3.5
    """
    return average_bits(sizes, [row[0] for row in candidates])
