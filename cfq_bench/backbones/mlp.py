"""Multi-layer perceptrons; without hidden layers, logistic regression."""

import itertools
from typing import Annotated, Any

from pydantic import Field
from torch import nn

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import BackboneSettings


class Config(BackboneSettings):
    """Settings of the MLP."""

    hidden: list[Annotated[int, Field(ge=1)]]
    """Units of each hidden layer; empty: logistic regression."""


class MLP(Backbone):
    """Linear layers with ReLU between them."""

    def __init__(self, config: Any, width: int, classes: int = 2) -> None:
        super().__init__(config, width, classes)
        sizes = [width, *config.hidden]
        for before, after in itertools.pairwise(sizes):
            self.append(nn.Linear(before, after))
            self.append(nn.ReLU())
        self.append(nn.Linear(sizes[-1], classes))
