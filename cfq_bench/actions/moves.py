"""A row's reachable set as a list of moves, for exact programs.

A move is t_i in [0, upper_i] along a column (grid columns in whole steps), or a 0/1 choice of one
value (a category, or one value of a log1p grid column).
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet

_WHOLE = 1e-6
"""A bound this little below a whole number of steps is that number."""


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
    if not bool(space.on_grid[j]):
        moves.add(j, along(sign), weight, reach, whole=False, feature=j)
        return
    grid = space.grid_of(j)
    values = grid.between(float(own[j]), end)
    if not len(values):
        return
    count = len(values)
    if count > most_values:
        moves.add(j, along(sign), weight, reach, whole=False, feature=j, relaxed=True)
    elif grid.units.has_log or not grid.holds(float(own[j])):  # the steps differ in length
        for value in grid.encode(values).tolist():
            distance = value - own[j]
            moves.add(j, along(distance), weight * abs(distance), 1.0, whole=True, feature=j)
    else:
        step = reach / count
        moves.add(j, along(sign * step), weight * step, float(count), whole=True, feature=j)
