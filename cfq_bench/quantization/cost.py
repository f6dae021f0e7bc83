"""What a bit allocation costs."""

import itertools
from collections.abc import Iterator, Sequence


def average_bits(sizes: Sequence[int], bits: Sequence[int]) -> float:
    """Average weight bits: sum n_l b_l / sum n_l. Biases, steps and thresholds are not counted.

    >>> average_bits([300, 100], [3, 7])
    4.0
    """
    return sum(n * b for n, b in zip(sizes, bits, strict=True)) / sum(sizes)


def bit_operations(
    macs: Sequence[int], weight_bits: Sequence[int], activation_bits: Sequence[int]
) -> int:
    """BOPs of one row: sum MACs_l b_w b_a; a linear layer has one MAC per weight that is computed.

    >>> bit_operations([10], [4], [8])
    320
    """
    triples = zip(macs, weight_bits, activation_bits, strict=True)
    return sum(n * w * a for n, w, a in triples)


def feasible_allocations(
    sizes: Sequence[int], candidates: Sequence[int], budget: float, slack: float
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every allocation within the budget that also uses it up.

    Args:
        sizes: weights of each unit.
        candidates: bit-widths to choose from.
        budget: greatest average bits.
        slack: keep allocations within this share of the largest feasible average.

    Yields:
        Candidate indices of each unit, and the average bits.

    Raises:
        ValueError: the budget is below the fewest candidate bits.
    """
    every = []
    for choice in itertools.product(range(len(candidates)), repeat=len(sizes)):
        spent = average_bits(sizes, [candidates[i] for i in choice])
        if spent <= budget + 1e-9:
            every.append((choice, spent))
    if not every:
        raise ValueError(f"no allocation of {candidates} has {budget:g} average bits or fewer")
    most = max(spent for _, spent in every)
    for choice, spent in every:
        if spent >= (1.0 - slack) * most - 1e-9:
            yield choice, spent
