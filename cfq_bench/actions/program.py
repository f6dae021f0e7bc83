"""The mixed-integer program behind exact actions: one row's moves, a ReLU network, HiGHS.

A row's reachable set is a list of *moves*: t_i in [0, upper_i] along a column (grid columns in
whole steps), or a 0/1 choice of one value (a category, or one value of a log1p grid column). Hidden
units enter with one binary each (big-M), unless their bounds show on which side of 0 they stay.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.layers import Affine

_STILL = 1e-7
"""Moves below this share of their range are HiGHS's tolerance, not a change."""
_WHOLE = 1e-6


@dataclass(frozen=True)
class Moves:
    """M moves of one row.

    Attributes:
        column: (M,) the encoded column that a move goes along; -1 for a category.
        delta: (d, M) float64, change of the encoded row per unit of each move.
        cost: (M,) cost per unit.
        upper: (M,) greatest number of units.
        whole: (M,) bool, in whole units only.
        choice: (M,) bool, 0/1 moves, which are their own indicator of a changed feature.
        feature: (M,) index of the feature that changes.
        relaxed: (M,) bool, a grid column with too many values: its whole numbers are ignored.
    """

    column: np.ndarray
    delta: np.ndarray
    cost: np.ndarray
    upper: np.ndarray
    whole: np.ndarray
    choice: np.ndarray
    feature: np.ndarray
    relaxed: np.ndarray

    def within(self, budget: float) -> "Moves":
        """Only what costs at most `budget`."""
        most = np.minimum(self.upper, budget / self.cost)
        most = np.where(self.whole, np.floor(most + _WHOLE), most)
        keep = most > 0
        parts = {name: value[..., keep] for name, value in vars(self).items()}
        return Moves(**{**parts, "upper": most[keep]})


class _MoveList:
    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[tuple[int, np.ndarray, float, float, bool, bool, int, bool]] = []

    def add(
        self,
        column: int,
        delta: np.ndarray,
        cost: float,
        upper: float,
        *,
        whole: bool,
        feature: int,
        relaxed: bool = False,
    ) -> None:
        choice = whole and upper == 1.0
        self.rows.append((column, delta, cost, upper, whole, choice, feature, relaxed))

    def done(self) -> Moves:
        column, delta, cost, upper, whole, choice, feature, relaxed = (
            [row[i] for row in self.rows] for i in range(8)
        )
        return Moves(
            np.array(column, dtype=int),
            np.array(delta, dtype=float).reshape(len(self.rows), self.width).T,
            np.array(cost, dtype=float),
            np.array(upper, dtype=float),
            np.array(whole, dtype=bool),
            np.array(choice, dtype=bool),
            np.array(feature, dtype=int),
            np.array(relaxed, dtype=bool),
        )


def moves_of(space: ActionSet, x: Tensor, most_values: int) -> Moves:
    """Every move of one row (d,) that A(x) allows.

    Args:
        space: the action set.
        x: (d,) the factual row.
        most_values: grid columns with more reachable values on one side are relaxed.
    """
    moves = _MoveList(space.schema.width)
    own = x.double().cpu().numpy()
    weight = space.weight.double().cpu().numpy()
    low, high = (end[0] for end in space.row_bounds(x[None]))
    for j in range(space.n_single):
        for end in (float(high[j]), float(low[j])):
            if not bool(space.immutable[j]) and end != own[j]:
                _add_side(moves, space, own, j, end, float(weight[j]), most_values)
    for index, (start, stop) in enumerate(space.schema.groups, start=space.n_single):
        if bool(space.immutable[index]):
            continue
        for chosen in range(start, stop):
            delta = np.zeros(len(own))
            delta[start:stop] = -own[start:stop]
            delta[chosen] += 1.0
            cost = float(weight @ np.abs(delta))
            if cost > 0.0:
                moves.add(-1, delta, cost, 1.0, whole=True, feature=index)
    return moves.done()


