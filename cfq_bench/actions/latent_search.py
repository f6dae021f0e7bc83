"""The evaluation solver of latents and edits: ascent, bisection, and steps along the boundary.

The search for tables changes one feature at a time and knows what a feature is; here points are
latents or edits. Ascent on the target margin from several starts finds points beyond the boundary;
bisection brings each back towards its origin until the margin is just kept. Then, as in FAB
(Croce and Hein 2020), the boundary is taken for a plane: its point that is cheapest to reach from
the origin is tried, brought back to the boundary again, and kept where it costs less. Where costs
are lengths, that is the nearest point; a space of other costs says which way it lies (`Priced`).
"""

from collections.abc import Callable
from typing import Annotated, Protocol, runtime_checkable

import torch
from pydantic import Field
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.outcome import Model, Status, target_margin
from cfq_bench.actions.solver import Solver
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.base import NonNegative, Positive, SolverSettings
from cfq_bench.errors import UserError

_SHARES = (1.0, 0.5, 0.25)
"""How far towards the plane's cheapest point a step goes: the boundary is no plane."""
_OVERSHOOT = 1.05
"""A little beyond the plane, so that a boundary that bends away is still crossed."""


@runtime_checkable
class Priced(Protocol):
    """A space whose cost is not the length of a move."""

    def steepest(self, gradient: Tensor) -> Tensor:
        """Moves (B, D) that raise a margin of this gradient (B, D) most for what they cost."""
        ...


class Config(SolverSettings):
    """Settings of the latent search."""

    steps: Annotated[int, Field(ge=1)]
    """Most ascent steps from each start."""
    step_size: Positive
    """Length of an ascent step in the space's coordinates: standard deviations of the latents."""
    restarts: Annotated[int, Field(ge=0)]
    """Random starts beside the origin."""
    start_radius: NonNegative
    """Length of the move from the origin to a random start."""
    refinements: Annotated[int, Field(ge=0)]
    """Steps along the boundary."""
    bisections: Annotated[int, Field(ge=1)]
    """Halvings of the way between origin and point."""
    seed: Annotated[int, Field(ge=0)]
    """Of the random starts, which are the same moves for every row."""


class LatentSearch(Solver):
    """Ascent with restarts, bisection to the margin, then steps along the boundary."""

    config: Config

    def search(
        self, model: Model, space: ActionSpace, x: Tensor, target: Tensor, kappa: float
    ) -> tuple[Tensor, Tensor]:
        """See `Solver.search`."""
        if isinstance(space, ActionSet):
            raise UserError(f"solver {self.config.name} is for images: use solver=search")
        config, work = self.config, _Work(model, space, space.origin(x), target, kappa)
        best, cost = work.origin, torch.full((len(x),), torch.inf, device=x.device)
        for start in self._starts(work):
            point, valid = work.ascend(start, config.steps, config.step_size)
            best, cost = work.cheaper(best, cost, work.bisect(point, config.bisections), valid)
        found = cost.isfinite()
        rows = found.nonzero()[:, 0]
        if len(rows):
            best[rows] = work.part(rows).refined(best[rows], cost[rows], config)
        return best, torch.where(found, int(Status.FOUND), int(Status.NOT_FOUND)).to(torch.int8)

    def _starts(self, work: "_Work") -> list[Tensor]:
        """The origins, and the same random moves of each, projected."""
        generator = torch.Generator().manual_seed(self.config.seed)
        starts = [work.origin]
        for _ in range(self.config.restarts):
            move = torch.randn(work.origin.shape[1], generator=generator)
            move = move.to(work.origin.device)
            # Coordinates that nothing changes would swallow most of the move.
            free = work.project(work.origin + 1e-3 * move) != work.origin
            starts.append(work.project(work.origin + self.config.start_radius * _unit(move * free)))
        return starts


