"""What a method deploys: integer weight codes with a step, and fixed activation quantizers."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.quantization.functional import lsq, pact, signed_range, unsigned_levels


class DeployedLinear(nn.Module):
    """A linear layer whose weights are int8 codes times a step.

    Args:
        name: the unit's name.
        weight: (out, in) float weights to be coded.
        bias: (out,) float, kept in float.
        step: positive, broadcastable to `weight`.
        bits: of the weight codes.
        activation: lsq, pact, or None for an input that is not quantized.
        scale: the activation's step (lsq) or threshold alpha (pact).
        activation_bits: of the input; 32 where it is not quantized.

    Attributes:
        offset: (in,) draws of stochastic rounding of the input, for deployment variants; None:
            the input is rounded to the nearest code.
    """

    codes: Tensor
    step: Tensor
    bias: Tensor | None
    scale: Tensor | None
    offset: Tensor | None

    def __init__(
        self,
        name: str,
        weight: Tensor,
        bias: Tensor | None,
        step: Tensor,
        bits: int,
        activation: Literal["lsq", "pact"] | None,
        scale: Tensor | None,
        activation_bits: int,
    ) -> None:
        super().__init__()
        self.name, self.bits, self.activation_bits = name, bits, activation_bits
        self.activation = activation
        low, high = signed_range(bits)
        codes = (weight / step).clamp(low, high).round().to(torch.int8)
        self.register_buffer("codes", codes.detach().clone())
        self.register_buffer("step", step.detach().clone())
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        self.register_buffer("scale", None if scale is None else scale.detach().clone())
        self.register_buffer("offset", None)

    @property
    def weight(self) -> Tensor:
        """(out, in) float32 weights, on their grid."""
        return self.codes.float() * self.step

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        if self.scale is not None:
            levels = unsigned_levels(self.activation_bits)
            if self.activation == "pact":
                inputs = pact(inputs, self.scale, levels, self.offset)
            else:
                inputs = lsq(inputs, self.scale, 0, levels, offset=self.offset)
        return F.linear(inputs, self.weight, self.bias)


class DeployedSplit(nn.Module):
    """A first layer of two column blocks that are summed."""

    def __init__(self, blocks: Sequence[DeployedLinear], sizes: Sequence[int]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.sizes = list(sizes)

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., d) -> (..., out)."""
        parts = torch.split(inputs, self.sizes, dim=-1)
        outputs = [block(part) for block, part in zip(self.blocks, parts, strict=True)]
        total: Tensor = outputs[0]
        for other in outputs[1:]:
            total = total + other
        return total


class DeployedNetwork(nn.Module):
    """f_q. Its parameters are constants; gradients flow to its inputs straight through rounding."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.eval()

    @property
    def units(self) -> list[DeployedLinear]:
        """The quantized layers in forward order."""
        return [module for module in self.modules() if isinstance(module, DeployedLinear)]

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, classes)."""
        for layer in self.layers:
            x = layer(x)
        return x
