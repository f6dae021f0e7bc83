"""LSQ and PACT as functions of tensors, with the gradients of their papers.

Everything broadcasts over leading dimensions. Rounding is to the nearest even integer, and values
are divided by the step, never multiplied by its inverse: exact ties then round as an inference
runtime rounds them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def signed_range(bits: int) -> tuple[int, int]:
    """Integer codes of a signed b-bit value.

    >>> signed_range(4)
    (-8, 7)
    """
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def unsigned_levels(bits: int) -> int:
    """Greatest code of an unsigned b-bit value, 2^b - 1.

    >>> unsigned_levels(4)
    15
    """
    return int(2**bits - 1)


def round_to_code(ratio: Tensor, offset: Tensor | None) -> Tensor:
    """Whole numbers: the nearest even without an offset, else floor(ratio + offset).

    Args:
        ratio: (...) float32.
        offset: uniform draws in [0, 1), broadcastable to `ratio`: stochastic rounding.

    >>> round_to_code(torch.tensor([0.5, 1.2, 1.9]), torch.tensor(0.25))
    tensor([0., 1., 2.])
    """
    if offset is None:
        return ratio.round()
    # In float32 a whole number plus an offset just below 1 can be the next whole number.
    return (ratio + offset).floor().minimum(ratio.ceil())


class _LSQ(torch.autograd.Function):
    """Esser et al. 2020, Equations 1-3.

    The clip test is on v / s, not on the rounded code: torch's own learnable fake quantization
    tests after rounding, which gives values in (q+, q+ + 1/2] a wrong step gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        value: Tensor,
        step: Tensor,
        low: int,
        high: int,
        grad_scale: float,
        offset: Tensor | None,
    ) -> Tensor:
        ratio = value / step
        code = round_to_code(ratio.clamp(low, high), offset)
        ctx.save_for_backward(ratio, code, step)
        ctx.low, ctx.high, ctx.grad_scale = low, high, grad_scale
        return code * step

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        ratio, code, step = ctx.saved_tensors
        inside = (ratio > ctx.low) & (ratio < ctx.high)
        # code is q- below and q+ above, so only the inside needs the rounding residual.
        step_grad = (grad * torch.where(inside, code - ratio, code)).sum_to_size(step.shape)
        return grad * inside, step_grad * ctx.grad_scale, None, None, None, None


def lsq(
    value: Tensor,
    step: Tensor,
    low: int,
    high: int,
    grad_scale: float = 1.0,
    offset: Tensor | None = None,
) -> Tensor:
    """Learned step size quantization: s * round(clip(v / s, q-, q+)).

    Args:
        value: (...) float32.
        step: positive, broadcastable to `value`.
        low: q-, the least integer code.
        high: q+, the greatest integer code.
        grad_scale: g, multiplies the gradient of the step.
        offset: draws of stochastic rounding, see `round_to_code`.

    Returns:
        (...) float32 on the grid {s q-, ..., s q+}. Gradients: to `value` straight through strictly
        inside the clip, 0 outside; to `step` q-, q+ or round(v/s) - v/s.

    >>> lsq(torch.tensor([0.26, -9.0]), torch.tensor(0.5), -2, 1)
    tensor([ 0.5000, -1.0000])
    """
    out: Tensor = _LSQ.apply(value, step, low, high, grad_scale, offset)
    return out


