"""FP32: the teacher itself, the row that every table is read against."""

from typing import Any

from torch import nn

from cfq_bench.config.base import MethodSettings
from cfq_bench.methods.base import Method, Phase


class Config(MethodSettings):
    """FP32 has no settings."""


class FP32(Method):
    """Deploys the teacher unchanged."""

    def phases(self) -> list[Phase]:
        """Nothing to train."""
        return []

    def deployed(self) -> nn.Module:
        """The teacher."""
        return self.context.teacher

    def deployment(self) -> dict[str, Any]:
        """32 bits everywhere."""
        return float_deployment(self.context.teacher)


def float_deployment(network: nn.Module) -> dict[str, Any]:
    """The description of a network that is not quantized."""
    linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
    names = [f"layer{i}" for i in range(1, len(linears) + 1)]
    return {
        "bits_per_layer": dict.fromkeys(names, 32),
        "activation_bits": dict.fromkeys(names, 32),
        "sizes": {n: layer.weight.numel() for n, layer in zip(names, linears, strict=True)},
    }
