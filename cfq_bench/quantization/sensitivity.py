"""How much a network's answers depend on the weights of each unit.

Pure functions of a network that starts from the teacher, L units with R candidates each. Allocators
divide bits by them; a layer-by-layer plot of two of them shows where recourse needs bits that
accuracy does not (Figure 13).
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.backbones.base import Backbone
from cfq_bench.quantization.float_pass import float_logits, float_pass
from cfq_bench.quantization.gradients import row_norms
from cfq_bench.quantization.layers import QuantConv2d
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.sampling import parts


def gradient_sensitivity(network: QuantizedNetwork, inputs: Tensor, target: Tensor) -> list[float]:
    """Mean l1 norm of each unit's weight gradient: s_l of CF-PTQ (paper).

    s_l = mean over rows of || d CE(f(u), target) / d W_l ||_1. At u = x and the labels it is the
    factual sensitivity, at u = x + delta_fp and the target classes the counterfactual one.

    Args:
        network: at the teacher's weights.
        inputs: (B, d), or images.
        target: (B,) int64.

    Returns:
        One value per unit, non-negative.
    """
    totals = [0.0] * len(network.units)
    chunks = parts(inputs)
    targets = torch.split(target, [len(one) for one in chunks])
    for chunk, wanted in zip(chunks, targets, strict=True):
        share = len(chunk) / len(inputs) if len(inputs) else 1.0
        with torch.enable_grad():
            x = chunk.detach().requires_grad_()  # so that frozen weights, too, have a graph
            run = float_pass(network, x)
            loss = F.cross_entropy(run.logits, wanted, reduction="sum")
            slopes = torch.autograd.grad(loss, run.outputs)
        found = zip(network.units, run.inputs, slopes, strict=True)
        for i, (unit, given, slope) in enumerate(found):
            window = unit.window if isinstance(unit, QuantConv2d) else None
            totals[i] += float(row_norms(given.detach(), slope, window).mean()) * share
    return totals


@torch.no_grad()
def logit_change(network: QuantizedNetwork, teacher: Backbone, points: Tensor) -> list[list[float]]:
    """Mean squared logit error (L, R) with one unit's weights quantized, all else in float.

    Args:
        network: at the teacher's weights.
        teacher: whose logits are kept to.
        points: (P, d).
    """
    reference = torch.cat([teacher(part) for part in parts(points)])
    return _one_at_a_time(
        network, points, lambda logits: float((logits - reference).square().mean())
    )


@torch.no_grad()
def logit_residual(
    network: QuantizedNetwork, teacher: Backbone, points: Tensor
) -> list[list[float]]:
    """How badly the quantized network orders points by margin (L, R): Var(d) (1 - rho^2).

    d = z_c - z_0 is a difference of logits, rho its correlation with the quantized network's: the
    least mean squared error of an affine map of that for d. Before any training few bits also shift
    and scale all logits, which `logit_change` counts and training takes away; what they confuse is
    harder to learn. Points next to the boundary alone, of one margin, say nothing: the pool's
    margins must differ. Units are quantized one at a time.

    Args:
        network: at the teacher's weights.
        teacher: whose logits are kept to.
        points: (P, d).
    """

    def centred(logits: Tensor) -> Tensor:
        difference = logits[:, 1:].double() - logits[:, :1].double()
        return difference - difference.mean(0)

    wanted = centred(torch.cat([teacher(part) for part in parts(points)]))
    variance = wanted.square().mean(0)

    def left(logits: Tensor) -> float:
        got = centred(logits)
        power, shared = got.square().mean(0), (got * wanted).mean(0)
        explained = torch.where(power > 0, shared.square() / power, 0.0)
        return float((variance - explained).clamp_min(0.0).mean())

    return _one_at_a_time(network, points, left)


@torch.no_grad()
def loss_change(network: QuantizedNetwork, points: Tensor, target: Tensor) -> list[list[float]]:
    """Growth of the mean cross-entropy (L, R) with one unit's weights quantized; may be negative.

    Args:
        network: at the teacher's weights.
        points: (P, d).
        target: (P,) int64.
    """
    before = float(F.cross_entropy(float_logits(network, points), target))
    return _one_at_a_time(
        network, points, lambda logits: float(F.cross_entropy(logits, target)) - before
    )


def _one_at_a_time(
    network: QuantizedNetwork, points: Tensor, error: Callable[[Tensor], float]
) -> list[list[float]]:
    return [
        [
            error(float_logits(network, points, {unit: unit.rounded_weight(r)}))
            for r in range(len(unit.candidates))
        ]
        for unit in network.units
    ]


@torch.no_grad()
def weight_errors(network: QuantizedNetwork, norm: Callable[[Tensor], Tensor]) -> list[list[float]]:
    """A norm of Q_b(W) - W for every unit and candidate, (L, R)."""
    return [
        [float(norm(unit.rounded_weight(r) - unit.weight)) for r in range(len(unit.candidates))]
        for unit in network.units
    ]


def hessian_traces(
    network: QuantizedNetwork, x: Tensor, y: Tensor, probes: int, generator: torch.Generator
) -> list[float]:
    """Hutchinson's estimate of Tr(d^2 CE / d W_l^2) of each unit (HAWQ-V2).

    The mean over Rademacher probes v of v' H_l v, one unit at a time: a joint probe of all units
    would add their cross terms to the variance.

    Args:
        network: at the teacher's weights; the loss is taken without any quantizer.
        x: (B, d) rows, or images.
        y: (B,) int64 labels.
        probes: number of v.
        generator: of the probes, on the CPU.

    Returns:
        One value per unit. Never negative where units are layers between ReLUs: the logits
        are piecewise linear in one layer's weights, and cross-entropy is convex in the logits.
    """
    traces = []
    chunks = parts(x)
    labels = torch.split(y, [len(one) for one in chunks])
    for unit in network.units:
        weight = unit.weight.detach().clone().requires_grad_()
        trace = 0.0
        for chunk, wanted in zip(chunks, labels, strict=True):
            with torch.enable_grad():
                logits = float_pass(network, chunk, {unit: weight}).logits
                loss = F.cross_entropy(logits, wanted)
                (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)
                total = 0.0
                for _ in range(probes):
                    bits = torch.randint(0, 2, weight.shape, generator=generator)
                    probe = (2.0 * bits - 1.0).to(weight.device)
                    (product,) = torch.autograd.grad(gradient, weight, probe, retain_graph=True)
                    total += float((probe * product).sum())
            trace += total / probes * (len(chunk) / len(x))
        traces.append(trace)
    return traces
