"""FP32: the teacher itself, the row that every table is read against."""

from typing import Any

from torch import nn

from cfq_bench.backbones.base import Backbone
from cfq_bench.backbones.graph import weighted_layers
from cfq_bench.config.base import MethodSettings
from cfq_bench.methods.base import Method, Phase
from cfq_bench.quantization.window import layer_macs


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


def float_deployment(network: Backbone) -> dict[str, Any]:
    """The description of a network that is not quantized."""
    layers = weighted_layers(network)
    names = [f"layer{i}" for i in range(1, len(layers) + 1)]
    return {
        "bits_per_layer": dict.fromkeys(names, 32),
        "activation_bits": dict.fromkeys(names, 32),
        "sizes": {n: layer.weight.numel() for n, layer in zip(names, layers, strict=True)},
        "macs": dict(zip(names, layer_macs(network), strict=True)),
    }
