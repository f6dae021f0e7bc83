"""Multi-layer perceptrons; without hidden layers, logistic regression."""

import itertools
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from torch import nn

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import BackboneSettings


class Config(BackboneSettings):
    """Settings of the MLP."""

    hidden: list[Annotated[int, Field(ge=1)]]
    """Units of each hidden layer; empty: logistic regression."""

    def halved(self) -> "Config | None":
        """Half the hidden units; None without any, or with one in each layer."""
        fewer = [max(1, units // 2) for units in self.hidden]
        return None if fewer == self.hidden else self.model_copy(update={"hidden": fewer})


class MLP(Backbone):
    """Linear layers with ReLU between them; an image is read as one row of numbers."""

    def __init__(self, config: Any, shape: int | Sequence[int], classes: int = 2) -> None:
        super().__init__(config, shape, classes)
        if len(self.shape) > 1:
            self.append(nn.Flatten())
        sizes = [self.width, *config.hidden]
        for before, after in itertools.pairwise(sizes):
            self.append(nn.Linear(before, after))
            self.append(nn.ReLU())
        self.append(nn.Linear(sizes[-1], classes))
