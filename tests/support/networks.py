"""Tiny convolutional networks with random statistics, and images for them."""

from typing import Any

import torch
from torch import Tensor, nn

from cfq_bench.backbones.base import Backbone, make_backbone
from cfq_bench.backbones.batch_norm import fold_batch_norm
from cfq_bench.config.loader import load_settings
from cfq_bench.config.plugin import load_class
from cfq_bench.config.settings import QuantizationSettings

SHAPE = (2, 12, 10)
"""Channels, height and width."""
SMALL = {"small_cnn": ["backbone.channels=[8, 6, 5]"], "resnet18": ["backbone.width=8"]}


def backbone_of(name: str, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> Backbone:
    """A backbone that has seen data: its batch norms have statistics and scales of their own."""
    settings = load_settings(backbone=name, overrides=SMALL[name]).backbone
    network = make_backbone(load_class(settings.module, Backbone), settings, shape, seed, 3)
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            mean, var = module.running_mean, module.running_var
            assert mean is not None
            assert var is not None
            mean.copy_(0.3 * torch.randn(mean.shape, generator=generator))
            var.copy_(0.5 + torch.rand(var.shape, generator=generator))
            module.weight.data.copy_(0.5 + torch.rand(mean.shape, generator=generator))
            module.bias.data.copy_(0.3 * torch.randn(mean.shape, generator=generator))
    return network.eval().requires_grad_(False)


def folded_of(name: str, seed: int = 0) -> Backbone:
    """The same as a teacher."""
    return fold_batch_norm(backbone_of(name, seed=seed))


def images(count: int = 20, shape: tuple[int, ...] = SHAPE, seed: int = 3) -> Tensor:
    """(count, *shape), signed."""
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


def quantization(**changes: Any) -> QuantizationSettings:
    """Settings of quantization."""
    settings = load_settings().quantization.model_dump()
    return QuantizationSettings(**{**settings, **changes})
