"""The geometry of a convolution, shared by its quantized, deployed and stored forms."""

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.backbones.base import Backbone
from cfq_bench.backbones.graph import input_shapes, one_input, steps_of, weighted_layers
from cfq_bench.errors import UserError


@dataclass(frozen=True)
class Window:
    """Where a convolution looks. Pairs are (height, width).

    Attributes:
        input_shape: (C_in, H, W) of one input.
        kernel: size.
        stride: step between two places.
        padding: zeros on either side.
        dilation: distance between two pixels of the kernel.
    """

    input_shape: tuple[int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @classmethod
    def of(cls, layer: nn.Conv2d, input_shape: tuple[int, ...]) -> "Window":
        """The geometry of a layer.

        Raises:
            UserError: groups, or padding of another kind than a number of zeros.
        """
        if layer.groups != 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str):
            raise UserError(
                f"the convolution {layer} cannot be quantized: only groups=1 and a number of zeros "
                "as padding are supported"
            )
        channels, height, width = input_shape
        pairs = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        return cls((channels, height, width), *((pair[0], pair[1]) for pair in pairs))

    @property
    def positions(self) -> int:
        """H_out * W_out: how often each weight is used on one input.

        >>> Window((1, 28, 28), (3, 3), (2, 2), (1, 1), (1, 1)).positions
        196
        """
        sides = zip(
            self.input_shape[1:],
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
            strict=True,
        )
        return math.prod((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sides)

    def convolve(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """(..., C_in, H, W) and (C_out, C_in, k, k) -> (..., C_out, H_out, W_out)."""
        return F.conv2d(inputs, weight, bias, self.stride, self.padding, self.dilation)

    def patches(self, inputs: Tensor) -> Tensor:
        """What each place reads: (B, C_in, H, W) -> (B, C_in * k * k, positions)."""
        return F.unfold(inputs, self.kernel, self.dilation, self.padding, self.stride)


def layer_macs(network: Backbone) -> list[int]:
    """Multiplications of one input in each layer, in forward order."""
    shapes = input_shapes(steps_of(network), one_input(network))
    return [
        layer.weight.numel()
        * (Window.of(layer, shape).positions if isinstance(layer, nn.Conv2d) else 1)
        for layer, shape in zip(weighted_layers(network), shapes, strict=True)
    ]
