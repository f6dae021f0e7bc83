"""Steps and thresholds without training: the rules of post-training quantization."""

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from cfq_bench.quantization.float_pass import float_pass
from cfq_bench.quantization.functional import (
    LEAST_STEP,
    best_step,
    mse_step,
    signed_range,
    unsigned_levels,
)
from cfq_bench.quantization.layers import ActivationQuantizer, QuantConv2d, QuantLayer
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.sampling import parts, sampled_values

NUMBERS = 2**24
"""In the patches of a convolution's inputs that its output error is taken on."""

Rule = Literal["minmax", "percentile", "mse", "output"]


@dataclass(frozen=True)
class Calibration:
    """How steps are found.

    Attributes:
        rule: minmax: the whole range; percentile: all but the tails; mse: least squared error of
            the values themselves; output: least squared error of what the layer answers.
        share: percentile: share of the values on either side that is not clipped, in (0.5, 1].
    """

    rule: Rule
    share: float = 1.0

    def step(self, values: Tensor, low: int, high: int, *, per_row: bool = False) -> Tensor:
        """The step of values by themselves; shape () or (G, 1) as for `mse_step`."""
        if self.rule in ("mse", "output"):
            return mse_step(values, low, high, per_row=per_row)
        share = 1.0 if self.rule == "minmax" else self.share
        return clip_step(values, low, high, share, per_row=per_row)


def clip_step(
    values: Tensor, low: int, high: int, share: float, *, per_row: bool = False
) -> Tensor:
    """The least step whose codes reach from one quantile to the other.

    Args:
        values: (G, n) or (...) float32.
        low: least code; 0 where values are never negative.
        high: greatest code.
        share: quantile of the greatest code in (0.5, 1]; 1 - share is that of the least code.
        per_row: one step per row.

    Returns:
        A positive step, (G, 1) or a scalar.

    >>> clip_step(torch.tensor([-1.0, 0.25, 3.0]), -8, 7, 1.0)
    tensor(0.4286)
    """
    rows = values.flatten(1) if per_row else values.reshape(1, -1)
    ordered = rows.sort(1).values
    last = rows.shape[1] - 1
    top = ordered[:, round(share * last), None]
    step = top / high
    if low < 0:
        step = step.maximum(ordered[:, last - round(share * last), None] / low)
    step = step.clamp_min(LEAST_STEP)
    return step if per_row else step.reshape(())


@dataclass(frozen=True)
class Moments:
    """Second moments of a layer's inputs; the output error, quadratic in Q(W), needs no more.

    Attributes:
        exact: (in, in) float64, mean of u u' in the float network.
        cross: mean of u u_q', where u_q are the inputs as the quantized layer reads them.
        read: mean of u_q u_q'.
    """

    exact: Tensor
    cross: Tensor
    read: Tensor

    @classmethod
    def of(cls, exact: Tensor, read: Tensor) -> Self:
        """Those of inputs u and u_q, (N, in) each."""
        u = exact.double()
        own = u.T @ u / len(u)
        if read is exact:
            return cls(own, own, own)
        u_q = read.double()
        return cls(own, u.T @ u_q / len(u), u_q.T @ u_q / len(u))


def output_step(
    weight: Tensor, low: int, high: int, inputs: Moments, *, per_row: bool = False
) -> Tensor:
    """The weight step with the least mean || W u - Q(W) u_q ||^2 (paper, CF-PTQ calibration).

    Args:
        weight: (out, in) float32.
        low: least code.
        high: greatest code.
        inputs: of the layer.
        per_row: one step per output unit.

    Returns:
        (out, 1) or a scalar.
    """
    w = weight.double()
    wanted = w @ inputs.cross  # (out, in)
    constant = ((w @ inputs.exact) * w).sum(1, keepdim=True)

    def error(rounded: Tensor) -> Tensor:
        q = rounded.reshape(weight.shape).double()
        each = ((q @ inputs.read - 2.0 * wanted) * q).sum(1, keepdim=True) + constant
        return each if per_row else each.sum().reshape(1, 1)

    rows = weight if per_row else weight.reshape(1, -1)
    best = best_step(rows, low, high, error)
    return best if per_row else best.reshape(())


@torch.no_grad()
def calibrate(network: QuantizedNetwork, points: Tensor, how: Calibration) -> None:
    """Set every step and threshold of a network; weights and biases stay as they are.

    Each unit is calibrated by itself: it reads what it would read in the float network. Input
    scales come first, and rule=output finds the weight step for the inputs that they give.

    Args:
        network: at the teacher's weights.
        points: (N, d) calibration rows, or images.
        how: the rule.
    """
    inputs = float_pass(network, points).inputs
    for unit, values in zip(network.units, inputs, strict=True):
        if unit.activation is not None:
            _calibrate_inputs(unit.activation, values, how)
        moments = _moments(unit, values) if how.rule == "output" else []
        for index, bits in enumerate(unit.candidates):
            low, high = signed_range(bits)
            if how.rule == "output":
                rows = unit.weight.flatten(1)
                step = output_step(rows, low, high, moments[index], per_row=unit.per_channel)
            else:
                step = how.step(unit.weight, low, high, per_row=unit.per_channel)
            unit.set_step(index, step)


def _calibrate_inputs(quantizer: ActivationQuantizer, values: Tensor, how: Calibration) -> None:
    if how.rule in ("mse", "output"):  # the other rules sort, and are about the extremes
        values = sampled_values(values)
    for index, bits in enumerate(quantizer.bits):
        levels = unsigned_levels(bits)
        step = how.step(values, 0, levels)
        scale = step * levels if quantizer.kind == "pact" else step
        quantizer.log_scale[index] = scale.clamp_min(LEAST_STEP).log()


def _moments(unit: QuantLayer, values: Tensor) -> list[Moments]:
    """For each candidate, of the unit's inputs and what its input quantizer makes of them."""
    quantizer, count = unit.activation, len(unit.candidates)
    exact = _as_rows(unit, values)
    if quantizer is None:
        return [Moments.of(exact, exact)] * count
    reads = (_as_rows(unit, quantizer.one(values, i)) for i in range(len(quantizer.bits)))
    each = [Moments.of(exact, read) for read in reads]
    return each if len(each) > 1 else each * count


def _as_rows(unit: QuantLayer, values: Tensor) -> Tensor:
    """Inputs as rows (N, in) that a weight matrix meets: of a convolution, some of its patches."""
    if not isinstance(unit, QuantConv2d):
        return values
    each = max(1, NUMBERS // (len(values) * unit.weight[0].numel()))
    order = torch.randperm(unit.positions, generator=torch.Generator().manual_seed(0))
    places = order[:each].to(values.device)
    rows = [
        unit.window.patches(part)[:, :, places].transpose(1, 2).flatten(0, 1)
        for part in parts(values)
    ]
    return torch.cat(rows)