def _add_side(
    moves: _MoveList,
    space: ActionSet,
    own: np.ndarray,
    j: int,
    end: float,
    weight: float,
    most_values: int,
) -> None:
    """Moves of one column from the factual to one of its ends."""

    def along(distance: float) -> np.ndarray:
        delta = np.zeros(len(own))
        delta[j] = distance
        return delta

    sign = 1.0 if end > own[j] else -1.0
    reach = abs(end - own[j])
    if not bool(space.grid[j]):
        moves.add(j, along(sign), weight, reach, whole=False, feature=j)
        return
    ends = torch.zeros(2, space.n_single)
    ends[0, j], ends[1, j] = float(own[j]), end
    start, stop = (int(raw) for raw in space.schema.destandardize(ends)[:, j].round())
    count = abs(stop - start)
    if count == 0:
        return
    if count > most_values:
        moves.add(j, along(sign), weight, reach, whole=False, feature=j, relaxed=True)
    elif bool(space.schema.log[j]):
        table = torch.zeros(count, space.n_single, dtype=torch.float64)
        table[:, j] = torch.linspace(start + sign, stop, count, dtype=torch.float64).round()
        for value in space.schema.standardize(table)[:, j].tolist():
            distance = value - own[j]
            moves.add(j, along(distance), weight * abs(distance), 1.0, whole=True, feature=j)
    else:
        step = reach / count
        moves.add(j, along(sign * step), weight * step, float(count), whole=True, feature=j)


