"""U(f_q) (paper, E.2): networks that a deployment of f_q may turn out to be.

The weight codes are what ships, so all variants share them. A tool chain may round activations
otherwise, calibrate them on other rows, and store steps with less precision; the paper names these
sources without numbers, which are in `UncertaintySettings`.
"""

import copy

import torch
from torch import Tensor, nn

from cfq_bench.config.uncertainty import UncertaintySettings
from cfq_bench.quantization.deployed import DeployedLayer, DeployedNetwork
from cfq_bench.quantization.layers import calibrated_scale
from cfq_bench.quantization.sampling import few_images
from cfq_bench.seeds import derive_seed

_BLOCK = 256
"""Rows per call while activations are collected: products of one shape, whatever the row count."""


def deployment_variants(
    network: nn.Module,
    count: int,
    settings: UncertaintySettings,
    calibration: Tensor,
    seed: int,
) -> list[nn.Module]:
    """Draw deployments of a network; each is a deterministic function with f_q's gradients.

    Stochastic rounding is drawn once per hidden unit and variant, and not per call: else a row's
    answer would depend on its neighbours.

    Args:
        network: f_q. Without a quantizer (not a `DeployedNetwork`) it is its own only variant.
        count: M; a larger one keeps the first variants.
        settings: the sources of variation.
        calibration: (N, ...) rows that f_q was calibrated on; not read where calibration is off.
        seed: of every draw.

    Returns:
        M networks, or the network itself.
    """
    if not isinstance(network, DeployedNetwork):
        return [network]
    recalibration = _Recalibration(network, settings.calibration_rows, calibration)
    return [
        _variant(network, settings, recalibration, derive_seed(seed, "variant", str(index)))
        for index in range(count)
    ]


def _variant(
    network: DeployedNetwork,
    settings: UncertaintySettings,
    recalibration: "_Recalibration",
    seed: int,
) -> DeployedNetwork:
    # A generator for each source: switching one off leaves the draws of the others alone.
    steps, rounding, batch = (
        torch.Generator().manual_seed(derive_seed(seed, source))
        for source in ("steps", "rounding", "calibration")
    )
    variant = copy.deepcopy(network)
    ratios = recalibration.ratios(batch)
    for unit in variant.units:
        unit.step = unit.step * _factors(unit.step, settings.band, steps)
        if unit.scale is None:
            continue
        unit.scale = unit.scale * _factors(unit.scale, settings.band, steps)
        if unit.name in ratios:
            unit.scale = unit.scale * ratios[unit.name]
        if settings.stochastic_rounding:
            draws = torch.rand(unit.input_shape, generator=rounding)
            unit.offset = draws.to(unit.scale.device)
    return variant


def _factors(steps: Tensor, band: float, generator: torch.Generator) -> Tensor:
    """One for each step: where every output channel has its own, each errs on its own."""
    draws = torch.rand(steps.shape, generator=generator).to(steps.device)
    return 1.0 + band * (2.0 * draws - 1.0)


class _Recalibration:
    """How activation scales move when they are calibrated on fewer, other rows.

    Args:
        network: f_q, whose own activations are measured.
        rows: in a batch; 0: scales do not move.
        calibration: (N, d) rows.
    """

    def __init__(self, network: DeployedNetwork, rows: int, calibration: Tensor) -> None:
        self.rows = rows
        self.units = [unit for unit in network.units if unit.scale is not None and rows > 0]
        seen = few_images(calibration)
        inputs = _unit_inputs(network, self.units, seen) if self.units else []
        # Double precision: no scale hangs on the order in which threads sum float32 errors.
        self.inputs = [values.double() for values in inputs]
        self.whole = [
            _scale(unit, values) for unit, values in zip(self.units, self.inputs, strict=True)
        ]

    def ratios(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Scale on a random batch over the scale on all rows, by unit."""
        if not self.units:
            return {}
        chosen = torch.randperm(len(self.inputs[0]), generator=generator)[: self.rows]
        chosen = chosen.to(self.inputs[0].device)
        return {
            unit.name: (_scale(unit, values[chosen]) / whole).float()
            for unit, values, whole in zip(self.units, self.inputs, self.whole, strict=True)
        }


def _scale(unit: DeployedLayer, values: Tensor) -> Tensor:
    kind = unit.activation
    if kind is None:
        raise TypeError(f"{unit.name} has a scale and no activation quantizer")
    return calibrated_scale(values, kind, unit.activation_bits)


@torch.no_grad()
def _unit_inputs(network: DeployedNetwork, units: list[DeployedLayer], x: Tensor) -> list[Tensor]:
    """(N, ...) activations that enter each unit, before they are quantized."""
    seen: dict[str, list[Tensor]] = {unit.name: [] for unit in units}

    def keep(unit: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        seen[str(unit.name)].append(arguments[0])

    hooks = [unit.register_forward_pre_hook(keep) for unit in units]
    try:
        missing = -len(x) % _BLOCK
        padded = nn.functional.pad(x, (0, 0) * (x.dim() - 1) + (0, missing))
        for block in torch.split(padded, _BLOCK):
            network(block)
    finally:
        for hook in hooks:
            hook.remove()
    return [torch.cat(seen[unit.name])[: len(x)] for unit in units]
