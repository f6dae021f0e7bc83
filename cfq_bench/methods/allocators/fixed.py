"""Bits that the user gives: `budget.bits`."""

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import AllocatorSettings
from cfq_bench.methods.allocators.base import Allocator
from cfq_bench.methods.base import Context
from cfq_bench.quantization.cost import average_bits
from cfq_bench.quantization.network import QuantizedNetwork


class Config(AllocatorSettings):
    """The bits themselves are `budget.bits`."""


class Fixed(Allocator):
    """Exactly `budget.bits`, one value for each unit."""

    def allocate(
        self, network: QuantizedNetwork, origin: Backbone, context: Context, budget: float
    ) -> list[int]:
        """See the class."""
        return list(self.settings.budget.bits or [])

    def objection(self, network: QuantizedNetwork) -> str | None:
        """One value for each unit, from its candidates, within the budget."""
        budget, units = self.settings.budget, network.units
        bits = budget.bits or []
        if len(bits) != len(units):
            names = ", ".join(unit.name for unit in units)
            return f"budget.bits has {len(bits)} values for {len(units)} units: {names}"
        if any(value not in unit.candidates for value, unit in zip(bits, units, strict=True)):
            what = f"quantization.candidates {network.settings.candidates}"
            if network.settings.layers == "first_last_8":
                what += ", and be 8 for the first and the last layer (quantization.layers)"
            return f"budget.bits {bits} must come from {what}"
        spent = average_bits(network.sizes, bits)
        if spent <= budget.avg_bits + 1e-9:
            return None
        return (
            f"budget.bits {bits} spend {spent:.4g} average bits, budget.avg_bits allows "
            f"{budget.avg_bits:g}: raise it or lower the bits"
        )
