"""Weight gradients of single rows, from what a layer reads and the slope of what it answers.

A row's gradient of a linear layer is an outer product; that of a convolution is a sum of outer
products over its positions, which has to be formed before its size can be told.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from cfq_bench.quantization.window import Window

ELEMENTS = 2**24
"""Numbers in the gradients that are formed at once."""


def row_norms(given: Tensor, slope: Tensor, window: Window | None) -> Tensor:
    """The l1 norm of each row's weight gradient, (B,).

    Args:
        given: (B, in) or (B, C_in, H, W), what the layer reads.
        slope: (B, out) or (B, C_out, H_out, W_out), the derivative by what it answers.
        window: of a convolution; None for a linear layer.
    """
    if window is None:
        return slope.abs().sum(1) * given.abs().sum(1)
    return torch.cat([part.abs().sum((1, 2)) for part in _of_rows(given, slope, window)])


def summed_sizes(given: Tensor, slope: Tensor, window: Window | None) -> Tensor:
    """Sum over rows of |gradient| of each weight, (out, in) or (C_out, C_in, k, k).

    Arguments as of `row_norms`.
    """
    if window is None:
        return slope.abs().T @ given.abs()
    total = torch.stack([part.abs().sum(0) for part in _of_rows(given, slope, window)]).sum(0)
    return total.view(slope.shape[1], given.shape[1], *window.kernel)


def _of_rows(given: Tensor, slope: Tensor, window: Window) -> Iterator[Tensor]:
    """Gradients (b, C_out, C_in * k * k) of some rows after others."""
    weights = slope.shape[1] * given.shape[1] * window.kernel[0] * window.kernel[1]
    count = max(1, ELEMENTS // max(weights, given[0].numel() * window.kernel[0] * window.kernel[1]))
    for values, slopes in zip(torch.split(given, count), torch.split(slope, count), strict=True):
        yield slopes.flatten(2) @ window.patches(values).transpose(1, 2)