class Verdict(Enum):
    """What HiGHS says about a program."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNDECIDED = "undecided"
    """The time limit came first, or numbers broke down."""


@dataclass(frozen=True)
class Outcome:
    """A solved program.

    Attributes:
        verdict: what is proved.
        units: (M,) of each move; None unless optimal.
        bound: no action in the program costs less; 0 where nothing is known, inf if infeasible.
    """

    verdict: Verdict
    units: np.ndarray | None
    bound: float


class Program:
    """Least cost of moves after which a network's margin is large enough.

    Args:
        moves: of the row.
        layers: from `read_layers`; the last is the margin of class 1.
        x: (d,) float64 factual row.
        sign: 1 to make the margin large, -1 to make it small.
        most_features: k.
        budget: actions dearer than this are left out; inf for none.
    """

    def __init__(
        self,
        moves: Moves,
        layers: list[Affine],
        x: np.ndarray,
        sign: float,
        most_features: int,
        budget: float,
    ) -> None:
        self.moves, self.most_features, self.budget = moves, most_features, budget
        count = len(moves.cost)
        self.upper = list(moves.upper)
        self.whole = list(moves.whole)
        self.rows: list[tuple[dict[int, float], float, float]] = []
        self._count_features()
        first = layers[0]
        values = np.zeros((len(first.bias), count))  # pre-activations: values @ variables + offset
        values += first.weight @ moves.delta
        offset = first.weight @ x + first.bias
        low, high = self._reach(values, offset)
        for layer in layers[1:]:
            values, offset, low, high = self._relu(values, offset, low, high)
            positive, negative = layer.weight.clip(min=0), layer.weight.clip(max=0)
            values, offset = layer.weight @ values, layer.weight @ offset + layer.bias
            low, high = (
                positive @ low + negative @ high + layer.bias,
                positive @ high + negative @ low + layer.bias,
            )
        self.margin, self.margin_offset = sign * values[0], sign * float(offset[0])

    def _add(self, upper: float, whole: bool) -> int:
        self.upper.append(upper)
        self.whole.append(whole)
        return len(self.upper) - 1

    def _count_features(self) -> None:
        """At most k features change, and each to one value."""
        moves = self.moves
        changed: dict[int, list[int]] = {}
        for i in range(len(moves.cost)):
            indicator = i
            if not moves.choice[i]:
                indicator = self._add(1.0, True)
                self.rows.append(({i: 1.0, indicator: -float(moves.upper[i])}, -np.inf, 0.0))
            changed.setdefault(int(moves.feature[i]), []).append(indicator)
        for indicators in changed.values():
            if len(indicators) > 1:
                self.rows.append((dict.fromkeys(indicators, 1.0), -np.inf, 1.0))
        if self.most_features < len(changed):
            every = [i for indicators in changed.values() for i in indicators]
            self.rows.append((dict.fromkeys(every, 1.0), -np.inf, float(self.most_features)))
        if np.isfinite(self.budget):
            self.rows.append((dict(enumerate(moves.cost)), -np.inf, self.budget))

    def _reach(self, gain: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the first layer's units over k moves within the budget."""
        moves = self.moves
        ends = []
        for sign in (1.0, -1.0):
            most = (sign * gain * moves.upper).clip(min=0)  # (H, M)
            features, place = np.unique(moves.feature, return_inverse=True)
            best = np.zeros((len(features), len(gain)))
            np.maximum.at(best, place, most.T)
            reach = np.sort(best, axis=0)[::-1][: self.most_features].sum(axis=0)
            if np.isfinite(self.budget) and len(moves.cost):
                rate = (sign * gain / moves.cost).clip(min=0).max(axis=1)
                reach = np.minimum(reach, self.budget * rate)
            ends.append(offset + sign * reach)
        return ends[1], ends[0]

    def _relu(
        self, values: np.ndarray, offset: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """max(0, a) for each unit, as (affine expression, its bounds)."""
        units = []
        for a, b, least, most in zip(values, offset, low, high, strict=True):
            if most <= 0.0:
                units.append((np.zeros_like(a), 0.0))
            elif least >= 0.0:
                units.append((a, b))
            else:
                units.append((self._rectified(a, float(b), float(least), float(most)), 0.0))
        width = len(self.upper)
        out = np.zeros((len(units), width))
        for row, (unit, _) in zip(out, units, strict=True):
            row[: len(unit)] = unit
        return out, np.array([b for _, b in units]), low.clip(min=0), high.clip(min=0)

    def _rectified(self, a: np.ndarray, b: float, least: float, most: float) -> np.ndarray:
        """A variable h = max(0, a v + b), by one binary."""
        h, on = self._add(most, False), self._add(1.0, True)
        terms = {int(i): float(a[i]) for i in a.nonzero()[0]}
        back = {i: -value for i, value in terms.items()}
        self.rows.append(({**back, h: 1.0}, b, np.inf))  # h >= a
        self.rows.append(({**back, h: 1.0, on: -least}, -np.inf, b - least))  # h <= a - L (1 - on)
        self.rows.append(({h: 1.0, on: -most}, -np.inf, 0.0))  # h <= U on
        out = np.zeros(h + 1)
        out[h] = 1.0
        return out

    def solve(self, need: float, time_limit_s: float) -> Outcome:
        """Find the least cost at which the margin is at least `need`."""
        total = len(self.upper)
        if total == 0:
            reached = self.margin_offset >= need
            nothing = np.zeros(0) if reached else None
            verdict = Verdict.OPTIMAL if reached else Verdict.INFEASIBLE
            return Outcome(verdict, nothing, 0.0 if reached else np.inf)
        matrix = np.zeros((len(self.rows) + 1, total))
        low, high = np.full(len(matrix), -np.inf), np.full(len(matrix), np.inf)
        for i, (terms, least, most) in enumerate(self.rows):
            matrix[i, list(terms)] = list(terms.values())
            low[i], high[i] = least, most
        matrix[-1, : len(self.margin)] = self.margin
        low[-1] = need - self.margin_offset
        cost = np.zeros(total)
        cost[: len(self.moves.cost)] = self.moves.cost
        result = milp(
            cost,
            constraints=LinearConstraint(matrix, low, high),
            integrality=np.array(self.whole).astype(int),
            bounds=Bounds(0.0, np.array(self.upper)),
            # HiGHS's presolve saves no time here, and prints when it has to repair a solution.
            options={"time_limit": time_limit_s, "mip_rel_gap": 1e-6, "presolve": False},
        )
        if result.status == 2:
            return Outcome(Verdict.INFEASIBLE, None, np.inf)
        known = result.mip_dual_bound
        bound = max(0.0, float(known)) if known is not None and np.isfinite(known) else 0.0
        if result.status != 0:
            return Outcome(Verdict.UNDECIDED, None, bound)
        units = result.x[: len(self.moves.cost)].clip(0.0, self.moves.upper)
        units = np.where(self.moves.whole, units.round(), units)
        units = np.where(units > _STILL * self.moves.upper, units, 0.0)
        return Outcome(Verdict.OPTIMAL, units, bound)
