"""ResNet-18 (He et al. 2016; torchvision's `resnet18`) with a stem for small images.

As usual for CIFAR: the stem is a 3x3 convolution of stride 1, without max pooling. The rest is
torchvision's network, layer by layer, with ReLUs that are not in place: hooks and quantizers read
what a convolution answered.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from torch import Tensor, nn

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import BackboneSettings

STAGES, BLOCKS = 4, 2


class Config(BackboneSettings):
    """Settings of ResNet-18."""

    width: Annotated[int, Field(ge=1)]
    """Channels of the first stage (64 in the paper); each of the four has twice the last one's."""

    def halved(self) -> "Config | None":
        """Half the channels; None where the first stage has a single one."""
        return self.model_copy(update={"width": self.width // 2}) if self.width > 1 else None


class BasicBlock(nn.Module):
    """relu(main(x) + shortcut(x)): never negative, as whatever reads it needs.

    Args:
        before: input channels.
        after: output channels.
        stride: of the first convolution, and of the shortcut.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """(B, before, H, W) -> (B, after, H / stride, W / stride)."""
        out: Tensor = self.relu(self.main(x) + self.shortcut(x))
        return out


class ResNet18(Backbone):
    """A stem, four stages of two residual blocks, mean over pixels, a linear head."""

    def __init__(self, config: Any, shape: int | Sequence[int], classes: int = 2) -> None:
        super().__init__(config, shape, classes)
        before = config.width
        self.append(nn.Conv2d(self.image_channels(), before, 3, padding=1, bias=False))
        self.append(nn.BatchNorm2d(before))
        self.append(nn.ReLU())
        for stage in range(STAGES):
            after = config.width * 2**stage
            for block in range(BLOCKS):
                self.append(BasicBlock(before, after, 2 if stage > 0 and block == 0 else 1))
                before = after
        self.append(nn.AdaptiveAvgPool2d(1))
        self.append(nn.Flatten())
        self.append(nn.Linear(before, classes))
        self.apply(_initialize)


def _initialize(module: nn.Module) -> None:
    """As torchvision does: He's initialization by output channels."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
