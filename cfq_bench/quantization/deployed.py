"""What a method deploys: integer weight codes with a step, and fixed activation quantizers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.backbones.graph import Flow, Reads
from cfq_bench.quantization.functional import lsq, pact, signed_range, unsigned_levels
from cfq_bench.quantization.window import Window


class Shipped(NamedTuple):
    """What a quantized layer is when it leaves training.

    Attributes:
        name: the unit's name.
        weight: float weights to be coded, (out, in) or (out, in, k, k).
        bias: (out,) float, kept in float.
        step: positive, broadcastable to `weight`.
        bits: of the weight codes.
        activation: lsq, pact, or None for an input that is not quantized.
        scale: the activation's step (lsq) or threshold alpha (pact).
        activation_bits: of the input; 32 where it is not quantized.
    """

    name: str
    weight: Tensor
    bias: Tensor | None
    step: Tensor
    bits: int
    activation: Literal["lsq", "pact"] | None
    scale: Tensor | None
    activation_bits: int


class DeployedLayer(nn.Module, ABC):
    """A layer whose weights are int8 codes times a step.

    Args:
        shipped: what it is made of.

    Attributes:
        offset: draws of stochastic rounding of one input, in its shape, for deployment variants;
            None: the input is rounded to the nearest code.
    """

    codes: Tensor
    step: Tensor
    bias: Tensor | None
    scale: Tensor | None
    offset: Tensor | None

    def __init__(self, shipped: Shipped) -> None:
        super().__init__()
        name, weight, bias, step, bits, activation, scale, activation_bits = shipped
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
        """Float32 weights, on their grid."""
        return self.codes.float() * self.step

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""

    @abstractmethod
    def apply_weight(self, inputs: Tensor) -> Tensor:
        """What the layer answers to inputs that are quantized."""

    def forward(self, inputs: Tensor) -> Tensor:
        """The layer's answer."""
        if self.scale is not None:
            levels = unsigned_levels(self.activation_bits)
            if self.activation == "pact":
                inputs = pact(inputs, self.scale, levels, self.offset)
            else:
                inputs = lsq(inputs, self.scale, 0, levels, offset=self.offset)
        return self.apply_weight(inputs)


class DeployedLinear(DeployedLayer):
    """A deployed linear layer."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(in,)."""
        return (self.codes.shape[1],)

    def apply_weight(self, inputs: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return F.linear(inputs, self.weight, self.bias)


class DeployedConv2d(DeployedLayer):
    """A deployed convolution; `window` is where it looks, the rest as `DeployedLayer`."""

    def __init__(self, shipped: Shipped, window: Window) -> None:
        super().__init__(shipped)
        self.window = window

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(in, H, W)."""
        return self.window.input_shape

    def apply_weight(self, inputs: Tensor) -> Tensor:
        """(..., in, H, W) -> (..., out, H_out, W_out)."""
        return self.window.convolve(inputs, self.weight, self.bias)


class DeployedSplit(nn.Module):
    """A first layer of two column blocks that are summed."""

    def __init__(self, blocks: Sequence[DeployedLayer], sizes: Sequence[int]) -> None:
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
    """f_q. Its parameters are constants; gradients flow to its inputs straight through rounding.

    Args:
        layers: in the order in which they run; the last one answers the logits.
        reads: which values each of them reads (`backbones.graph.Reads`); None: each reads the one
            before.
    """

    def __init__(self, layers: Sequence[nn.Module], reads: Reads | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.flow = None if reads is None else Flow(reads)
        self.eval()

    @property
    def units(self) -> list[DeployedLayer]:
        """The quantized layers in forward order."""
        return [module for module in self.modules() if isinstance(module, DeployedLayer)]

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, classes)."""
        if self.flow is not None:
            return self.flow.run(self.layers, x)
        for layer in self.layers:
            x = layer(x)
        return x
