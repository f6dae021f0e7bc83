"""Make a valid action cheaper: drop changes that are not needed, shrink those that are."""

import torch
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.outcome import Model, target_margin


def shrink(
    model: Model,
    space: ActionSet,
    x: Tensor,
    target: Tensor,
    point: Tensor,
    valid: Tensor,
    kappa: float,
    *,
    bisections: int,
) -> Tensor:
    """Prune and shrink valid points; every returned valid point still exceeds the margin.

    Args:
        model: inputs to logits.
        space: the action set.
        x: (B, d) factual rows.
        target: (B,) int64.
        point: (B, d) points in A(x).
        valid: (B,) bool, rows whose point exceeds the margin; the others are returned unchanged.
        kappa: the margin.
        bisections: halvings per change.

    Returns:
        (B, d) points in A(x), none dearer than before.
    """
    rows = valid.nonzero()[:, 0]
    if not len(rows):
        return point
    work = _Work(model, space, x[rows], target[rows], kappa)
    u = point[rows]
    u = work.prune(u)
    singles = torch.zeros(space.schema.width, dtype=torch.bool, device=x.device)
    singles[: space.n_single] = ~space.immutable[: space.n_single]
    u = work.bisect(u, singles, bisections)
    for column in singles.nonzero()[:, 0].tolist():
        only = torch.zeros_like(singles)
        only[column] = True
        u = work.bisect(u, only, bisections)
    u = work.prune(u)  # a smaller change elsewhere can make another one needless
    out = point.clone()
    out[rows] = u
    return out


class _Work:
    """The rows being shrunk."""

    def __init__(
        self, model: Model, space: ActionSet, x: Tensor, target: Tensor, kappa: float
    ) -> None:
        self.model, self.space, self.x, self.target, self.kappa = model, space, x, target, kappa

    def holds(self, u: Tensor, rows: Tensor) -> Tensor:
        return target_margin(self.model(u), self.target[rows]) > self.kappa

    def prune(self, u: Tensor) -> Tensor:
        """Return features to the factual, one at a time, until none is left that is not needed."""
        features = (~self.space.immutable).nonzero()[:, 0].tolist()
        while True:
            before = u
            for feature in features:
                u = self.drop(u, self.space.feature_of_column == feature)
            if torch.equal(u, before):
                return u

    def drop(self, u: Tensor, columns: Tensor) -> Tensor:
        """Return columns to the factual in the rows where the action holds without them."""
        rows = ((u != self.x) & columns).any(1).nonzero()[:, 0]
        if not len(rows):
            return u
        without = torch.where(columns, self.x[rows], u[rows])
        out = u.clone()
        out[rows] = torch.where(self.holds(without, rows)[:, None], without, u[rows])
        return out

    def bisect(self, u: Tensor, columns: Tensor, bisections: int) -> Tensor:
        """Move columns towards the factual by one common share, as far as the action holds."""
        rows = ((u != self.x) & columns).any(1).nonzero()[:, 0]
        if not len(rows):
            return u
        x, full = self.x[rows], u[rows]
        least, most = full.new_zeros(len(rows)), full.new_ones(len(rows))
        best = full
        for _ in range(bisections):
            share = (least + most) / 2
            tried = self._at(x, full, share, columns)
            ok = self.holds(tried, rows)
            best = torch.where(ok[:, None], tried, best)
            most = torch.where(ok, share, most)
            least = torch.where(ok, least, share)
        # On a grid, and with l2, less of every column need not be cheaper for each rounding.
        cheaper = self.space.cost(x, best) <= self.space.cost(x, full)
        out = u.clone()
        out[rows] = torch.where(cheaper[:, None], best, full)
        return out

    def _at(self, x: Tensor, full: Tensor, share: Tensor, columns: Tensor) -> Tensor:
        # In floating point x + s (u - x) can miss the interval between x and u by a rounding error.
        between = (x + share[:, None] * (full - x)).clamp(x.minimum(full), x.maximum(full))
        between = torch.where(columns, between, full)
        single = self.space.snap(x, between[:, : self.space.n_single])
        return torch.cat([single, between[:, self.space.n_single :]], dim=1)
