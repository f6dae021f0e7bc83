"""Quantized layers: one step and one threshold for every (layer, candidate bit-width)."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.quantization.functional import (
    LEAST_STEP,
    lsq,
    mse_step,
    on_grid,
    pact,
    select,
    signed_range,
    unsigned_levels,
)

ActivationKind = Literal["lsq", "pact"]


class ActivationQuantizer(nn.Module):
    """Quantizes non-negative activations, one learned scale per candidate.

    Scales are kept as logarithms: they stay positive, and Adam's steps are relative.

    Args:
        kind: lsq (unsigned, the scale is the step) or pact (the scale is the threshold alpha).
        bits: bits of each candidate.
    """

    def __init__(self, kind: ActivationKind, bits: Sequence[int]) -> None:
        super().__init__()
        self.kind = kind
        self.bits = tuple(bits)
        self.log_scale = nn.Parameter(torch.zeros(len(self.bits)))

    def calibrate(self, values: Tensor) -> None:
        """Set every scale from float activations of the teacher."""
        for i, bits in enumerate(self.bits):
            self.log_scale.data[i] = calibrated_scale(values, self.kind, bits).log()

    def one(self, values: Tensor, index: int) -> Tensor:
        """Values quantized by candidate `index`."""
        scale, levels = self.log_scale[index].exp(), unsigned_levels(self.bits[index])
        if self.kind == "pact":
            return pact(values, scale, levels)
        per_row = values[0].numel()
        return lsq(values, scale, 0, levels, 1.0 / math.sqrt(per_row * levels))

    def forward(self, values: Tensor, index: int, z: Tensor | None) -> Tensor:
        """Values quantized by one candidate; `z` lets the policy learn about the others."""
        if len(self.bits) == 1:
            return self.one(values, 0)
        chosen = self.one(values, index)
        if z is None:
            return chosen
        with torch.no_grad():
            each = [chosen if i == index else self.one(values, i) for i in range(len(self.bits))]
            every = torch.stack(each)
        return select(every, chosen, z)


class QuantLinear(nn.Module):
    """A linear layer with quantized weights and, where it is fed by a ReLU, quantized inputs.

    Args:
        name: what records and reports call it.
        linear: the full-precision layer that it starts from.
        candidates: weight bit-widths, ascending.
        per_channel: one weight step per output unit.
        activation: quantizer of the layer's input; None for network inputs, which are signed.
    """

    selected: Tensor

    def __init__(
        self,
        name: str,
        linear: nn.Linear,
        candidates: Sequence[int],
        per_channel: bool,
        activation: ActivationQuantizer | None,
    ) -> None:
        super().__init__()
        self.name = name
        self.candidates = tuple(candidates)
        self.per_channel = per_channel
        self.weight = nn.Parameter(linear.weight.detach().clone())
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())
        rows = linear.out_features if per_channel else 1
        self.log_step = nn.Parameter(torch.zeros(len(self.candidates), rows, 1))
        self.activation = activation
        self.register_buffer("selected", torch.tensor(len(self.candidates) - 1))
        self.z: Tensor | None = None
        self.calibrate_weight()

    @property
    def bits(self) -> int:
        """Weight bits of the selected candidate."""
        return self.candidates[int(self.selected)]

    @property
    def activation_bits(self) -> int:
        """Input bits of the selected candidate; 32 where the input is not quantized."""
        if self.activation is None:
            return 32
        bits = self.activation.bits
        return bits[int(self.selected)] if len(bits) > 1 else bits[0]

    @torch.no_grad()
    def calibrate_weight(self) -> None:
        """Set the step of every candidate to the one with the least squared error."""
        for i, bits in enumerate(self.candidates):
            step = mse_step(self.weight, *signed_range(bits), per_row=self.per_channel)
            self.log_step[i] = step.clamp_min(LEAST_STEP).log().reshape(-1, 1)

    def quantized_weight(self, index: int) -> Tensor:
        """(out, in) weights on the grid of candidate `index`."""
        low, high = signed_range(self.candidates[index])
        sharing = self.weight.numel() // self.log_step.shape[1]
        scale = 1.0 / math.sqrt(sharing * high)
        return lsq(self.weight, self.log_step[index].exp(), low, high, scale)

    @torch.no_grad()
    def rounded_weight(self, index: int) -> Tensor:
        """The same values as `quantized_weight`, as constants."""
        low, high = signed_range(self.candidates[index])
        return on_grid(self.weight, self.log_step[index].exp(), low, high)

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        index = int(self.selected)
        if self.activation is not None:
            inputs = self.activation(inputs, index, self.z)
        weight = self.quantized_weight(index)
        if self.z is not None:
            with torch.no_grad():
                count = len(self.candidates)
                each = [weight if i == index else self.rounded_weight(i) for i in range(count)]
                every = torch.stack(each)
            weight = select(every, weight, self.z)
        return F.linear(inputs, weight, self.bias)


class SplitLinear(nn.Module):
    """The first layer as two blocks of input columns that are summed, each with its own bits.

    Numeric columns are a few per cent of the weights and carry most of the boundary error.

    Args:
        blocks: the quantized layers of the column blocks, in column order.
        sizes: columns of each block.
    """

    def __init__(self, blocks: Sequence[QuantLinear], sizes: Sequence[int]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.sizes = list(sizes)

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., d) -> (..., out)."""
        parts = torch.split(inputs, self.sizes, dim=-1)
        first, *others = [block(part) for block, part in zip(self.blocks, parts, strict=True)]
        total: Tensor = first
        for other in others:
            total = total + other
        return total


def calibrated_scale(values: Tensor, kind: ActivationKind, bits: int) -> Tensor:
    """What calibration makes of float activations (...): a step (lsq) or a threshold (pact)."""
    if kind == "pact":
        scale = _percentile(values, 0.999)
    else:
        scale = mse_step(values, 0, unsigned_levels(bits))
    return scale.clamp_min(LEAST_STEP)


def _percentile(values: Tensor, share: float) -> Tensor:
    """A high percentile of the values; their sort is exact and any size is allowed."""
    ordered = values.flatten().sort().values
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
