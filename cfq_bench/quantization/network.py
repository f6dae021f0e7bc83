"""A backbone with quantizers in it: what the methods train."""

import copy
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from cfq_bench.backbones.base import Backbone
from cfq_bench.backbones.batch_norm import fold_batch_norm
from cfq_bench.backbones.graph import (
    LAYERS,
    Flow,
    Step,
    input_shapes,
    non_negative,
    one_input,
    reads_input,
    steps_of,
)
from cfq_bench.config.settings import QuantizationSettings
from cfq_bench.errors import UserError
from cfq_bench.quantization.deployed import (
    DeployedConv2d,
    DeployedLinear,
    DeployedNetwork,
    DeployedSplit,
    Shipped,
)
from cfq_bench.quantization.functional import GREATEST_STEP, LEAST_STEP, gumbel_softmax
from cfq_bench.quantization.layers import (
    ActivationKind,
    ActivationQuantizer,
    QuantConv2d,
    QuantLayer,
    QuantLinear,
    SplitLinear,
)
from cfq_bench.quantization.window import Window


class QuantizedNetwork(nn.Module):
    """A quantized copy of a teacher. L units (layers, or blocks of the first), R candidates.

    Where `settings.layers` is first_last_8, the units of the first and the last layer have 8 bits
    as their only candidate. Every (unit, candidate) has its step and threshold from the start, so
    that the optimizer and `state_dict` always see all of them; a bit policy has logits for the
    units with a choice. The first layer, and every other that reads the network's input, reads it
    as it is.

    Args:
        teacher: the full-precision network to copy; batch norms are folded.
        settings: candidates, activation bits, granularity.
        activation: lsq or pact.
        n_single: number of leading single-column inputs, for the split of a linear first layer.
        calibration: (N, ...) train rows for activation scales.
        policy_ramp: initial bit logits rise from 0 to this; None without a bit policy.

    Attributes:
        layers: the teacher's steps in forward order, quantized where they have weights.
        flow: what each of them reads.
        units: the quantized layers in forward order.

    Raises:
        UserError: a layer's input may be negative, or the network has a form that is not supported.
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
        steps = steps_of(fold_batch_norm(teacher))
        self.flow = Flow([step.reads for step in steps])
        shapes = input_shapes(steps, one_input(teacher))
        self.layers = nn.ModuleList(self._build(steps, shapes, n_single))
        self.units = [module for module in self.modules() if isinstance(module, QuantLayer)]
        self.policy_logits: nn.Parameter | None = None
        if policy_ramp is not None:
            ramp = torch.linspace(0.0, policy_ramp, len(settings.candidates))
            self.policy_logits = nn.Parameter(ramp.repeat(len(self.free_units), 1))
        self.to(calibration.device)
        self.reset(teacher, calibration)

    def _build(
        self, steps: Sequence[Step], shapes: Sequence[tuple[int, ...]], n_single: int
    ) -> Iterator[nn.Module]:
        unsigned, unquantized = non_negative(steps), reads_input(steps)
        number = 0
        for step in steps:
            module = step.module
            if not isinstance(module, LAYERS):
                yield copy.deepcopy(module)
                continue
            number += 1
            first, last, (fed,) = number == 1, number == len(shapes), step.reads
            candidates = self._candidates(first or last)
            if first or unquantized[fed]:
                activation = None
            elif unsigned[fed]:
                activation = self._activation(candidates)
            else:
                raise _signed(number, steps[fed - 1].module)
            if isinstance(module, nn.Conv2d):
                window = Window.of(module, shapes[number - 1])
                yield QuantConv2d(
                    f"layer{number}",
                    module,
                    candidates,
                    self.settings.per_channel,
                    activation,
                    window,
                )
            elif first and self.settings.input_blocks and 0 < n_single < module.in_features:
                yield self._split(module, n_single, candidates)
            else:
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
    def free_units(self) -> list[QuantLayer]:
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
        sources = [step.module for step in steps_of(fold_batch_norm(teacher))]
        layers = iter(self.layers)

        def restart(source: nn.Module, *values: Tensor) -> Tensor:
            layer = next(layers)
            if isinstance(layer, SplitLinear):
                parts = torch.split(_weight(source), layer.sizes, 1)
                for block, weight in zip(layer.blocks, parts, strict=True):
                    self._copy(block, weight, _bias(source))
            elif isinstance(layer, QuantLayer):
                self._copy(layer, _weight(source), _bias(source))
                if layer.activation is not None:
                    layer.activation.calibrate(values[0])
            answer: Tensor = source(*values)
            return answer

        self.flow.run(sources, calibration, restart)

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
        return self.flow.run(self.layers, x)

    @torch.no_grad()
    def deploy(self) -> DeployedNetwork:
        """The network that ships: integer weight codes, steps, thresholds; same logits bitwise."""
        layers: list[nn.Module] = []
        for layer in self.layers:
            if isinstance(layer, SplitLinear):
                blocks = [_deploy_linear(block) for block in layer.blocks]
                layers.append(DeployedSplit(blocks, layer.sizes))
            elif isinstance(layer, QuantConv2d):
                layers.append(DeployedConv2d(_shipped(layer), layer.window))
            elif isinstance(layer, QuantLinear):
                layers.append(_deploy_linear(layer))
            else:
                layers.append(copy.deepcopy(layer))
        reads = None if self.flow.is_chain else self.flow.reads
        return DeployedNetwork(layers, reads).to(self.units[0].weight.device)


def _signed(number: int, feeder: nn.Module) -> UserError:
    return UserError(
        f"layer{number} is fed by {type(feeder).__name__}: only the output of a ReLU, pooled, "
        "flattened or summed with another, can be quantized without a sign, so put nn.ReLU before "
        "each layer"
    )


def _as_unit(module: nn.Module) -> QuantLayer:
    if not isinstance(module, QuantLayer):
        raise TypeError(f"expected a QuantLayer, got {type(module).__name__}")
    return module


def _weight(source: nn.Module) -> Tensor:
    if not isinstance(source, LAYERS):
        raise TypeError(f"expected a layer, got {type(source).__name__}")
    return source.weight


def _bias(source: nn.Module) -> Tensor | None:
    return source.bias if isinstance(source, LAYERS) else None


def _shipped(unit: QuantLayer) -> Shipped:
    index = int(unit.selected)
    quantizer = unit.activation
    scale = None
    if quantizer is not None:
        scale = quantizer.log_scale[index if len(quantizer.bits) > 1 else 0].exp()
    return Shipped(
        unit.name,
        unit.weight,
        unit.bias,
        unit.log_step[index].exp(),
        unit.bits,
        quantizer.kind if quantizer is not None else None,
        scale,
        unit.activation_bits,
    )


def _deploy_linear(module: nn.Module) -> DeployedLinear:
    return DeployedLinear(_shipped(_as_unit(module)))