class _Work:
    """The rows of one search. What is done with one of them does not depend on the others."""

    def __init__(
        self, model: Model, space: ActionSpace, origin: Tensor, target: Tensor, kappa: float
    ) -> None:
        self.model, self.space, self.target, self.kappa = model, space, target, kappa
        self.origin = origin
        self.project: Callable[[Tensor], Tensor] = space.projector(origin)

    def part(self, rows: Tensor) -> "_Work":
        """Some of the rows, by their positions."""
        return _Work(self.model, self.space, self.origin[rows], self.target[rows], self.kappa)

    @torch.no_grad()
    def margin(self, point: Tensor) -> Tensor:
        return target_margin(self.model(self.space.to_input(point)), self.target)

    def slope(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """The margin (B,), and its gradient (B, D) along moves that the projection allows."""
        at = point.detach().requires_grad_(True)
        margin = target_margin(self.model(self.space.to_input(at)), self.target)
        (gradient,) = torch.autograd.grad(margin.sum(), at)
        with torch.no_grad():
            # Latents at their bound, and coordinates that nothing changes, cannot follow.
            free = self.project(point + 1e-3 * _unit(gradient)) != point
        return margin.detach(), gradient * free

    def ascend(self, start: Tensor, steps: int, size: float) -> tuple[Tensor, Tensor]:
        """The first valid iterate of each row, and which rows have one (B,) bool."""
        point, valid = start.clone(), torch.zeros_like(self.target, dtype=torch.bool)
        left = torch.arange(len(start), device=start.device)
        for _ in range(steps):
            part = self.part(left)
            margin, gradient = part.slope(point[left])
            reached = margin > self.kappa
            valid[left] = reached
            moved = part.project(point[left] + size * _unit(gradient))
            point[left] = torch.where(reached[:, None], point[left], moved)
            left = left[~reached]
            if not len(left):
                return point, valid
        valid[left] = self.part(left).margin(point[left]) > self.kappa
        return point, valid

    def bisect(self, point: Tensor, times: int) -> Tensor:
        """The nearest point to the origin, on the way to a valid point, that is found valid."""
        least, most = torch.zeros_like(point[:, 0]), torch.ones_like(point[:, 0])
        best = point
        for _ in range(times):
            share = (least + most) / 2
            tried = self.project(self.origin + share[:, None] * (point - self.origin))
            ok = self.margin(tried) > self.kappa
            best = torch.where(ok[:, None], tried, best)
            most, least = torch.where(ok, share, most), torch.where(ok, least, share)
        return best

    def refined(self, best: Tensor, cost: Tensor, config: Config) -> Tensor:
        """Cheaper points than valid ones of known cost, as far as steps along the boundary lead."""
        for _ in range(config.refinements):
            for tried in self.along_boundary(best):
                rows = (self.margin(tried) > self.kappa).nonzero()[:, 0]
                if not len(rows):
                    continue
                part = self.part(rows)
                point = part.bisect(tried[rows], config.bisections)
                every = torch.ones_like(rows, dtype=torch.bool)
                best[rows], cost[rows] = part.cheaper(best[rows], cost[rows], point, every)
        return best

    def along_boundary(self, point: Tensor) -> list[Tensor]:
        """Points on the way to the cheapest point of the plane that stands for the boundary."""
        margin, gradient = self.slope(point)
        move = self.space.steepest(gradient) if isinstance(self.space, Priced) else gradient
        way = point - self.origin
        # The plane through points of margin kappa: gradient . (u - point) = kappa - margin.
        height = (gradient * way).sum(1) + self.kappa - margin
        gain = (gradient * move).sum(1).clamp_min(1e-12)
        cheapest = self.origin + _OVERSHOOT * (height / gain)[:, None] * move
        return [self.project(point + share * (cheapest - point)) for share in _SHARES]

    @torch.no_grad()
    def cheaper(
        self, best: Tensor, cost: Tensor, point: Tensor, valid: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The cheaper of two points of each row; `valid` says which new ones count."""
        own = torch.where(valid, self.space.cost(self.origin, point), torch.inf)
        better = own < cost
        return torch.where(better[:, None], point, best), torch.where(better, own, cost)


def _unit(rows: Tensor) -> Tensor:
    """Rows (B, D) of length 1; rows of zeros stay."""
    length: Tensor = rows.norm(dim=1, keepdim=True)
    return rows / length.clamp_min(1e-12)
