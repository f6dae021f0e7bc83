"""The network behind the quantizers: its float logits, and what each unit reads and answers."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.quantization.layers import QuantLinear, SplitLinear
from cfq_bench.quantization.network import QuantizedNetwork


@dataclass(frozen=True)
class FloatPass:
    """One forward pass without any quantizer.

    Attributes:
        logits: (B, C).
        inputs: (B, in) of each unit.
        outputs: (B, out) of each unit, before blocks are summed.
    """

    logits: Tensor
    inputs: list[Tensor]
    outputs: list[Tensor]


def float_pass(
    network: QuantizedNetwork, x: Tensor, replaced: Mapping[QuantLinear, Tensor] | None = None
) -> FloatPass:
    """Run a network without quantizers, with the weights of some units replaced."""
    weights = replaced or {}
    inputs, outputs = [], []

    def linear(unit: nn.Module, values: Tensor) -> Tensor:
        if not isinstance(unit, QuantLinear):
            raise TypeError(f"expected a QuantLinear, got {type(unit).__name__}")
        answer = F.linear(values, weights.get(unit, unit.weight), unit.bias)
        inputs.append(values)
        outputs.append(answer)
        return answer

    for layer in network.layers:
        if isinstance(layer, SplitLinear):
            parts = zip(layer.blocks, torch.split(x, layer.sizes, dim=-1), strict=True)
            x = torch.stack([linear(block, part) for block, part in parts]).sum(0)
        else:
            x = linear(layer, x) if isinstance(layer, QuantLinear) else layer(x)
    return FloatPass(x, inputs, outputs)
