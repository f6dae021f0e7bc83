"""What a bit allocation costs."""

from collections.abc import Sequence


def average_bits(sizes: Sequence[int], bits: Sequence[int]) -> float:
    """Average weight bits: sum n_l b_l / sum n_l. Biases, steps and thresholds are not counted.

    >>> average_bits([300, 100], [3, 7])
    4.0
    """
    return sum(n * b for n, b in zip(sizes, bits, strict=True)) / sum(sizes)


def bit_operations(
    macs: Sequence[int], weight_bits: Sequence[int], activation_bits: Sequence[int]
) -> int:
    """BOPs of one row: sum MACs_l b_w b_a.

    A linear layer has one MAC per weight that is computed, a convolution H_out * W_out.

    >>> bit_operations([10], [4], [8])
    320
    """
    triples = zip(macs, weight_bits, activation_bits, strict=True)
    return sum(n * w * a for n, w, a in triples)
