"""Margins at the teacher's actions against the logit perturbation there (Section 5, Table 3, L.4).

Proposition 5.1: where m_f(u*) > 2 eps and no logit moves by more than eps in a ball around u*, the
action stays valid on f_q. It holds for the true supremum, which is not known: eps_hat is a maximum
over the point itself and seeded samples of the ball, hence a lower bound.

- With a row's own eps_hat, "no failure in the safe set" is arithmetic: u* is among the samples,
  and m_q(u*) >= m_f(u*) - 2 eps_hat there. That column of Table 3 is zero for any two models; it
  tests this code, not the theory, and promises nothing about the unseen points of the ball.
- With one eps for all rows, the 95th percentile of eps_hat, it is a finding: up to one row in
  twenty has moved more, and may fail inside.
- The condition is sufficient only. Most rows outside the safe set may hold as well, and a change
  that all logits share counts in eps although it moves no margin.
- A cheapest action has little more margin than kappa, so at kappa 0.1 "safe" asks that no logit
  moves by more than about 0.05, whatever the method. Integers overshoot and have more.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cfq_bench.actions.outcome import Model, target_margin
from cfq_bench.actions.solver import CHUNK, in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.evaluation import functional as F
from cfq_bench.evaluation.teacher_recourse import Direction

IMAGES = 256
"""Images that perturbations are taken of together: a network's gradients for them fit in memory."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the margins that a record keeps."""


@dataclass(frozen=True)
class Margins:
    """One direction's actions, in logits, float64; NaN for rows without an action.

    Attributes:
        teacher: (B,) m_f at the teacher's actions.
        quantized: (B,) m_q there.
        eps_hat: (B,) greatest logit perturbation seen in the ball.
        eps_linear: (B,) the same by first-order expansion.
    """

    teacher: Tensor
    quantized: Tensor
    eps_hat: Tensor
    eps_linear: Tensor


def margins_at_actions(
    f: Model,
    f_q: Model,
    space: ActionSpace,
    direction: Direction,
    kappa: float,
    *,
    samples: int,
    radius: float,
    seed: int,
) -> Margins:
    """Margins and perturbations at the teacher's actions of one direction.

    Args:
        f: the teacher.
        f_q: the quantized model.
        space: the action space.
        direction: test rows and the teacher's actions.
        kappa: which of them: the margin that they had to reach.
        samples: J, points of the ball beside its centre.
        radius: rho, of the l2 ball in inputs (standard deviations of numbers; pixels in [0, 1]).
        seed: of the sample. All methods that share the teacher's actions see the same points.
    """
    f, f_q = in_blocks(f), in_blocks(f_q)
    solution = direction.solutions[kappa]
    inputs, target = space.to_input(solution.point[solution.found]), direction.target
    with torch.no_grad():
        logits_f, logits_q = f(inputs).double(), f_q(inputs).double()
    wanted = target[solution.found]
    parts = (
        target_margin(logits_f, wanted),
        target_margin(logits_q, wanted),
        sampled_perturbation(f, f_q, inputs, samples=samples, radius=radius, seed=seed),
        linear_perturbation(f, f_q, inputs, radius),
    )
    nothing = torch.full((len(target),), torch.nan, dtype=torch.float64, device=inputs.device)
    return Margins(*(nothing.masked_scatter(solution.found, part) for part in parts))


@torch.no_grad()
def sampled_perturbation(
    f: Model, f_q: Model, inputs: Tensor, *, samples: int, radius: float, seed: int
) -> Tensor:
    """eps_hat (L.4): max over the centre and J uniform points of a ball of ||g_q - g||_inf.

    Args:
        f: the teacher.
        f_q: the quantized model.
        inputs: (B, ...) centres.
        samples: J; 0 takes the centre alone.
        radius: of the l2 ball.
        seed: of the points.

    Returns:
        (B,) float64, never below the perturbation at the centre.
    """
    worst = F.logit_perturbation(f(inputs).double(), f_q(inputs).double())
    for rows, points in _in_balls(inputs, samples, radius, seed):
        moved = F.logit_perturbation(f(points).double(), f_q(points).double())
        worst[rows] = torch.maximum(worst[rows], moved.view(samples, -1).amax(0))
    return worst


