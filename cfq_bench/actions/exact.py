"""Exact minimal-cost actions on linear models (paper, A.6) and small ReLU networks.

The oracle that the search is measured against. Solved by HiGHS through `scipy.optimize.milp`, and
every answer is checked on the model again, because HiGHS can return points that violate their
constraints.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.greedy import greedy_actions
from cfq_bench.actions.layers import Affine, read_layers
from cfq_bench.actions.moves import Moves, moves_of
from cfq_bench.actions.outcome import Model, Status, target_margin
from cfq_bench.actions.program import Program, Verdict
from cfq_bench.actions.shrink import shrink
from cfq_bench.actions.solver import Solver, in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.base import Positive, SolverSettings
from cfq_bench.errors import UserError

MOST_VALUES = 512
"""Grid columns with more reachable values are relaxed to an interval: the bound is then that of the
relaxation, and an answer is its optimum rounded to whole numbers."""
MOST_UNITS = 48
"""Hidden units up to which most rows are proved in seconds."""
SLACK = 1e-5
"""Logits by which a program's margin may differ from the float32 network's."""
_RETRIES = (SLACK, 1e-4, 1e-3)
"""Margins beyond kappa that are asked for when a program's optimum fails on the network."""
_GRID_POINTS, _BISECTIONS = 13, 14
"""Of the greedy plan whose cost caps the program: they decide time, not answers."""


class Config(SolverSettings):
    """Settings of the exact solver."""

    time_limit_s: Positive
    """Seconds per program: a row has one, and one more where its optimum fails on the network."""


class Exact(Solver):
    """Least cost, proved: linear models and ReLU networks up to 48 hidden units, weighted l1.

    INFEASIBLE is a proof. NOT_FOUND: the time limit came first, so that an answer can depend on the
    machine's speed. Activation quantizers are step functions: such networks are refused.
    """

    def search(
        self, model: Model, space: ActionSpace, x: Tensor, target: Tensor, kappa: float
    ) -> tuple[Tensor, Tensor]:
        """See `Solver.search`."""
        answer = exact_actions(
            model, space, x, target, kappa, time_limit_s=self.config.time_limit_s
        )
        return answer.point, answer.status


@dataclass(frozen=True)
class ExactAnswer:
    """What is proved about B rows.

    Attributes:
        point: (B, d) where the cheapest action leads; the row itself unless FOUND.
        status: (B,) int8, `Status`: FOUND, NOT_FOUND or INFEASIBLE.
        cost: (B,) float64: inf unless FOUND.
        bound: (B,) float64: no action costs less; inf where INFEASIBLE. It equals the cost up to
            rounding, unless time ran out or a grid column was relaxed.
    """

    point: Tensor
    status: Tensor
    cost: np.ndarray
    bound: np.ndarray


def exact_actions(
    model: Model,
    space: ActionSpace,
    x: Tensor,
    target: Tensor,
    kappa: float,
    *,
    time_limit_s: float,
    start: tuple[Tensor, Tensor] | None = None,
) -> ExactAnswer:
    """Solve one mixed-integer program for each row.

    Args:
        model: a network that `read_layers` can read.
        space: the action set; its cost must be weighted l1.
        x: (B, d) factual rows.
        target: (B,) int64 in {0, 1}.
        kappa: required margin.
        time_limit_s: for each program.
        start: points (B, d), and which of them may be actions (B,) bool; those that are cap the
            cost in their programs. Default: greedy plans.

    Raises:
        UserError: another cost or action space, or a network that cannot be read.
    """
    if not isinstance(space, ActionSet):
        raise UserError("exact solutions are for tables: use solver=latent_search")
    if space.settings.cost != "weighted_l1":
        raise UserError(
            f"exact solutions need the weighted_l1 cost, got {space.settings.cost}: use "
            "solver=search, or actions.cost=weighted_l1"
        )
    blocked = in_blocks(model)
    layers = read_layers(blocked.network, MOST_UNITS)
    with torch.no_grad():
        points, valid = start or _greedy(blocked, space, x, target, kappa)
        holds = target_margin(blocked(points), target) > kappa
        valid = valid & holds & ~space.violations(x, points)
        rows = [
            _Row(blocked, space, layers, x[i : i + 1], target[i : i + 1], kappa, time_limit_s)
            for i in range(len(x))
        ]
        answers = [
            row.answer(point if ok else None)
            for row, point, ok in zip(rows, torch.split(points, 1), valid.tolist(), strict=True)
        ]
    if not answers:
        return ExactAnswer(x, x.new_zeros(0, dtype=torch.int8), np.zeros(0), np.zeros(0))
    point, status, bound = zip(*answers, strict=True)
    solution = torch.cat(point)
    found = np.array([each == Status.FOUND for each in status])
    cost = np.where(found, space.cost(x, solution).double().cpu().numpy(), np.inf)
    statuses = torch.tensor([int(s) for s in status], dtype=torch.int8, device=x.device)
    return ExactAnswer(solution, statuses, cost, np.array(bound))


