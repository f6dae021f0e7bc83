"""A teacher rounded to b bits: which roundings cannot break an action, and which do in an attack.

Weights lie on a symmetric grid whose largest code is the largest weight, of the layer or of its
output unit, so that nothing is clipped. Rounding to nearest moves a weight by half a step at most;
stochastic rounding, floor and ceil by a whole step. A certificate is about every network of such a
set at once. It ends where a member breaks the action: for most actions at 7 to 9 bits. Below, the
share that holds under random roundings is an attack, not a proof.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from cfq_bench.certificates.bound import UNIT, lower_margin
from cfq_bench.certificates.chain import Layer
from cfq_bench.certificates.lines import quantized
from cfq_bench.quantization.functional import unsigned_levels

MOST_BITS, LEAST_BITS = 10, 2
"""Bits between which the fewest that are certified are searched."""

Roundings = Literal["nearest", "any"]


def grid_step(weight: Tensor, bits: int, *, per_channel: bool) -> Tensor:
    """Step (out, 1) of the symmetric grid whose largest code, 2^(b-1) - 1, is the largest weight.

    >>> grid_step(torch.tensor([[7.0, -3.0], [1.0, 0.0]]), 4, per_channel=False)[:, 0].tolist()
    [1.0, 1.0]
    """
    size = weight.abs().amax(dim=1, keepdim=True)
    if not per_channel:
        size = size.amax().expand_as(size)
    step: Tensor = size / (2 ** (bits - 1) - 1)
    return step


def rounding_radii(
    layers: Sequence[Layer], bits: int, *, per_channel: bool, roundings: Roundings
) -> list[Tensor]:
    """How far (out, 1) a rounding may move each weight of each layer, float32's errors included."""
    radii = []
    for layer in layers:
        step = grid_step(layer.weight, bits, per_channel=per_channel)
        # Code times step is a float32 number of float32 numbers.
        float_error = 4 * UNIT * layer.weight.abs().amax(dim=1, keepdim=True) + 4 * UNIT * step
        radii.append((step / 2 if roundings == "nearest" else step) + float_error)
    return radii


def with_activations(
    layers: Sequence[Layer], bits: int, thresholds: Sequence[float]
) -> list[Layer]:
    """The same layers with b-bit hidden activations.

    Args:
        layers: L of them.
        bits: of each hidden activation.
        thresholds: L - 1 greatest values of the hidden layers' quantizers.
    """
    levels = unsigned_levels(bits)
    quantized_layers = [
        replace(layer, step=threshold / levels, levels=levels)
        for layer, threshold in zip(layers[1:], thresholds, strict=True)
    ]
    return [layers[0], *quantized_layers]


def rounded_margin(
    layers: Sequence[Layer],
    point: Tensor,
    target: Tensor,
    bits: int,
    *,
    per_channel: bool,
    roundings: Roundings = "nearest",
    thresholds: Sequence[float] | None = None,
) -> Tensor:
    """Target margin (B,) float64 that no rounding of the weights to b bits falls short of.

    Args:
        layers: of the teacher.
        point: (B, d) float32.
        target: (B,) int64 in {0, 1}.
        bits: of every weight.
        per_channel: one grid for each output unit instead of one for the layer.
        roundings: to nearest (half a step), or any (a whole step).
        thresholds: of b-bit hidden activations; None: full precision.
    """
    radii = rounding_radii(layers, bits, per_channel=per_channel, roundings=roundings)
    if thresholds is not None:
        layers = with_activations(layers, bits, thresholds)
    at = point.double().cpu()
    return lower_margin(layers, at, at, target.cpu(), radii=radii).margin


def certified_bits(
    layers: Sequence[Layer],
    point: Tensor,
    target: Tensor,
    *,
    per_channel: bool,
    roundings: Roundings = "nearest",
    thresholds: Sequence[float] | None = None,
) -> Tensor:
    """Fewest bits (B,) int64 down to which every rounding keeps the target, from 10 down.

    Arguments as of `rounded_margin`. A row that 10 bits do not prove has 11, for "more than 10".
    """
    fewest = torch.full((len(point),), MOST_BITS + 1)
    rows = torch.arange(len(point))
    for bits in range(MOST_BITS, LEAST_BITS - 1, -1):
        margin = rounded_margin(
            layers,
            point[rows.to(point.device)],
            target[rows.to(target.device)],
            bits,
            per_channel=per_channel,
            roundings=roundings,
            thresholds=thresholds,
        )
        rows = rows[margin > 0]
        if not len(rows):
            break
        fewest[rows] = bits
    return fewest


def random_rounding(
    layers: Sequence[Layer], bits: int, *, per_channel: bool, generator: torch.Generator
) -> list[Layer]:
    """A member of the set "any": each weight rounded up or down, in proportion to what is left."""
    members = []
    for layer in layers:
        step = grid_step(layer.weight, bits, per_channel=per_channel)
        ratio = layer.weight / step.clamp_min(1e-300)
        noise = torch.rand(ratio.shape, generator=generator, dtype=torch.float64)
        code = (ratio + noise).floor()
        members.append(replace(layer, weight=code * step))
    return members


def stable_under_roundings(
    layers: Sequence[Layer],
    point: Tensor,
    target: Tensor,
    bits: int,
    *,
    per_channel: bool,
    members: int,
    generator: torch.Generator,
) -> Tensor:
    """Points (B,) bool that keep the target under every one of some random roundings.

    An attack, not a proof: another rounding may still break them.
    """
    at, wanted = point.double().cpu(), target.cpu()
    stable = torch.ones(len(at), dtype=torch.bool)
    for _ in range(members):
        network = random_rounding(layers, bits, per_channel=per_channel, generator=generator)
        stable &= exact_margin(network, at, wanted) > 0
    return stable


def exact_margin(layers: Sequence[Layer], point: Tensor, target: Tensor) -> Tensor:
    """Target margin (B,) of the layers themselves, computed in float64."""
    v = point
    for layer, following in itertools.pairwise(layers):
        z = v @ layer.weight.T + layer.bias
        step = following.step
        v = z.clamp_min(0.0) if step is None else quantized(z, step, following.levels)
    logits = v @ layers[-1].weight.T + layers[-1].bias
    margin: Tensor = torch.where(target == 1, 1.0, -1.0) * (logits[:, 1] - logits[:, 0])
    return margin
