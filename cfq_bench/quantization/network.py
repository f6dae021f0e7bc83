"""A backbone with quantizers in it: what the methods train."""

import copy
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.settings import QuantizationSettings
from cfq_bench.errors import UserError
from cfq_bench.quantization.deployed import DeployedLinear, DeployedNetwork, DeployedSplit
from cfq_bench.quantization.functional import GREATEST_STEP, LEAST_STEP, gumbel_softmax
from cfq_bench.quantization.layers import (
    ActivationKind,
    ActivationQuantizer,
    QuantLinear,
    SplitLinear,
)


class QuantizedNetwork(nn.Module):
    """A quantized copy of a teacher. L units (layers, or blocks of the first), R candidates.

    Where `settings.layers` is first_last_8, the units of the first and the last layer have 8 bits
    as their only candidate. Every (unit, candidate) has its step and threshold from the start, so
    that the optimizer and `state_dict` always see all of them; a bit policy has logits for the
    units with a choice.

    Args:
        teacher: the full-precision network to copy.
        settings: candidates, activation bits, granularity.
        activation: lsq or pact.
        n_single: number of leading single-column inputs, for the split of the first layer.
        calibration: (N, d) train rows for activation scales.
        policy_ramp: initial bit logits rise from 0 to this; None without a bit policy.

    Attributes:
        units: the quantized layers in forward order.
    """

    def __init__(
        self,
        teacher: Backbone,
        settings: QuantizationSettings,
        activation: ActivationKind,
        n_single: int,
        calibration: Tensor,
        policy_ramp: float | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.activation_kind: ActivationKind = activation
        self.layers = nn.ModuleList(self._build(teacher, n_single))
        self.units = [module for module in self.modules() if isinstance(module, QuantLinear)]
        self.policy_logits: nn.Parameter | None = None
        if policy_ramp is not None:
            ramp = torch.linspace(0.0, policy_ramp, len(settings.candidates))
            self.policy_logits = nn.Parameter(ramp.repeat(len(self.free_units), 1))
        self.to(calibration.device)
        self.reset(teacher, calibration)

    def _build(self, teacher: Backbone, n_single: int) -> Iterator[nn.Module]:
        linears = [module for module in teacher if isinstance(module, nn.Linear)]
        number = 0
        for feeder, module in zip([None, *teacher], teacher, strict=False):
            if not isinstance(module, nn.Linear):
                if any(isinstance(part, nn.Linear) for part in module.modules()):
                    raise UserError(
                        f"the backbone nests an nn.Linear in a {type(module).__name__}: its layers "
                        "must be direct children, so that each of them is quantized"
                    )
                yield copy.deepcopy(module)
                continue
            number += 1
            if number > 1 and not isinstance(feeder, nn.ReLU):
                raise UserError(
                    f"layer{number} is fed by {type(feeder).__name__}: only the output of a ReLU "
                    "can be quantized without a sign, so put nn.ReLU right before each nn.Linear"
                )
            first = module is linears[0]
            candidates = self._candidates(first or module is linears[-1])
            if first and self.settings.input_blocks and 0 < n_single < module.in_features:
                yield self._split(module, n_single, candidates)
            else:
                activation = None if first else self._activation(candidates)
                yield self._unit(f"layer{number}", module, candidates, activation)

    def _candidates(self, outer: bool) -> list[int]:
        return [8] if outer and self.settings.layers == "first_last_8" else self.settings.candidates

    def _split(self, linear: nn.Linear, n_single: int, candidates: list[int]) -> SplitLinear:
        sizes = [n_single, linear.in_features - n_single]
        blocks = []
        for name, weight in zip(
            ("numeric", "onehot"), torch.split(linear.weight, sizes, 1), strict=True
        ):
            part = nn.Linear(weight.shape[1], weight.shape[0], bias=name == "numeric")
            part.weight.data.copy_(weight)
            if name == "numeric":
                part.bias.data.copy_(linear.bias)
            blocks.append(self._unit(f"layer1.{name}", part, candidates, None))
        return SplitLinear(blocks, sizes)

    def _unit(
        self,
        name: str,
        linear: nn.Linear,
        candidates: list[int],
        activation: ActivationQuantizer | None,
    ) -> QuantLinear:
        return QuantLinear(name, linear, candidates, self.settings.per_channel, activation)

    def _activation(self, candidates: list[int]) -> ActivationQuantizer:
        bits = self.settings.activation_bits
        every = candidates if bits == "tied" else [bits]
        return ActivationQuantizer(self.activation_kind, every)

    @property
    def sizes(self) -> list[int]:
        """Weights of each unit (n_l)."""
        return [unit.weight.numel() for unit in self.units]

    @property
    def candidates(self) -> list[tuple[int, ...]]:
        """Weight bit-widths that each unit may have."""
        return [unit.candidates for unit in self.units]

    @property
    def free_units(self) -> list[QuantLinear]:
        """The units whose bits are not fixed by `settings.layers`."""
        everything = tuple(self.settings.candidates)
        return [unit for unit in self.units if unit.candidates == everything]

    def bits(self) -> list[int]:
        """Selected weight bits of each unit."""
        return [unit.bits for unit in self.units]

    def select_bits(self, bits: Sequence[int]) -> None:
        """Fix the bits of each unit; the policy no longer acts."""
        for unit, chosen in zip(self.units, bits, strict=True):
            unit.selected.fill_(unit.candidates.index(chosen))
            unit.z = None

    def sample(self, tau: float, generator: torch.Generator) -> None:
        """Draw one straight-through Gumbel-Softmax selection for every unit with a choice."""
        if self.policy_logits is None:
            raise RuntimeError("this network has no bit policy")
        z = gumbel_softmax(self.policy_logits, tau, generator)
        chosen = z.argmax(1).tolist()
        for unit, row, index in zip(self.free_units, z.unbind(), chosen, strict=True):
            unit.z = row
            unit.selected.fill_(index)

    def expected_bits(self) -> Tensor:
        """E[average bits] under softmax(policy logits), differentiable; a scalar."""
        if self.policy_logits is None:
            raise RuntimeError("this network has no bit policy")
        bits = self.policy_logits.new_tensor(self.settings.candidates)
        free, total = self.free_units, sum(self.sizes)
        sizes = self.policy_logits.new_tensor([unit.weight.numel() for unit in free])
        fixed = sum(u.weight.numel() * u.candidates[0] for u in self.units if u not in free)
        per_unit = torch.softmax(self.policy_logits, 1) @ bits
        return ((sizes * per_unit).sum() + fixed) / total

    @torch.no_grad()
    def reset(self, teacher: Backbone, calibration: Tensor) -> None:
        """(Re)start from the teacher: its weights, fresh steps and thresholds."""
        values = calibration
        linears = iter([module for module in teacher if isinstance(module, nn.Linear)])
        for layer in self.layers:
            if isinstance(layer, SplitLinear):
                source = next(linears)
                for block, weight in zip(
                    layer.blocks, torch.split(source.weight, layer.sizes, 1), strict=True
                ):
                    self._copy(block, weight, source.bias)
                values = source(values)
            elif isinstance(layer, QuantLinear):
                source = next(linears)
                self._copy(layer, source.weight, source.bias)
                if layer.activation is not None:
                    layer.activation.calibrate(values)
                values = source(values)
            else:
                values = layer(values)

    def _copy(self, module: nn.Module, weight: Tensor, bias: Tensor | None) -> None:
        unit = _as_unit(module)
        unit.weight.copy_(weight)
        if unit.bias is not None and bias is not None:
            unit.bias.copy_(bias)
        unit.calibrate_weight()

    def quantizer_parameters(self) -> list[nn.Parameter]:
        """Log steps and log thresholds: their own learning rate, never weight decay."""
        thresholds = [unit.activation.log_scale for unit in self.units if unit.activation]
        return [*(unit.log_step for unit in self.units), *thresholds]

    @torch.no_grad()
    def clamp_quantizers(self) -> None:
        """Keep steps and thresholds between floor and ceiling after an optimizer step."""
        values = [value.data for value in self.quantizer_parameters()]
        torch._foreach_clamp_min_(values, math.log(LEAST_STEP))
        torch._foreach_clamp_max_(values, math.log(GREATEST_STEP))

    def threshold_penalty(self) -> Tensor:
        """Sum of alpha^2 over the selected PACT thresholds; 0 for LSQ activations."""
        total = torch.zeros((), device=self.units[0].weight.device)
        for unit in self.units:
            quantizer = unit.activation
            if quantizer is not None and quantizer.kind == "pact":
                index = int(unit.selected) if len(quantizer.bits) > 1 else 0
                total = total + (2.0 * quantizer.log_scale[index]).exp()
        return total

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, classes) of the simulated quantized network."""
        for layer in self.layers:
            x = layer(x)
        return x

    @torch.no_grad()
    def deploy(self) -> DeployedNetwork:
        """The network that ships: integer weight codes, steps, thresholds; same logits bitwise."""
        layers: list[nn.Module] = []
        for layer in self.layers:
            if isinstance(layer, SplitLinear):
                blocks = [_deploy_unit(block) for block in layer.blocks]
                layers.append(DeployedSplit(blocks, layer.sizes))
            elif isinstance(layer, QuantLinear):
                layers.append(_deploy_unit(layer))
            else:
                layers.append(copy.deepcopy(layer))
        return DeployedNetwork(layers).to(self.units[0].weight.device)


def _as_unit(module: nn.Module) -> QuantLinear:
    if not isinstance(module, QuantLinear):
        raise TypeError(f"expected a QuantLinear, got {type(module).__name__}")
    return module


def _deploy_unit(module: nn.Module) -> DeployedLinear:
    unit = _as_unit(module)
    index = int(unit.selected)
    quantizer = unit.activation
    scale = None
    if quantizer is not None:
        scale = quantizer.log_scale[index if len(quantizer.bits) > 1 else 0].exp()
    return DeployedLinear(
        unit.name,
        unit.weight,
        unit.bias,
        unit.log_step[index].exp(),
        unit.bits,
        quantizer.kind if quantizer is not None else None,
        scale,
        unit.activation_bits,
    )
