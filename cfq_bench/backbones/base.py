"""What a backbone file provides."""

from typing import Any

import torch
from torch import nn


class Backbone(nn.Sequential):
    """A feed-forward network (B, d) float32 -> (B, 2) logits, made of layers in order.

    Quantization walks the layers: a linear layer is quantized together with the activation that
    feeds it, and the first one reads the encoded row.

    Args:
        config: the backbone's settings.
        width: d, the width of an encoded row.
        classes: number of logits.
    """

    def __init__(self, config: Any, width: int, classes: int = 2) -> None:
        super().__init__()
        self.config = config
        self.width = width
        self.classes = classes


def make_backbone(
    kind: type[Backbone], config: Any, width: int, seed: int, classes: int = 2
) -> Backbone:
    """Build a backbone whose initialization depends on the seed alone, not on global state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(config, width, classes)
