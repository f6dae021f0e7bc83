"""What every method with a quantized network has in common: the network, its bits, what ships."""

from typing import Any

from torch import Tensor

from cfq_bench.backbones.base import Backbone
from cfq_bench.backbones.batch_norm import fold_batch_norm
from cfq_bench.config.qat import QuantizedSettings
from cfq_bench.errors import UserError
from cfq_bench.methods.allocators.base import make_allocator
from cfq_bench.methods.base import Context, Method
from cfq_bench.quantization.allocation import fewest_average
from cfq_bench.quantization.deployed import DeployedNetwork
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.sampling import few_images

CALIBRATION_ROWS = 4096


class QuantizedMethod(Method):
    """Deploys a quantized copy of the teacher, at the bits that its allocator chooses.

    Args:
        config: the method's settings.
        context: data, teacher and action set of the run.
    """

    def __init__(self, config: QuantizedSettings, context: Context) -> None:
        super().__init__(config, context)
        settings = context.settings
        self.budget = settings.budget
        self.allocator = make_allocator(settings)
        self.student = self.make_student()
        self.network = QuantizedNetwork(
            self.origin,
            settings.quantization,
            config.activation_quantizer,
            context.data.n_single,
            self.calibration_rows(),
            self.allocator.policy_ramp(),
        )
        self._check_budget()
        objection = self.allocator.objection(self.network)
        if objection is not None:
            raise UserError(objection)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, C) of the simulated quantized network."""
        logits: Tensor = self.network(x)
        return logits

    def make_student(self) -> Backbone | None:
        """A float network of the method's own, quantized in place of the teacher; None: none."""
        return None

    @property
    def origin(self) -> Backbone:
        """The float network that is quantized."""
        return self.context.teacher if self.student is None else self.student

    def calibration_rows(self) -> Tensor:
        """(N, ...) the first train rows, which are in random order."""
        return few_images(self.context.data.train.inputs(slice(CALIBRATION_ROWS)))

    def choose_bits(self) -> list[int]:
        """The allocator's bits of each unit."""
        budget = self.budget.avg_bits
        origin = fold_batch_norm(self.origin)
        return self.allocator.allocate(self.network, origin, self.context, budget)

    def deployed(self) -> DeployedNetwork:
        """Integer codes, steps and thresholds; the same logits as the simulation, bitwise."""
        return self.network.deploy()

    def deployment(self) -> dict[str, Any]:
        """Bits of every unit."""
        units = self.network.units
        return {
            "bits_per_layer": {unit.name: unit.bits for unit in units},
            "activation_bits": {unit.name: unit.activation_bits for unit in units},
            "sizes": {unit.name: unit.weight.numel() for unit in units},
            "macs": {unit.name: unit.macs for unit in units},
        }

    def _check_budget(self) -> None:
        least = fewest_average(self.network.sizes, self.network.candidates)
        if least > self.budget.avg_bits + 1e-9:
            raise UserError(
                f"budget.avg_bits {self.budget.avg_bits:g} cannot hold the first and the last "
                f"layer at 8 bits: with the others at the fewest bits they average {least:.4g}; "
                "raise it or set quantization.layers=all"
            )
