"""The mixed-integer program behind exact actions: one row's moves, a ReLU network, HiGHS.

Moves are those of `cfq_bench.actions.moves`. Hidden units enter with one binary each
(big-M), unless their bounds show on which side of 0 they stay.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from cfq_bench.actions.layers import Affine
from cfq_bench.actions.moves import Moves

_STILL = 1e-7
"""Moves below this share of their range are HiGHS's tolerance, not a change."""


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