def on_grid(value: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """What `lsq` gives, bitwise, where nothing is differentiated: in place, without a graph.

    >>> on_grid(torch.tensor([0.26, -9.0]), torch.tensor(0.5), -2, 1)
    tensor([ 0.5000, -1.0000])
    """
    return (value / step).clamp_(low, high).round_().mul_(step)


class _PACT(torch.autograd.Function):
    """Choi et al. 2018, Equations 1-3; the threshold's gradient holds no rounding residual."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, alpha: Tensor, levels: int, offset: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(value, alpha)
        step = alpha / levels
        ratio = value.clamp_min(0.0).minimum(alpha) / step
        if offset is not None:  # alpha / step can exceed the levels by a rounding error
            ratio = ratio.clamp_max(levels)
        return round_to_code(ratio, offset) * step

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        value, alpha = ctx.saved_tensors
        above = value >= alpha
        inside = (value > 0) & ~above
        return grad * inside, (grad * above).sum_to_size(alpha.shape), None, None


def pact(value: Tensor, alpha: Tensor, levels: int, offset: Tensor | None = None) -> Tensor:
    """Parameterized clipping: s * round(clip(a, 0, alpha) / s) with s = alpha / levels.

    For activations after a ReLU. A signed value must never pass here.

    Args:
        value: (...) float32.
        alpha: positive threshold, broadcastable to `value`.
        levels: 2^b - 1.
        offset: draws of stochastic rounding, see `round_to_code`.

    Returns:
        (...) float32 in [0, alpha]. Gradients: to `value` straight through inside (0, alpha); to
        `alpha` 1 where a >= alpha.

    >>> pact(torch.tensor([-1.0, 0.4, 9.0]), torch.tensor(1.0), 3)
    tensor([0.0000, 0.3333, 1.0000])
    """
    out: Tensor = _PACT.apply(value, alpha, levels, offset)
    return out


def select(candidates: Tensor, chosen: Tensor, z: Tensor) -> Tensor:
    """Straight-through choice among candidates: runs one, learns about all.

    The value is `chosen`; the gradient of z_r is <gradient, candidate r>, that of a soft mixture.

    Args:
        candidates: (R, ...) values of every candidate, treated as constants.
        chosen: (...) value of the selected candidate, differentiable.
        z: (R,) soft selection that sums to 1.
    """
    # z - z.detach() is exactly zero; one_hot + z - z.detach() would not be in float32.
    zero = z - z.detach()
    mixed: Tensor = torch.tensordot(zero, candidates.detach(), dims=1)
    return chosen + mixed


def gumbel_softmax(logits: Tensor, tau: float, generator: torch.Generator | None = None) -> Tensor:
    """One relaxed sample per row: softmax((log softmax(logits) + Gumbel noise) / tau).

    Args:
        logits: (..., R) float32.
        tau: temperature > 0.
        generator: of the noise, on the CPU.

    Returns:
        (..., R), non-negative, summing to 1.
    """
    uniform = torch.rand(logits.shape, generator=generator).clamp(1e-9, 1 - 1e-7)
    noise = -torch.log(-torch.log(uniform)).to(logits.device)
    return torch.softmax((torch.log_softmax(logits, -1) + noise) / tau, -1)


def mse_step(value: Tensor, low: int, high: int, *, per_row: bool = False) -> Tensor:
    """The step with the least squared rounding error, by search over 60 clipping ratios.

    Args:
        value: (out, in) or (...) float32.
        low: least code.
        high: greatest code.
        per_row: one step per row of a matrix, shape (out, 1), instead of one scalar.

    Returns:
        A positive step; an all-zero tensor (a pruned layer) gets `LEAST_STEP`.
    """
    rows = value.flatten(1) if per_row else value.reshape(1, -1)

    def error(rounded: Tensor) -> Tensor:
        return rounded.sub_(rows).square_().sum(1, keepdim=True)

    best = best_step(rows, low, high, error)
    return best if per_row else best.reshape(())


def best_step(rows: Tensor, low: int, high: int, error: Callable[[Tensor], Tensor]) -> Tensor:
    """The step of each row with the least error, by search over 60 clipping ratios.

    Args:
        rows: (G, n) float32; each row has a step of its own.
        low: least code.
        high: greatest code.
        error: what rounded rows (G, n) cost, (G, 1); may overwrite them.

    Returns:
        (G, 1) positive steps; a row of zeros gets `LEAST_STEP`.
    """
    # Half a code more than q+ reaches the extreme value by rounding (signed ranges reach -q-).
    reach = float(high) if low == 0 else max(-low - 0.5, float(high))
    least = torch.full((len(rows), 1), torch.inf, dtype=torch.float64, device=rows.device)
    best = rows.new_full((len(rows), 1), LEAST_STEP)
    largest = rows.abs().amax(dim=1, keepdim=True)
    for ratio in torch.linspace(0.2, 1.1, 60).tolist():
        step = (largest * ratio / reach).clamp_min(LEAST_STEP)
        # In place: fresh memory would cost more than the arithmetic.
        cost = error((rows / step).clamp_(low, high).round_().mul_(step)).double()
        better = cost < least
        least, best = torch.where(better, cost, least), torch.where(better, step, best)
    return best


LEAST_STEP = 1e-8
"""Floor of every step and threshold."""

GREATEST_STEP = 1e6
"""Ceiling of every step and threshold: far above any weight, far below overflow."""