def _in_balls(
    inputs: Tensor, samples: int, radius: float, seed: int
) -> Iterator[tuple[slice, Tensor]]:
    """Chunks of rows, with uniform points (J * rows, ...) of the ball around each."""
    if samples == 0:
        return
    generator = torch.Generator().manual_seed(seed)
    shape = inputs.shape[1:]
    width = shape.numel()
    chunk = CHUNK if inputs.dim() == 2 else IMAGES
    for start in range(0, len(inputs), chunk):
        rows = slice(start, start + chunk)
        centres = inputs[rows].flatten(1)
        way = torch.randn(samples, len(centres), width, generator=generator)
        way = way / way.norm(dim=2, keepdim=True)
        length = radius * torch.rand(samples, len(centres), 1, generator=generator) ** (1 / width)
        points = centres + (way * length).to(inputs.device)
        yield rows, points.flatten(0, 1).unflatten(1, shape)


def linear_perturbation(f: Model, f_q: Model, inputs: Tensor, radius: float) -> Tensor:
    """First-order estimate of eps over the ball (L.4), exact for linear models.

    With D = g_q - g, the greatest |D_c + grad D_c . (u - u*)| is |D_c| + rho ||grad D_c||_2. On f_q
    the gradient goes straight through rounding: the slope of the staircase, not of a step.

    Returns:
        (B,) float64.
    """
    if inputs.dim() == 2:
        return _linear(f, f_q, inputs, radius)
    return torch.cat([_linear(f, f_q, part, radius) for part in torch.split(inputs, IMAGES)])


def _linear(f: Model, f_q: Model, inputs: Tensor, radius: float) -> Tensor:
    at = inputs.detach().requires_grad_(True)
    difference = f_q(at) - f(at)
    reach = []
    for column in difference.unbind(1):
        (slope,) = torch.autograd.grad(column.sum(), at, retain_graph=True)
        reach.append(
            column.detach().abs().double() + radius * slope.double().flatten(1).norm(dim=1)
        )
    return torch.stack(reach, dim=1).amax(1)


def margin_metrics(margins: Margins) -> tuple[dict[str, float], dict[str, int]]:
    """The ``margin/`` metrics of one direction, and the rows behind each.

    Keys without a suffix use a row's own eps_hat, ``_q95`` one eps for all: its 95th percentile.
    """
    found = ~margins.eps_hat.isnan()
    epsilon, margin_f = margins.eps_hat[found], margins.teacher[found]
    failed = margins.quantized[found] <= 0.0
    count = len(epsilon)
    metrics = {
        "margin/eps_hat_q95": _quantile(epsilon, 0.95),
        "margin/eps_hat_max": float(epsilon.max()) if count else torch.nan,
        "margin/eps_linear_q95": _quantile(margins.eps_linear[found], 0.95),
    }
    counts = dict.fromkeys(metrics, count)
    common = torch.tensor(metrics["margin/eps_hat_q95"], dtype=torch.float64)
    for suffix, eps in (("", epsilon), ("_q95", common.to(epsilon.device))):
        safe = F.safe_margin(margin_f, eps)
        for name, flags in (
            ("safe_fraction", safe),
            ("failure_inside", failed[safe]),
            ("failure_outside", failed[~safe]),
        ):
            metrics[f"margin/{name}{suffix}"] = float(F.share(flags))
            counts[f"margin/{name}{suffix}"] = len(flags)
    return metrics, counts


def margin_quantiles(margins: Margins) -> list[dict[str, float]]:
    """Quantiles of margins and perturbations over the rows with an action, one line a level."""
    found = ~margins.eps_hat.isnan()
    return [
        {
            "quantile": level,
            **{name: _quantile(values[found], level) for name, values in vars(margins).items()},
        }
        for level in QUANTILES
    ]


def _quantile(values: Tensor, level: float) -> float:
    return float(values.quantile(level)) if len(values) else torch.nan
