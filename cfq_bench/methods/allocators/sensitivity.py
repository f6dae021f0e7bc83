"""Bits by how much answers at some points depend on each unit.

`conf/allocator/sensitivity.yaml` looks at train rows and their labels, as accuracy-oriented
mixed precision does; `cf_sensitivity.yaml` at the teacher's recourse points and their target
classes (paper, CF-PTQ); `pool_mse.yaml` at the logits there, and `pool_residual.yaml` at that part
of their error which training does not take away at once.
"""

from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import AllocatorSettings, NonNegative
from cfq_bench.methods.allocators.base import Allocator
from cfq_bench.methods.base import Context
from cfq_bench.quantization.allocation import least_cost
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.sensitivity import (
    gradient_sensitivity,
    logit_change,
    logit_residual,
    loss_change,
    weight_errors,
)


class Config(AllocatorSettings):
    """Settings of the sensitivity allocators."""

    points: Literal["factual", "recourse"]
    """Train rows with their labels, or the recourse pool with its target classes."""
    measure: Literal["gradient", "logit_change", "logit_residual", "loss_change"]
    """gradient: l1 norm of the loss gradient, times the greatest weight error; the others quantize
    one unit at a time and take the mean squared logit error, that of the best affine map of the
    logits, or the growth of the loss."""
    rows: Annotated[int, Field(ge=1)]
    """points=factual: most train rows."""
    pool_size: Annotated[int, Field(ge=1)]
    """points=recourse: train rows whose recourse is solved."""
    pool_kappas: Annotated[list[NonNegative], Field(min_length=1)]
    """points=recourse: margins of their actions, dealt out to the rows in turn."""


class Sensitivity(Allocator):
    """Least summed sensitivity under the budget, exactly."""

    config: Config

    def allocate(
        self, network: QuantizedNetwork, origin: Backbone, context: Context, budget: float
    ) -> list[int]:
        """See the class."""
        costs = self.costs(network, origin, context)
        return least_cost(costs, network.sizes, network.candidates, budget)

    def costs(
        self, network: QuantizedNetwork, origin: Backbone, context: Context
    ) -> list[list[float]]:
        """What each candidate of each unit costs, (L, R)."""
        inputs, target = self._points(context)
        if self.config.measure == "logit_change":
            return logit_change(network, origin, inputs)
        if self.config.measure == "logit_residual":
            return logit_residual(network, origin, inputs)
        if self.config.measure == "loss_change":
            return loss_change(network, inputs, target)
        # The paper scores layers and does not say how a score becomes bits. By Hoelder,
        # |dL| <= ||grad||_1 ||dW||_inf to first order: the l1 norm calls for the greatest error.
        scores = gradient_sensitivity(network, inputs, target)
        errors = weight_errors(network, lambda error: error.abs().max())
        return [[score * e for e in row] for score, row in zip(scores, errors, strict=True)]

    def _points(self, context: Context) -> tuple[Tensor, Tensor]:
        config, train = self.config, context.data.train
        if config.points == "recourse":
            pool = context.recourse_pool("opposite", config.pool_size, config.pool_kappas)
            if len(pool.target):
                return pool.inputs, pool.target
            # Nobody has recourse: the factual rows stand in.
        return train.inputs(slice(config.rows)), train.y[: config.rows]
