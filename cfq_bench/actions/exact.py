"""Exact minimal-cost actions on linear models (paper, A.6), as a mixed-integer program.

The oracle that the search is measured against. Solved by HiGHS through `scipy.optimize.milp`, and
every answer is checked on the model again, because HiGHS can return points that violate their
constraints.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import Tensor, nn

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.quantization.deployed import DeployedLinear, DeployedNetwork

MOST_VALUES = 512
"""Grid features with more reachable values are relaxed to an interval: the optimum is then a lower
bound, and a gap to it an upper bound."""
TIME_LIMIT_S = 10.0


def linear_margin(network: nn.Module) -> tuple[np.ndarray, float] | None:
    """The margin of class 1 as (weights (d,), bias), where the network is one linear layer."""
    layers: list[nn.Module] = list(network.children())
    if isinstance(network, DeployedNetwork):
        layers = list(network.layers)
    if len(layers) != 1 or not isinstance(layers[0], nn.Linear | DeployedLinear):
        return None
    layer = layers[0]
    weight = layer.weight.detach().double().cpu().numpy()
    bias = np.zeros(2) if layer.bias is None else layer.bias.detach().double().cpu().numpy()
    if len(weight) != 2:
        return None
    return weight[1] - weight[0], float(bias[1] - bias[0])


@dataclass
class _Program:
    """Columns of the program: cost, margin gain, upper bound, whole or not, feature."""

    cost: list[float] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)

    def add(self, cost: float, gain: float, upper: float, whole: bool, feature: int) -> None:
        """Add one column."""
        self.cost.append(cost)
        self.gain.append(gain)
        self.upper.append(upper)
        self.whole.append(whole)
        self.feature.append(feature)


def exact_linear_costs(
    margin: tuple[np.ndarray, float], space: ActionSet, x: Tensor, target: Tensor, kappa: float
) -> np.ndarray:
    """Least cost of reaching the target at the required margin, for each row.

    Args:
        margin: of class 1, from `linear_margin`.
        space: the action set; its cost must be weighted l1.
        x: (B, d) factual rows.
        target: (B,) int64 in {0, 1}.
        kappa: required margin.

    Returns:
        (B,) float64: inf where no action exists, NaN where the time limit came first.

    Raises:
        ValueError: another cost than weighted l1.
    """
    if space.settings.cost != "weighted_l1":
        raise ValueError(f"exact solutions need the weighted_l1 cost, got {space.settings.cost}")
    weights, bias = margin
    low, high = space.row_bounds(x)
    costs = np.empty(len(x))
    for i in range(len(x)):
        sign = 1.0 if int(target[i]) == 1 else -1.0
        row = x[i].double().cpu().numpy()
        missing = kappa - sign * (weights @ row + bias)
        program = _Program()
        _add_singles(program, space, x[i], low[i], high[i], sign * weights)
        _add_categories(program, space, row, sign * weights)
        costs[i] = _solve(program, missing, space.max_features)
    return costs


def _add_singles(
    program: _Program, space: ActionSet, x: Tensor, low: Tensor, high: Tensor, weights: np.ndarray
) -> None:
    for j in range(space.n_single):
        if bool(space.immutable[j]) or weights[j] == 0.0:
            continue
        end = high[j] if weights[j] > 0 else low[j]
        reach = abs(float(end) - float(x[j]))
        if reach == 0.0:
            continue
        values = _grid_values(space, j, x, end)
        if values is None:
            program.add(1.0, abs(weights[j]), reach, False, j)
            continue
        for value in values:
            distance = abs(value - float(x[j]))
            program.add(distance, abs(weights[j]) * distance, 1.0, True, j)


def _grid_values(space: ActionSet, j: int, x: Tensor, end: Tensor) -> list[float] | None:
    """Encoded values of the whole raw numbers between the factual and a bound, or None."""
    if not bool(space.grid[j]):
        return None
    ends = torch.stack([x[: space.n_single], x[: space.n_single]])
    ends[1, j] = end
    raw = space.schema.destandardize(ends)[:, j].round()
    start, stop = int(raw[0]), int(raw[1])
    if abs(stop - start) > MOST_VALUES:
        return None
    step = 1 if stop > start else -1
    whole = torch.arange(start + step, stop + step, step, dtype=torch.float64)
    table = torch.zeros(len(whole), space.n_single, dtype=torch.float64)
    table[:, j] = whole
    return [float(value) for value in space.schema.standardize(table)[:, j]]


def _add_categories(
    program: _Program, space: ActionSet, row: np.ndarray, weights: np.ndarray
) -> None:
    for index, (start, stop) in enumerate(space.schema.groups, start=space.n_single):
        if bool(space.immutable[index]):
            continue
        current = weights[start:stop] @ row[start:stop]
        for gain in weights[start:stop] - current:
            if gain > 0.0:
                program.add(1.0, float(gain), 1.0, True, index)


def _solve(program: _Program, missing: float, most_features: int) -> float:
    if missing <= 0.0:
        return 0.0
    count = len(program.cost)
    if count == 0:
        return np.inf
    # A relaxed column needs an indicator of its own, to count as one changed feature.
    relaxed = [i for i, whole in enumerate(program.whole) if not whole]
    total = count + len(relaxed)
    gain = np.zeros(total)
    gain[:count] = program.gain
    changed = np.zeros(total)
    changed[[i for i, whole in enumerate(program.whole) if whole]] = 1.0
    changed[count:] = 1.0
    constraints = [
        LinearConstraint(gain, lb=missing),
        LinearConstraint(changed, ub=most_features),
    ]
    for k, i in enumerate(relaxed):
        linked = np.zeros(total)
        linked[i], linked[count + k] = 1.0, -program.upper[i]
        constraints.append(LinearConstraint(linked, ub=0.0))
    for feature in sorted(set(program.feature)):
        one = np.zeros(total)
        one[[i for i in range(count) if program.feature[i] == feature and program.whole[i]]] = 1.0
        if one.any():
            constraints.append(LinearConstraint(one, ub=1.0))
    cost = np.concatenate([program.cost, np.zeros(len(relaxed))])
    result = milp(
        cost,
        constraints=constraints,
        integrality=np.concatenate([program.whole, np.ones(len(relaxed))]).astype(int),
        bounds=Bounds(0.0, np.concatenate([program.upper, np.ones(len(relaxed))])),
        options={"time_limit": TIME_LIMIT_S},
    )
    if result.status == 2:
        return np.inf
    if result.status != 0 or gain @ result.x < missing - 1e-6:
        return np.nan
    return float(result.fun)
