"""What a backbone file provides."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from cfq_bench.errors import UserError


class Backbone(nn.Sequential):
    """A feed-forward network (B, *shape) float32 -> logits (B, classes), made of layers in order.

    A layer may hold others, as a residual block does. Quantization traces the network
    (`backbones.graph`): every linear layer and convolution is quantized together with the
    activation that feeds it, which must be non-negative, and the first one reads the input as it
    is. Batch norms stand right behind the layers that they are folded into once trained.

    Args:
        config: the backbone's settings.
        shape: of one input: d, the width of an encoded row, or (channels, height, width).
        classes: number of logits.
    """

    def __init__(self, config: Any, shape: int | Sequence[int], classes: int = 2) -> None:
        super().__init__()
        self.config = config
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.classes = classes

    @property
    def width(self) -> int:
        """Numbers in one input."""
        return math.prod(self.shape)

    def image_channels(self) -> int:
        """Channels of the input.

        Raises:
            UserError: the input is no image.
        """
        if len(self.shape) != 3:
            raise UserError(
                f"backbone {type(self).__name__} reads images (channels, height, width), and the "
                f"data has inputs of shape {self.shape}: use backbone=mlp2"
            )
        return self.shape[0]


def make_backbone(
    kind: type[Backbone], config: Any, shape: int | Sequence[int], seed: int, classes: int = 2
) -> Backbone:
    """Build a backbone whose initialization depends on the seed alone, not on global state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(config, shape, classes)
