"""The network behind the quantizers: its float logits, and what each unit reads and answers."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cfq_bench.quantization.layers import QuantLayer, SplitLinear
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.sampling import parts

Replaced = Mapping[QuantLayer, Tensor]
"""Weights that stand in for a unit's own."""


@dataclass(frozen=True)
class FloatPass:
    """One forward pass without any quantizer.

    Attributes:
        logits: (B, C).
        inputs: (B, in) of each unit, or (B, in, H, W).
        outputs: (B, out) of each unit, or (B, out, H, W), before blocks are summed.
    """

    logits: Tensor
    inputs: list[Tensor]
    outputs: list[Tensor]


def float_pass(network: QuantizedNetwork, x: Tensor, replaced: Replaced | None = None) -> FloatPass:
    """Run a network without quantizers, with the weights of some units replaced."""
    weights = replaced or {}
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []

    def answer(unit: nn.Module, values: Tensor) -> Tensor:
        if not isinstance(unit, QuantLayer):
            raise TypeError(f"expected a QuantLayer, got {type(unit).__name__}")
        answered = unit.apply_weight(values, weights.get(unit, unit.weight))
        inputs.append(values)
        outputs.append(answered)
        return answered

    def call(layer: nn.Module, *values: Tensor) -> Tensor:
        if isinstance(layer, SplitLinear):
            blocks = zip(layer.blocks, torch.split(values[0], layer.sizes, dim=-1), strict=True)
            return torch.stack([answer(block, part) for block, part in blocks]).sum(0)
        if isinstance(layer, QuantLayer):
            return answer(layer, *values)
        other: Tensor = layer(*values)
        return other

    return FloatPass(network.flow.run(network.layers, x, call), inputs, outputs)


def float_logits(network: QuantizedNetwork, x: Tensor, replaced: Replaced | None = None) -> Tensor:
    """The logits of `float_pass`, images by a few at a time."""
    return torch.cat([float_pass(network, part, replaced).logits for part in parts(x)])
