"""Greedy search over single-feature changes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.outcome import Model, target_margin

_LEAST_GAIN = 1e-6
_LEAST_COST = 1e-3
_MOST_VALUES = 4_000_000
"""Of (B, C, d), tried at once: what they need stays in a processor's cache."""


@dataclass(frozen=True)
class _Moves:
    """C single-feature moves for each of B rows.

    Attributes:
        feature: (C,) int64, the feature that a move changes.
        own: (C, d) bool, the columns of that feature.
        value: (B, C, d) float32, the values of those columns after the move.
        partial: (C,) bool, moves that can be made in part (single columns).
    """

    feature: Tensor
    own: Tensor
    value: Tensor
    partial: Tensor


def greedy_actions(
    model: Model,
    space: ActionSet,
    x: Tensor,
    target: Tensor,
    kappa: float,
    points: int,
    *,
    price_matters: bool = True,
) -> tuple[Tensor, Tensor]:
    """Add the move with the best margin gain per cost, up to k features; keep the cheapest plan.

    A plan that overshoots counts with the cost at which its last move, interpolated, becomes valid:
    shrinking follows.

    Args:
        model: inputs to logits.
        space: the action set.
        x: (B, d) factual rows.
        target: (B,) int64.
        kappa: margin to exceed.
        points: values tried per single-column feature.
        price_matters: false: add the move with the largest gain instead. Where few features may
            change, cheap ones can use up k before the margin is reached.

    Returns:
        Points (B, d), and whether each is valid (B,) bool.
    """
    most = _rows_at_once(space, points)
    parts = [
        _greedy(model, space, rows, wanted, kappa, points, price_matters)
        for rows, wanted in zip(torch.split(x, most), torch.split(target, most), strict=True)
    ]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _rows_at_once(space: ActionSet, points: int) -> int:
    width = space.schema.width
    count = points * space.n_single + width - space.n_single
    return max(1, _MOST_VALUES // (count * width))


def _greedy(
    model: Model,
    space: ActionSet,
    x: Tensor,
    target: Tensor,
    kappa: float,
    points: int,
    price_matters: bool,
) -> tuple[Tensor, Tensor]:
    moves = _moves(space, x, points)
    plan = x
    used = torch.zeros(len(x), len(space.immutable), dtype=torch.bool, device=x.device)
    best, best_cost = x, torch.full((len(x),), torch.inf, device=x.device)
    margin = target_margin(model(x), target)
    spent = torch.zeros(len(x), device=x.device)
    rows = torch.arange(len(x), device=x.device)
    for _ in range(min(space.max_features, int((~space.immutable).sum()))):
        after, after_cost = _try(model, space, x, target, plan, moves)
        gain, price = after - margin[:, None], after_cost - spent[:, None]
        share = ((kappa - margin)[:, None] / gain.clamp_min(_LEAST_GAIN)).clamp(0, 1)
        reached = torch.where(moves.partial, spent[:, None] + price * share, after_cost)
        allowed = ~used[:, moves.feature]
        reached = torch.where((after > kappa) & allowed, reached, torch.inf)
        cheapest, move = reached.min(dim=1)
        better = cheapest < best_cost
        best = torch.where(better[:, None], _apply(plan, moves, rows, move), best)
        best_cost = torch.where(better, cheapest, best_cost)

        score = gain / price.clamp_min(_LEAST_COST) if price_matters else gain
        score = torch.where(allowed & (gain > 0), score, -torch.inf)
        top, move = score.max(dim=1)
        go = top > -torch.inf
        if not bool(go.any()):
            break
        plan = torch.where(go[:, None], _apply(plan, moves, rows, move), plan)
        used[rows[go], moves.feature[move[go]]] = True
        margin = torch.where(go, after[rows, move], margin)
        spent = torch.where(go, after_cost[rows, move], spent)
    return best, best_cost.isfinite()


def _moves(space: ActionSet, x: Tensor, points: int) -> _Moves:
    device, width = x.device, space.schema.width
    feature, own, value, partial = [], [], [], []
    low, high = space.row_bounds(x)
    ramp = torch.linspace(0, 1, points, device=device)
    single = low[:, None] + (high - low)[:, None] * ramp[None, :, None]  # (B, P, N_s)
    single = torch.minimum(single, high[:, None])  # low + (high - low) can round above high
    flat = space.snap(x.repeat_interleave(points, 0), single.flatten(0, 1))
    single = flat.view_as(single)
    for j in range(space.n_single):
        if bool(space.immutable[j]):
            continue
        columns = torch.zeros(width, dtype=torch.bool, device=device)
        columns[j] = True
        values = x.new_zeros(len(x), points, width)
        values[:, :, j] = single[:, :, j]
        feature += [j] * points
        own.append(columns.expand(points, width))
        value.append(values)
        partial += [True] * points
    for index, (start, stop) in enumerate(space.schema.groups, start=space.n_single):
        if bool(space.immutable[index]):
            continue
        size = stop - start
        columns = torch.zeros(width, dtype=torch.bool, device=device)
        columns[start:stop] = True
        values = x.new_zeros(len(x), size, width)
        values[:, :, start:stop] = torch.eye(size, device=device)
        feature += [index] * size
        own.append(columns.expand(size, width))
        value.append(values)
        partial += [False] * size
    return _Moves(
        torch.tensor(feature, device=device),
        torch.cat(own),
        torch.cat(value, dim=1),
        torch.tensor(partial, device=device),
    )


def _try(
    model: Model, space: ActionSet, x: Tensor, target: Tensor, plan: Tensor, moves: _Moves
) -> tuple[Tensor, Tensor]:
    """Margin and cost (B, C) of every plan with one more move."""
    count = len(moves.feature)
    points = torch.where(moves.own, moves.value, plan[:, None, :]).flatten(0, 1)  # (B C, d)
    repeated = target.repeat_interleave(count)
    margin = target_margin(model(points), repeated).view(-1, count)
    cost = space.cost(x.repeat_interleave(count, 0), points).view(-1, count)
    return margin, cost


def _apply(plan: Tensor, moves: _Moves, rows: Tensor, move: Tensor) -> Tensor:
    return torch.where(moves.own[move], moves.value[rows, move], plan)


def exchanged(
    model: Model,
    space: ActionSet,
    x: Tensor,
    target: Tensor,
    point: Tensor,
    kappa: float,
    points: int,
) -> tuple[Tensor, Tensor]:
    """Undo one change of an action and make one other move instead, if that looks cheaper.

    Args:
        model: inputs to logits.
        space: the action set.
        x: (B, d) factual rows.
        target: (B,) int64.
        point: (B, d) actions.
        kappa: margin to exceed.
        points: values tried per single-column feature.

    Returns:
        Points (B, d) that exceed the margin, and which differ from the given ones (B,) bool. A move
        that overshoots counts as in `greedy_actions`.
    """
    most = _rows_at_once(space, points)
    parts = [
        _exchanged(model, space, x[rows], target[rows], point[rows], kappa, points)
        for rows in torch.split(torch.arange(len(x), device=x.device), most)
    ]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _exchanged(
    model: Model,
    space: ActionSet,
    x: Tensor,
    target: Tensor,
    point: Tensor,
    kappa: float,
    points: int,
) -> tuple[Tensor, Tensor]:
    best, best_cost = point, space.cost(x, point) - _LEAST_COST
    improved = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    changed = space.changed(x, point)
    for feature in (~space.immutable).nonzero()[:, 0].tolist():
        rows = changed[:, feature].nonzero()[:, 0]
        if not len(rows):
            continue
        moves = _moves(space, x[rows], points)
        own = space.feature_of_column == feature
        plan = torch.where(own, x[rows], point[rows])
        margin, spent = target_margin(model(plan), target[rows]), space.cost(x[rows], plan)
        after, after_cost = _try(model, space, x[rows], target[rows], plan, moves)
        gain = (after - margin[:, None]).clamp_min(_LEAST_GAIN)
        share = ((kappa - margin)[:, None] / gain).clamp(0, 1)
        reached = spent[:, None] + (after_cost - spent[:, None]) * share
        reached = torch.where(moves.partial, reached, after_cost)
        # The same feature is left out: interpolated, it would seem cheaper than it is.
        allowed = (after > kappa) & (moves.feature != feature)
        cheapest, move = torch.where(allowed, reached, torch.inf).min(dim=1)
        better = cheapest < best_cost[rows]
        chosen = _apply(plan, moves, torch.arange(len(rows), device=x.device), move)
        best = best.index_copy(0, rows, torch.where(better[:, None], chosen, best[rows]))
        best_cost = best_cost.index_copy(0, rows, torch.where(better, cheapest, best_cost[rows]))
        improved = improved.index_copy(0, rows, improved[rows] | better)
    return best, improved
