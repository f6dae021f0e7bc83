"""HAWQ-V2: average Hessian trace times squared weight error (Dong et al. 2020)."""

from typing import Annotated

import torch
from pydantic import Field

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import AllocatorSettings
from cfq_bench.methods.allocators.base import Allocator
from cfq_bench.methods.base import Context
from cfq_bench.quantization.allocation import least_cost
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.sensitivity import hessian_traces, weight_errors
from cfq_bench.seeds import derive_seed


class Config(AllocatorSettings):
    """Settings of HAWQ."""

    probes: Annotated[int, Field(ge=1)]
    """Rademacher vectors per unit in Hutchinson's estimate of the trace."""
    rows: Annotated[int, Field(ge=1)]
    """Most train rows whose label loss is differentiated."""


class HAWQ(Allocator):
    """Least sum of Tr(H_l) / n_l * ||Q_b(W_l) - W_l||^2, exactly; H is the label loss' Hessian."""

    config: Config

    def allocate(
        self, network: QuantizedNetwork, origin: Backbone, context: Context, budget: float
    ) -> list[int]:
        """See the class."""
        generator = torch.Generator().manual_seed(derive_seed(context.settings.seed, "hawq"))
        train, rows = context.data.train, self.config.rows
        traces = hessian_traces(
            network, train.inputs(slice(rows)), train.y[:rows], self.config.probes, generator
        )
        errors = weight_errors(network, lambda error: error.square().sum())
        costs = [
            [trace / size * error for error in row]
            for trace, size, row in zip(traces, network.sizes, errors, strict=True)
        ]
        return least_cost(costs, network.sizes, network.candidates, budget)
