"""Settings that the methods with a quantized network share."""

from typing import Literal

from cfq_bench.config.base import MethodSettings

Target = Literal["opposite", "favourable", "rejected_only"]


class QuantizedSettings(MethodSettings):
    """Base of the ``Config`` of methods that deploy a quantized network."""

    activation_quantizer: Literal["lsq", "pact"]
    """How hidden activations are quantized; weights always have LSQ steps."""
    mixed_allocator: str
    """Who divides a budget that is not uniform, when budget.allocator is auto."""

    def auto_allocator(self, uniform: bool) -> str:
        """Uniform bits where they spend the whole budget, else the method's own allocator."""
        return "uniform" if uniform else self.mixed_allocator


class QATSettings(QuantizedSettings):
    """Base of the ``Config`` of methods that train a quantized network."""
