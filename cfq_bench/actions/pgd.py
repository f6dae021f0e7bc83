"""Projected gradient (paper, A.3): the training signal, and the paper's evaluation solver."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.actions.outcome import Model, Status, target_margin
from cfq_bench.actions.solver import Solver
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.base import Positive, SolverSettings

Keep = Literal["last", "first", "cheapest"]


class Config(SolverSettings):
    """Settings of projected gradient."""

    steps: Annotated[int, Field(ge=1)]
    """T, projected-gradient steps."""
    step_size: Positive
    """alpha, on the gradient of the cross-entropy with the target."""
    accumulate: bool
    """Keep an unprojected accumulator: hard one-hot projection erases categorical progress."""


class PGD(Solver):
    """The paper's solver: the cheapest valid iterate, neither pruned nor shrunk."""

    def search(
        self, model: Model, space: ActionSpace, x: Tensor, target: Tensor, kappa: float
    ) -> tuple[Tensor, Tensor]:
        """See `Solver.search`."""
        point, valid = projected_gradient(
            model,
            space,
            x,
            target,
            kappa=kappa,
            steps=self.config.steps,
            step_size=self.config.step_size,
            accumulate=self.config.accumulate,
        )
        return point, torch.where(valid, int(Status.FOUND), int(Status.NOT_FOUND)).to(torch.int8)


def projected_gradient(
    model: Model,
    space: ActionSpace,
    x: Tensor,
    target: Tensor,
    *,
    kappa: float,
    steps: int,
    step_size: float,
    accumulate: bool = True,
    keep: Keep = "cheapest",
) -> tuple[Tensor, Tensor]:
    """Iterate u <- Pi(u - alpha * grad CE(model(u), target)) from the factual.

    Args:
        model: inputs to logits; its parameters receive no gradient.
        space: the action space.
        x: (B, ...) factual inputs.
        target: (B,) int64.
        kappa: an iterate is valid where its target margin exceeds this, in logits.
        steps: K or T.
        step_size: alpha.
        accumulate: take the step from the unprojected accumulator z and evaluate at Pi(z); the
            strict recursion steps from the projected iterate.
        keep: which iterate to return: the last (the paper's delta^(K)), the first valid one (the
            row then stops: early stopping), or the cheapest valid one. A row without a valid
            iterate returns its last.

    Returns:
        Points (B, D), and whether each is valid (B,) bool.
    """
    origin = space.origin(x)
    project = space.projector(origin)
    point = free = origin
    best, best_cost = origin, torch.full((len(x),), torch.inf, device=x.device)
    for step in range(steps + 1):
        last = step == steps
        with torch.set_grad_enabled(not last):
            at = point.detach().requires_grad_(not last)
            logits = model(space.to_input(at))
            loss = F.cross_entropy(logits, target, reduction="sum")
        if keep != "last":
            with torch.no_grad():
                valid = target_margin(logits.detach(), target) > kappa
                # A constant cost, so that the first valid iterate is never replaced.
                cost = (
                    space.cost(origin, point) if keep == "cheapest" else torch.zeros_like(best_cost)
                )
                better = valid & (cost < best_cost)
                best = torch.where(better[:, None], point, best)
                best_cost = torch.where(better, cost, best_cost)
        if last or (keep == "first" and bool(best_cost.isfinite().all())):
            break
        (gradient,) = torch.autograd.grad(loss, at)
        with torch.no_grad():
            free = (free if accumulate else point) - step_size * gradient
            point = project(free)
    if keep == "last":
        return point, target_margin(logits.detach(), target) > kappa
    solved = best_cost.isfinite()
    return torch.where(solved[:, None], best, point), solved
