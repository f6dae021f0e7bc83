"""The same bits for every unit that has a choice."""

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import AllocatorSettings
from cfq_bench.errors import UserError
from cfq_bench.methods.allocators.base import Allocator
from cfq_bench.methods.base import Context
from cfq_bench.quantization.cost import average_bits
from cfq_bench.quantization.network import QuantizedNetwork


class Config(AllocatorSettings):
    """Uniform bits have no settings."""


class Uniform(Allocator):
    """The largest candidate that the budget holds, for all units whose bits are not fixed."""

    def allocate(
        self, network: QuantizedNetwork, origin: Backbone, context: Context, budget: float
    ) -> list[int]:
        """See the class."""
        free, sizes = network.free_units, network.sizes
        for bits in reversed(network.settings.candidates):
            chosen = [bits if unit in free else unit.candidates[0] for unit in network.units]
            if average_bits(sizes, chosen) <= budget + 1e-9:
                return chosen
        raise UserError(f"no uniform bits fit into budget.avg_bits {budget:g}: raise it")
