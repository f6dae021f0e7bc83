"""A small convolutional network for images of a few dozen pixels a side."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from torch import nn

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import BackboneSettings
from cfq_bench.errors import UserError


class Config(BackboneSettings):
    """Settings of the small CNN."""

    channels: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]
    """Output channels of each 3x3 convolution; every one halves height and width."""

    def halved(self) -> "Config | None":
        """Half the channels; None where there is one channel everywhere."""
        fewer = [max(1, channels // 2) for channels in self.channels]
        return None if fewer == self.channels else self.model_copy(update={"channels": fewer})


class SmallCNN(Backbone):
    """3x3 convolution, batch norm, ReLU and 2x2 max pooling, repeated; a linear head."""

    def __init__(self, config: Any, shape: int | Sequence[int], classes: int = 2) -> None:
        super().__init__(config, shape, classes)
        before = self.image_channels()
        halvings = 2 ** len(config.channels)
        height, width = self.shape[1] // halvings, self.shape[2] // halvings
        if height < 1 or width < 1:
            raise UserError(
                f"images of {self.shape[1]}x{self.shape[2]} cannot be halved "
                f"{len(config.channels)} times: list fewer backbone.channels"
            )
        for after in config.channels:
            # Without a bias: the batch norm has one.
            self.append(nn.Conv2d(before, after, 3, padding=1, bias=False))
            self.append(nn.BatchNorm2d(after))
            self.append(nn.ReLU())
            self.append(nn.MaxPool2d(2))
            before = after
        self.append(nn.Flatten())
        self.append(nn.Linear(before * height * width, classes))
