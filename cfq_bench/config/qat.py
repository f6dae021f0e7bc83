"""Settings that the quantization-aware methods share."""

from typing import Literal

from cfq_bench.config.base import MethodSettings

Target = Literal["opposite", "favourable", "rejected_only"]


class QATSettings(MethodSettings):
    """Base of the ``Config`` of methods that train a quantized network."""

    activation_quantizer: Literal["lsq", "pact"]
    """How hidden activations are quantized; weights always have LSQ steps."""
    mixed_allocator: Literal["pool_mse", "gumbel"]
    """Who divides a budget that is not uniform, when budget.allocator is auto."""
