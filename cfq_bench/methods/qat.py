"""Quantization-aware training: what LSQ, PACT, KD-QAT and CFQ have in common."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.qat import QATSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.errors import UserError
from cfq_bench.methods.base import Context, Method, Phase
from cfq_bench.quantization.allocation import discretise, pool_mse
from cfq_bench.quantization.cost import average_bits
from cfq_bench.quantization.deployed import DeployedNetwork
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.seeds import derive_seed
from cfq_bench.training.trainer import cosine

CALIBRATION_ROWS = 4096
POOL_ROWS = 4096
POOL_KAPPAS = [0.0, 0.5]


class QATMethod(Method):
    """Trains a quantized copy of the teacher; subclasses define `objective`.

    Bits are uniform, fixed, chosen on the recourse pool (`pool_mse`), or learned by a
    Gumbel-Softmax policy: a search, then a tail that trains at the chosen bits.

    Args:
        config: the method's settings.
        context: data, teacher and action set of the run.
    """

    def __init__(self, config: QATSettings, context: Context) -> None:
        super().__init__(config, context)
        settings = context.settings
        self.budget = settings.budget
        self.allocator = self._allocator()
        self.student = self.make_student()
        policy_ramp = settings.policy.initial_logit if self.allocator == "gumbel" else None
        self.network = QuantizedNetwork(
            self.origin,
            settings.quantization,
            config.activation_quantizer,
            context.data.schema.n_single,
            context.data.train.x[:CALIBRATION_ROWS],
            policy_ramp,
        )
        self._check_fixed_bits()
        self.phase = Phase("tune", 1, 0, 1)
        self.noise = torch.Generator().manual_seed(derive_seed(settings.seed, "gumbel"))

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

    @abstractmethod
    def objective(self, batch: Batch) -> Tensor:
        """The method's loss on one batch, without regularizers of the quantizers."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """One step: sample bits while searching, then the objective and its regularizers."""
        searching = self.phase.name == "search"
        if searching:
            self.network.sample(self._temperature(batch_idx), self.noise)
        loss = self.objective(batch)
        l2 = self.context.settings.training.threshold_l2
        if l2 > 0 and self.config.activation_quantizer == "pact":
            loss = loss + l2 * self.network.threshold_penalty()
        if searching:
            loss = loss + self._bit_cost()
        self.log_sometimes(batch_idx, {"loss": loss})
        return loss

    def log_sometimes(self, step: int, values: dict[str, Tensor]) -> None:
        """Log every N steps: Lightning's `log` at every step costs half a training step."""
        if step % self.context.settings.training.log_every == 0:
            for name, value in values.items():
                self.log(f"{self.phase.name}/{name}", value.detach())
            if self.phase.name == "search":
                self.log("search/expected_bits", self.network.expected_bits().detach())

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Keep steps and thresholds above their floor."""
        self.network.clamp_quantizers()

    def phases(self) -> list[Phase]:
        """One fit; with a bit policy, a search and a tail that share the same number of steps."""
        (whole,) = super().phases()
        return self.quantized_phases(whole.steps)

    def quantized_phases(self, steps: int) -> list[Phase]:
        """The fits of the quantized network, within a number of steps."""
        if self.allocator != "gumbel":
            return [Phase("tune", steps, 0, steps)]
        policy = self.context.settings.policy
        search = max(1, round(policy.search * steps))
        tail = max(1, steps - search)
        restart = policy.tail == "restart"
        return [
            Phase("search", search, 0, steps),
            Phase("tune", tail, 0 if restart else search, tail if restart else steps),
        ]

    def begin(self, phase: Phase) -> None:
        """Fix the bits before the phase that trains at them."""
        self.phase = phase
        if phase.name != "tune":
            return
        bits = self._choose_bits()
        if self.allocator == "gumbel" and self.context.settings.policy.tail == "restart":
            x = self.context.data.train.x[:CALIBRATION_ROWS]
            self.network.reset(self.origin, x)
        self.network.select_bits(bits)

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
        }

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Adam without weight decay; steps, thresholds and bit logits have rates of their own."""
        settings = self.context.settings
        quantizers = self.network.quantizer_parameters()
        special: list[nn.Parameter] = list(quantizers)
        groups: list[dict[str, Any]] = [
            {"params": quantizers, "lr": settings.training.quantizer_lr},
        ]
        logits = self.network.policy_logits
        if logits is not None:
            special.append(logits)
            if self.phase.name == "search":
                groups.append({"params": [logits], "lr": settings.policy.lr})
        ids = {id(parameter) for parameter in special}
        weights = [p for p in self.network.parameters() if id(p) not in ids]
        groups.insert(0, {"params": weights, "lr": settings.training.lr})
        optimizer = torch.optim.Adam(groups, fused=True)
        factor = cosine(self.phase.horizon)

        def scheduled(step: int) -> float:
            return factor(step + self.phase.offset)

        warmup = settings.policy.warmup * self.phase.steps

        def after_warmup(step: int) -> float:
            return 0.0 if step < warmup else 1.0

        factors: list[Callable[[int], float]] = [scheduled, scheduled, after_warmup]
        factors = factors[: len(groups)]
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, list(factors))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _allocator(self) -> str:
        candidates = self.context.settings.quantization.candidates
        if self.budget.allocator != "auto":
            return self.budget.allocator
        if self.budget.avg_bits in candidates:
            return "uniform"
        allocator: str = self.config.mixed_allocator
        return allocator

    def _check_fixed_bits(self) -> None:
        bits, units = self.budget.bits, self.network.units
        if bits is None:
            return
        candidates = self.context.settings.quantization.candidates
        names = ", ".join(unit.name for unit in units)
        if len(bits) != len(units):
            raise UserError(f"budget.bits has {len(bits)} values for {len(units)} units: {names}")
        if not set(bits) <= set(candidates):
            raise UserError(
                f"budget.bits {bits} must come from quantization.candidates {candidates}"
            )
        spent = average_bits(self.network.sizes, bits)
        if spent > self.budget.avg_bits + 1e-9:
            raise UserError(
                f"budget.bits {bits} spend {spent:.4g} average bits, budget.avg_bits allows "
                f"{self.budget.avg_bits:g}: raise it or lower the bits"
            )

    def _choose_bits(self) -> list[int]:
        network, budget = self.network, self.budget
        if self.allocator == "gumbel":
            return discretise(network, budget.avg_bits, self.context.settings.policy.slack)
        if self.allocator == "pool_mse":
            points = self.context.recourse_pool("opposite", POOL_ROWS, POOL_KAPPAS).inputs
            if not len(points):  # nobody has recourse: compare at the factual rows
                points = self.context.data.train.x
            return pool_mse(network, self.origin, points, budget.avg_bits)
        if budget.bits is not None:
            return list(budget.bits)
        return [int(budget.avg_bits)] * len(network.units)

    def _temperature(self, step: int) -> float:
        policy = self.context.settings.policy
        progress = step / self.phase.steps
        return policy.tau_start + (policy.tau_end - policy.tau_start) * progress

    def _bit_cost(self) -> Tensor:
        """Return lambda (E[b] / B - 1)^2 of the policy itself, not of the noisy sample."""
        excess = self.network.expected_bits() / self.budget.avg_bits - 1.0
        return self.context.settings.policy.bit_cost * excess.square()


def distillation(logits: Tensor, teacher_logits: Tensor) -> Tensor:
    """KL(teacher || student) in nats, mean over rows; logits (B, C)."""
    student, teacher = F.log_softmax(logits, 1), F.log_softmax(teacher_logits, 1)
    return F.kl_div(student, teacher, reduction="batchmean", log_target=True)
