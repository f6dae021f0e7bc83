"""Allocations by enumeration: the oracle for the exact solver."""

import itertools
from collections.abc import Sequence


def spent_bits(sizes: Sequence[int], bits: Sequence[int]) -> float:
    return sum(n * b for n, b in zip(sizes, bits, strict=True)) / sum(sizes)


def allowed_allocations(
    sizes: Sequence[int], candidates: Sequence[Sequence[int]], budget: float, slack: float
) -> dict[tuple[int, ...], float]:
    """Every allocation within the budget and at most `slack` below the dearest of them."""
    every = {bits: spent_bits(sizes, bits) for bits in itertools.product(*candidates)}
    within = {bits: spent for bits, spent in every.items() if spent <= budget + 1e-9}
    most = max(within.values())
    return {bits: spent for bits, spent in within.items() if spent >= (1 - slack) * most - 1e-9}
