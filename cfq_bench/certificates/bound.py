"""A lower bound of the margin over a box of inputs, a set of weights, and errors of arithmetic.

Linear relaxation, layer by layer: every unit lies between two lines of what feeds it, and a margin
is substituted back through them; at each layer on the way it is also bounded by that layer's
intervals, and the best bound counts. Float64 throughout.

Arithmetic. A dot product of n float32 terms is off by at most (n + 1) u sum |w v| in any order of
summation, u = 2^-24, with or without fused multiply-adds. Every layer is granted this error, with
three roundings more (for code times step, for the sum of two input blocks, one to spare), so that
a positive bound holds for the float32 network that runs; not for TF32 or half precision. Rounding
errors of the bound itself are float64's, 2^-29 of the same sums: a hundredth more covers them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cfq_bench.certificates.chain import Layer
from cfq_bench.certificates.lines import Lines, Slopes, quantized, quantized_lines, relu_lines

UNIT = 2.0**-24
"""Largest relative error of one float32 rounding."""
_UNDERFLOW = 2.0**-149
_MODES: tuple[Slopes, ...] = ("adaptive", "flat", "steep")


@dataclass(frozen=True)
class Bound:
    """What is proved about B boxes.

    Attributes:
        margin: (B,) float64: no member of the set has a smaller target margin.
        slope: (B, d) float64 of the relaxed margin: it is least where inputs go against it.
    """

    margin: Tensor
    slope: Tensor


@dataclass(frozen=True)
class _Stage:
    """One hidden layer: h = act(z + error), z = W v + b, with what is known of v, z and h.

    Attributes:
        layer: W and b.
        radius: (out, 1) of the weights, or None; already in `error` at the first layer.
        v: ends of what feeds it, (B, in) each.
        error: (B, out) by which z may be off.
        z: ends of z, error included, (B, out) each.
        following: the layer that h feeds, whose quantizer is the activation's.
    """

    layer: Layer
    radius: Tensor | None
    v: tuple[Tensor, Tensor]
    error: Tensor
    z: tuple[Tensor, Tensor]
    following: Layer

    @property
    def h(self) -> tuple[Tensor, Tensor]:
        """Ends of h: both activations are monotone."""
        low, high = self.z
        step, levels = self.following.step, self.following.levels
        if step is None:
            return low.clamp_min(0.0), high.clamp_min(0.0)
        return quantized(low, step, levels), quantized(high, step, levels)

    def lines(self, slopes: Slopes) -> Lines:
        """Lines of the activation."""
        step, levels = self.following.step, self.following.levels
        if step is None:
            return relu_lines(*self.z, slopes)
        return quantized_lines(*self.z, step, levels, slopes)


@torch.no_grad()
def lower_margin(
    layers: Sequence[Layer],
    low: Tensor,
    high: Tensor,
    target: Tensor,
    *,
    radii: Sequence[Tensor] | None = None,
    lsb: float = 0.0,
) -> Bound:
    """Bound the target margin from below.

    Args:
        layers: from `read_chain`.
        low: (B, d) float64 least inputs.
        high: (B, d) float64 greatest inputs, the same as `low` for points.
        target: (B,) int64 in {0, 1}.
        radii: (out, 1) per layer: how far each of the weights may be from `layers`, each by itself.
        lsb: steps by which each hidden unit may be off before its quantizer rounds, beyond float32.
    """
    stages: list[_Stage] = []
    v = (low, high)
    for i, layer in enumerate(layers[:-1]):
        radius = None if radii is None else radii[i]
        error = _error(layer, radius, v, first=i == 0)
        following = layers[i + 1]
        if following.step is not None:
            # The division before rounding errs too: by (levels + 1) u steps, twice for PACT.
            error = error + following.step * (lsb + 4 * (following.levels + 1) * UNIT)
        least, most = _ends(layer, radius, v, stages)
        stage = _Stage(layer, radius, v, error, (least - error, most + error), following)
        stages.append(stage)
        v = stage.h

    last = layers[-1]
    sign = torch.where(target.cpu() == 1, 1.0, -1.0).to(low)[:, None]
    radius = None if radii is None else radii[-1]
    error = _error(last, radius, v, first=not stages).sum(1, keepdim=True)
    weight = (sign * (last.weight[1] - last.weight[0]))[:, None]  # (B, 1, in)
    if radius is not None and stages:
        weight = weight - radius.sum()
    offset = sign * (last.bias[1] - last.bias[0]) - error  # (B, 1)
    best = Bound(low.new_full((len(low),), -torch.inf), torch.zeros_like(low))
    for mode in _MODES if stages else _MODES[:1]:
        margin, slope = _substitute(weight, offset, v, stages, mode)
        better = margin[:, 0] > best.margin
        best = Bound(
            torch.where(better, margin[:, 0], best.margin),
            torch.where(better[:, None], slope[:, 0], best.slope),
        )
    return best


def _error(layer: Layer, radius: Tensor | None, v: tuple[Tensor, Tensor], *, first: bool) -> Tensor:
    """(B, out) error of z: float32's, plus radius |v| at the first layer (inputs have signs)."""
    size = torch.maximum(v[0].abs(), v[1].abs())
    spread = 0.0 if radius is None else size.sum(1, keepdim=True) * radius.T
    roundings = layer.weight.shape[1] + 4
    gamma = 1.01 * roundings * UNIT / (1 - roundings * UNIT)
    total = size @ layer.weight.abs().T + layer.bias.abs() + spread
    return gamma * total + roundings * _UNDERFLOW + (spread if first else 0.0)


