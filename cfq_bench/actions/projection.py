"""The projection onto A(x) (paper, A.4), laid out for speed: solvers project at every step.

Only columns that can move are touched. They are taken out as (n, B), one column behind the other,
so that every operation runs along the rows of the table, many rows at once.
"""

import torch
from torch import Tensor

from cfq_bench.actions.grid import Grid
from cfq_bench.data.schema import FeatureSchema


class Layout:
    """Where what can move lies: s single columns, G one-hot groups, f = s + G features.

    Args:
        schema: the encoding.
        immutable: (F,) bool.
        on_grid: (N_s,) bool, single columns with a lattice.
        grid: the lattices of those columns.
        max_features: k.
    """

    def __init__(
        self,
        schema: FeatureSchema,
        immutable: Tensor,
        on_grid: Tensor,
        grid: Grid,
        max_features: int,
    ) -> None:
        free = ~immutable
        singles = free[: schema.n_single]
        self.singles = singles.nonzero()[:, 0]
        self.lattice = on_grid[singles].nonzero()[:, 0]
        self.grid = grid.take(singles[on_grid].nonzero()[:, 0])
        moves = free[schema.n_single :].tolist()
        self.groups = [ends for ends, can in zip(schema.groups, moves, strict=True) if can]
        self.sizes = [len(self.singles), *(stop - start for start, stop in self.groups)]
        inside = [torch.arange(*ends, device=immutable.device) for ends in self.groups]
        self.columns = torch.cat([self.singles, *inside])
        self.max_features = max_features

    def split(self, rows: Tensor) -> list[Tensor]:
        """The free columns of (B, d) as (n, B): the singles together, then each group."""
        return list(torch.split(rows.index_select(1, self.columns).t().contiguous(), self.sizes))


class Projector:
    """The projection of points of B fixed factuals: what depends on these alone is computed once.

    Args:
        layout: of the action set.
        origin: (B, d) factual rows.
        low: (B, N_s) lower bounds of the single columns.
        high: (B, N_s) upper bounds.
    """

    def __init__(self, layout: Layout, origin: Tensor, low: Tensor, high: Tensor) -> None:
        self.layout, self.origin = layout, origin
        self.own, *self.groups = layout.split(origin)
        self.low, self.high = (end.t().index_select(0, layout.singles) for end in (low, high))
        self.snap = layout.grid.snapper(self.own.index_select(0, layout.lattice).t())

    def __call__(self, point: Tensor) -> Tensor:
        """Project points (B, d)."""
        out = self.origin.clone()
        self.write(point, out)
        return out

    def write(self, point: Tensor, out: Tensor) -> None:
        """Project points (B, d) into `out`, which holds the factuals."""
        layout = self.layout
        free, *scores = layout.split(point)
        single = self._single(free)
        choices = [_choice(own, score) for own, score in zip(self.groups, scores, strict=True)]
        kept = self._kept(single, choices)
        if kept is not None:
            single = torch.where(kept[: len(single)], single, self.own)
        out.index_copy_(1, layout.singles, single.t())
        for i, ((start, stop), own) in enumerate(zip(layout.groups, self.groups, strict=True)):
            moves, chosen = choices[i]
            if kept is not None:
                moves = moves & kept[len(single) + i]
            out[:, start:stop] = torch.where(moves, chosen, own).t()

    def _single(self, free: Tensor) -> Tensor:
        """Box and lattice of the single columns (s, B)."""
        free = free + 0.0  # -0.0 becomes 0.0: one value has one bit pattern
        single = torch.minimum(torch.maximum(free, self.low), self.high)
        if not len(self.layout.lattice):
            return single
        if len(self.layout.lattice) == len(single):
            single = self.snap(single.t()).t()
        else:
            snapped = self.snap(single.index_select(0, self.layout.lattice).t()).t()
            single.index_copy_(0, self.layout.lattice, snapped)
        return torch.minimum(torch.maximum(single, self.low), self.high)

    def _kept(self, single: Tensor, choices: list[tuple[Tensor, Tensor]]) -> Tensor | None:
        """(f, B) bool, the k features that moved most, in units of cost; None where all may."""
        count, most = len(single) + len(choices), self.layout.max_features
        if most >= count:
            return None
        moved = single.new_empty(count, single.shape[1])
        moved[: len(single)] = (single - self.own).abs_()
        for i, ((moves, _), own) in enumerate(zip(choices, self.groups, strict=True), len(single)):
            # A swap touches two columns and costs 1; from an all-zero group, one column.
            moved[i] = moves * (own.sum(0) * 0.5 + 0.5)
        return largest(moved, most)


def _choice(own: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
    """One group (C, B) by argmax: whether each row moves (B,), and the one-hot column it moves to.

    The factual category wins ties; an all-zero factual scores 0.
    """
    best, place = _place_of_largest(score)
    # 1 at the least place, which no other has; through bool and back is several times slower.
    first = (place.amin(0) + 1.0).sub(place).clamp_(min=0.0)
    return (own * score).sum(0) < best, first


def _place_of_largest(values: Tensor) -> tuple[Tensor, Tensor]:
    """The largest values of (n, B) over the first dimension (B,), and places (n, B).

    Places are whole numbers, all different: the least is where the largest value first occurs.
    `Tensor.max` gives the same by an index, several times slower on this layout.
    """
    order = torch.arange(float(len(values)), device=values.device)[:, None]
    best = values.amax(0)
    # 0 at the largest, else -1; in place, as fresh memory costs more than the arithmetic.
    behind = (values - best).sign_()
    return best, behind.mul_(-len(values)).add_(order)


def largest(moved: Tensor, count: int) -> Tensor:
    """Mark the `count` largest of n features, (n, B) float >= 0; ties go to the first.

    Args:
        moved: (n, B), how far each feature moved.
        count: in [1, n].

    Returns:
        (n, B) bool.

    >>> largest(torch.tensor([[1.0], [2.0], [1.0]]), 2)[:, 0]
    tensor([ True,  True, False])
    """
    if 2 * count <= len(moved):
        return _picked(moved, count)
    # Fewer rounds: the smallest go, and among ties the last.
    return ~_picked(-moved.flip(0), len(moved) - count).flip(0)


def _picked(values: Tensor, count: int) -> Tensor:
    first = _first_largest(values)
    if count == 1:
        return first
    left, picked = values.clone(), first
    for _ in range(count - 1):
        left.masked_fill_(first, -torch.inf)
        first = _first_largest(left)
        picked = picked | first
    return picked


def _first_largest(values: Tensor) -> Tensor:
    _, place = _place_of_largest(values)
    return place == place.amin(0)
