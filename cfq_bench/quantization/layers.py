"""Quantized layers: one step and one threshold for every (layer, candidate bit-width)."""

import math
from abc import ABC, abstractmethod
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
from cfq_bench.quantization.sampling import sampled_values
from cfq_bench.quantization.window import Window

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


class QuantLayer(nn.Module, ABC):
    """A layer with quantized weights and, where they are never negative, quantized inputs.

    Args:
        name: what records and reports call it.
        layer: the full-precision layer that it starts from.
        candidates: weight bit-widths, ascending.
        per_channel: one weight step per output unit or channel.
        activation: quantizer of the layer's input; None for network inputs, which are signed.
    """

    selected: Tensor

    def __init__(
        self,
        name: str,
        layer: nn.Linear | nn.Conv2d,
        candidates: Sequence[int],
        per_channel: bool,
        activation: ActivationQuantizer | None,
    ) -> None:
        super().__init__()
        self.name = name
        self.candidates = tuple(candidates)
        self.per_channel = per_channel
        self.weight = nn.Parameter(layer.weight.detach().clone())
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach().clone())
        rows = len(self.weight) if per_channel else 1
        ones = [1] * (self.weight.dim() - 1)  # a step broadcasts over the weights that share it
        self.log_step = nn.Parameter(torch.zeros(len(self.candidates), rows, *ones))
        self.activation = activation
        self.register_buffer("selected", torch.tensor(len(self.candidates) - 1))
        self.z: Tensor | None = None
        self.calibrate_weight()

    @property
    def positions(self) -> int:
        """How often each weight is used on one input."""
        return 1

    @property
    def macs(self) -> int:
        """Multiplications of one input."""
        return self.weight.numel() * self.positions

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
            self.set_step(i, mse_step(self.weight, *signed_range(bits), per_row=self.per_channel))

    @torch.no_grad()
    def set_step(self, index: int, step: Tensor) -> None:
        """Set the step of one candidate: a scalar, or one for each output unit or channel."""
        self.log_step[index] = step.clamp_min(LEAST_STEP).log().reshape(self.log_step[index].shape)

    def quantized_weight(self, index: int) -> Tensor:
        """The weights on the grid of candidate `index`, in the shape of `weight`."""
        low, high = signed_range(self.candidates[index])
        sharing = self.weight.numel() // self.log_step.shape[1]
        scale = 1.0 / math.sqrt(sharing * high)
        return lsq(self.weight, self.log_step[index].exp(), low, high, scale)

    @torch.no_grad()
    def rounded_weight(self, index: int) -> Tensor:
        """The same values as `quantized_weight`, as constants."""
        low, high = signed_range(self.candidates[index])
        return on_grid(self.weight, self.log_step[index].exp(), low, high)

    @abstractmethod
    def apply_weight(self, inputs: Tensor, weight: Tensor) -> Tensor:
        """What the layer answers with these weights and its bias."""

    def forward(self, inputs: Tensor) -> Tensor:
        """The layer's answer, quantized by the selected candidates."""
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
        return self.apply_weight(inputs, weight)


class QuantLinear(QuantLayer):
    """A quantized linear layer."""

    def apply_weight(self, inputs: Tensor, weight: Tensor) -> Tensor:
        """(..., in) and (out, in) -> (..., out)."""
        return F.linear(inputs, weight, self.bias)


class QuantConv2d(QuantLayer):
    """A quantized convolution; `window` is where it looks, the rest as `QuantLayer`."""

    def __init__(
        self,
        name: str,
        layer: nn.Conv2d,
        candidates: Sequence[int],
        per_channel: bool,
        activation: ActivationQuantizer | None,
        window: Window,
    ) -> None:
        super().__init__(name, layer, candidates, per_channel, activation)
        self.window = window

    @property
    def positions(self) -> int:
        """Output pixels."""
        return self.window.positions

    def apply_weight(self, inputs: Tensor, weight: Tensor) -> Tensor:
        """(..., in, H, W) and (out, in, k, k) -> (..., out, H_out, W_out)."""
        return self.window.convolve(inputs, weight, self.bias)


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
    values = sampled_values(values)
    if kind == "pact":
        scale = _percentile(values, 0.999)
    else:
        scale = mse_step(values, 0, unsigned_levels(bits))
    return scale.clamp_min(LEAST_STEP)


def _percentile(values: Tensor, share: float) -> Tensor:
    """A high percentile of the values; their sort is exact and any size is allowed."""
    ordered = values.flatten().sort().values
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