def _ends(
    layer: Layer, radius: Tensor | None, v: tuple[Tensor, Tensor], stages: list[_Stage]
) -> tuple[Tensor, Tensor]:
    """Ends of z over the set, errors of this layer's arithmetic left out."""
    least, most = layer.weight, layer.weight
    if radius is not None and stages:  # v >= 0 here: the worst weights are known
        least, most = least - radius, most + radius
    low = _over_box(least, v) + layer.bias
    high = -_over_box(-most, v) + layer.bias
    # At points, the first hidden layer's intervals are its reachable set: nothing is gained below.
    if len(stages) > 1 or (stages and bool((stages[0].v[0] != stages[0].v[1]).any())):
        shape = (len(low), -1, -1)
        below, _ = _substitute(
            least.expand(shape), layer.bias.expand_as(low), v, stages, "adaptive"
        )
        above, _ = _substitute(
            (-most).expand(shape), (-layer.bias).expand_as(low), v, stages, "adaptive"
        )
        low, high = torch.maximum(low, below), torch.minimum(high, -above)
    return low, high


def _over_box(weight: Tensor, v: tuple[Tensor, Tensor]) -> Tensor:
    """Min of weight v, (B, m): weight (m, n) or (B, m, n), ends of v (B, n)."""
    positive, negative = weight.clamp_min(0.0), weight.clamp_max(0.0)
    if weight.dim() == 2:
        return v[0] @ positive.T + v[1] @ negative.T
    return (positive @ v[0][:, :, None] + negative @ v[1][:, :, None])[:, :, 0]


def _substitute(
    weight: Tensor,
    offset: Tensor,
    v: tuple[Tensor, Tensor],
    stages: list[_Stage],
    slopes: Slopes,
) -> tuple[Tensor, Tensor]:
    """Lower bounds (B, m) of weight v + offset, and the slopes (B, m, d) on the input.

    Args:
        weight: (B, m, n).
        offset: (B, m).
        v: ends of the last stage's output, or of the input.
        stages: hidden layers up to there.
        slopes: choice of lower lines.
    """
    best = _over_box(weight, v) + offset
    for i, stage in reversed(list(enumerate(stages))):
        lines = stage.lines(slopes)
        positive, negative = weight.clamp_min(0.0), weight.clamp_max(0.0)
        offset = offset + _dot(positive, lines.lower_offset) + _dot(negative, lines.upper_offset)
        weight = positive * lines.lower_slope[:, None] + negative * lines.upper_slope[:, None]
        size = weight.abs()
        offset = offset - _dot(size, stage.error) + weight @ stage.layer.bias
        weight = weight @ stage.layer.weight
        if stage.radius is not None and i > 0:
            weight = weight - size @ stage.radius
        best = torch.maximum(best, _over_box(weight, stage.v) + offset)
    return best, weight


def _dot(weight: Tensor, values: Tensor) -> Tensor:
    """(B, m, n) by (B, n) -> (B, m)."""
    return (weight @ values[:, :, None])[:, :, 0]
