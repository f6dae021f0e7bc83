"""How much of an image task is looked at where a table is looked at in full.

A feature map has thousands of values where a hidden layer of a table's network has dozens: steps
and scores are as good from a part of them, and would otherwise take gigabytes and minutes.
"""

import torch
from torch import Tensor

IMAGES = 512
"""Images that steps are calibrated on."""
VALUES = 2**20
"""Values of feature maps that a step is searched for."""
CHUNK = 256
"""Images per forward pass."""


def few_images(x: Tensor) -> Tensor:
    """The first `IMAGES` of images (N, C, H, W); rows (N, d) of a table stay all of them."""
    return x[:IMAGES] if x.dim() > 2 else x


def spread_images(x: Tensor) -> Tensor:
    """At most `IMAGES` of images, evenly spaced: of a pool, points of every margin.

    Rows (N, d) of a table stay all of them.
    """
    return x[:: -(-len(x) // IMAGES) or 1] if x.dim() > 2 else x


def sampled_values(values: Tensor) -> Tensor:
    """A seeded sample (`VALUES`,) of feature maps (N, C, H, W); what is (N, d) stays whole."""
    if values.dim() <= 2 or values.numel() <= VALUES:
        return values
    draws = torch.randint(values.numel(), (VALUES,), generator=torch.Generator().manual_seed(0))
    return values.flatten()[draws.to(values.device)]


def parts(x: Tensor) -> tuple[Tensor, ...]:
    """Images in chunks; a table in one: the products of its rows stay what they are."""
    return torch.split(x, CHUNK) if x.dim() > 2 and len(x) else (x,)
