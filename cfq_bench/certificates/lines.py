"""Lines below and above a ReLU, and below and above a quantized ReLU, on an interval."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Slopes = Literal["flat", "steep", "adaptive"]
"""Which of the valid lower lines a unit takes where its interval has both signs."""


@dataclass(frozen=True)
class Lines:
    """slope z + offset, (B, n) each: `lower` <= act(z) <= `upper` wherever low <= z <= high."""

    lower_slope: Tensor
    lower_offset: Tensor
    upper_slope: Tensor
    upper_offset: Tensor


def quantized(value: Tensor, step: float, levels: int) -> Tensor:
    """S round(clip(z / s, 0, levels)): the ReLU is in the clip.

    >>> quantized(torch.tensor([-1.0, 0.7, 9.0]), 0.5, 3).tolist()
    [0.0, 0.5, 1.5]
    """
    return (value / step).clamp(0, levels).round() * step


def relu_lines(low: Tensor, high: Tensor, slopes: Slopes) -> Lines:
    """Lines for max(z, 0)."""
    zero, one = torch.zeros_like(low), torch.ones_like(low)
    on, off = low >= 0, high <= 0
    chord = torch.where(on, one, high / (high - low).clamp_min(1e-300))
    chord = torch.where(off, zero, chord)
    lower = {"flat": zero, "steep": one, "adaptive": (high > -low).to(low)}[slopes]
    lower = torch.where(on, one, torch.where(off, zero, lower))
    return Lines(lower, zero, chord, torch.where(on | off, zero, -chord * low))


def quantized_lines(low: Tensor, high: Tensor, step: float, levels: int, slopes: Slopes) -> Lines:
    """Lines for `quantized`: those of the clip, half a step away, or the constants at the ends.

    Rounding is monotone, so that Q(low) and Q(high) bound it without the half step.
    """
    top, half = step * levels, step / 2
    least, most = quantized(low, step, levels), quantized(high, step, levels)
    middle, zero = (low + high) / 2, torch.zeros_like(low)
    width = (high - low).clamp_min(1e-300)

    # Above the clip: the diagonal, or the chord from (low, 0) to the clip's corner.
    corner = high.clamp(max=top)
    slope = torch.where(low >= 0, 1.0, corner / (corner - low).clamp_min(1e-300))
    offset = torch.where(low >= 0, zero, -slope * low) + half
    flat = (most <= slope * middle + offset) | (least == most) | (high <= 0) | (low >= top)
    upper_slope, upper_offset = torch.where(flat, zero, slope), torch.where(flat, most, offset)

    # Below the clip: a chord to the end where it saturates, or a ray through the origin.
    chord = torch.where(high > top, (top - low) / width, 1.0)
    ray = (top / high.clamp_min(1e-300)).clamp(max=1.0)
    slope = torch.where(low >= 0, chord, ray)
    offset = torch.where(low >= 0, low - slope * low, zero) - half
    flat = least >= slope * middle + offset
    if slopes != "adaptive":
        flat = torch.where(low >= 0, flat, slopes == "flat")
    flat = flat | (least == most) | (high <= 0) | (low >= top)
    return Lines(
        torch.where(flat, zero, slope),
        torch.where(flat, least, offset),
        upper_slope,
        upper_offset,
    )