def _greedy(
    model: Model, space: ActionSet, x: Tensor, target: Tensor, kappa: float
) -> tuple[Tensor, Tensor]:
    point, valid = greedy_actions(model, space, x, target, kappa, points=_GRID_POINTS)
    small = shrink(model, space, x, target, point, valid, kappa, bisections=_BISECTIONS)
    return small, valid


class _Row:
    """One row (1, d) and its programs."""

    def __init__(
        self,
        model: Model,
        space: ActionSet,
        layers: list[Affine],
        x: Tensor,
        target: Tensor,
        kappa: float,
        time_limit_s: float,
    ) -> None:
        self.model, self.space, self.layers = model, space, layers
        self.x, self.target, self.kappa, self.time_limit_s = x, target, kappa, time_limit_s

    def answer(self, start: Tensor | None) -> tuple[Tensor, Status, float]:
        """The point, the status and the bound."""
        budget = np.inf if start is None else float(self.space.cost(self.x, start)) + SLACK
        moves = moves_of(self.space, self.x[0], MOST_VALUES).within(budget)
        sign = 1.0 if int(self.target) == 1 else -1.0
        row = self.x[0].double().cpu().numpy()
        program = Program(moves, self.layers, row, sign, self.space.max_features, budget)
        first = program.solve(self.kappa - SLACK, self.time_limit_s)
        if first.verdict is Verdict.INFEASIBLE:
            # Nothing is cheaper than the start, or there is nothing at all.
            if start is None:
                return self.x, Status.INFEASIBLE, np.inf
            return start, Status.FOUND, budget - SLACK
        if first.verdict is Verdict.UNDECIDED:
            return self.x, Status.NOT_FOUND, first.bound
        best, outcome = self._verified(moves, first.units), first
        for more in _RETRIES:
            if best is not None or outcome.verdict is not Verdict.OPTIMAL:
                break
            outcome = program.solve(self.kappa + more, self.time_limit_s)
            best = self._verified(moves, outcome.units)
        known = [point for point in (best, start) if point is not None]
        if not known:
            return self.x, Status.NOT_FOUND, first.bound
        cheapest = min(known, key=lambda point: float(self.space.cost(self.x, point)))
        return cheapest, Status.FOUND, first.bound

    def _verified(self, moves: Moves, units: np.ndarray | None) -> Tensor | None:
        """The cheapest rounding of a program's optimum that holds on the network, or None."""
        if units is None:
            return None
        points = self._rounded(moves, units)
        origin = self.x.expand_as(points)
        margin = target_margin(self.model(points), self.target.expand(len(points)))
        ok = (margin > self.kappa) & ~self.space.violations(origin, points)
        if not bool(ok.any()):
            return None
        cost = torch.where(ok, self.space.cost(origin, points), torch.inf)
        return points[cost.argmin()][None]

    def _rounded(self, moves: Moves, units: np.ndarray) -> Tensor:
        """Points (P, d) of a program's optimum, relaxed grid columns rounded down and up."""
        singles = self.space.n_single
        own = self.x[0].double().cpu().numpy()
        change = moves.delta @ units
        moved = torch.from_numpy(np.abs(moves.delta) @ units > 0)
        point = torch.where(moved, torch.from_numpy(own + change), self.x[0].double().cpu())
        point[singles:] = point[singles:].round()
        free = moves.column[moves.relaxed & (units > 0)].tolist()
        near = {j: self.space.grid_of(j) for j in free}
        level = {j: grid.level(point[j].reshape(1)) for j, grid in near.items()}
        points = []
        for ups in itertools.product((False, True), repeat=min(len(free), 6)):
            tried = point[None].to(torch.float32)
            for j, up in zip(free, ups, strict=False):
                tried[0, j] = near[j].encode(level[j].ceil() if up else level[j].floor())
            points.append(tried)
        tried = torch.cat(points).to(self.x.device)
        origin = self.x.expand_as(tried)
        low, high = self.space.row_bounds(origin)
        single = self.space.snap(origin, tried[:, :singles])
        tried[:, :singles] = torch.minimum(torch.maximum(single, low), high)
        return tried
