"""The action set A(x) of a table (paper, A.2 and A.4).

A(x) = points u with u_j = x_j for immutable features, bounds, one-hot groups, directions, integers
and ordinals on their grid, and at most k changed *features*. The paper masks encoded columns; one
column of a one-hot group alone would break the group, so sparsity counts features here.
"""

import hashlib
import json

import torch
from torch import Tensor

from cfq_bench.actions.bounds import column_bounds, domain
from cfq_bench.actions.grid import Grid, make_grid
from cfq_bench.actions.projection import Layout, Projector
from cfq_bench.config.actions import ActionSettings
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.errors import UserError

_ROWS = 8192
"""Rows projected at once: what they need stays in a processor's cache."""


class ActionSet:
    """Projection, cost and checks for one data set and one preset.

    Shapes: x and points (B, d) float32; F features, of which the first N_s are single columns.

    Args:
        schema: the encoding.
        settings: the preset.
        train_x: (N, d) encoded train rows, for percentile bounds.
    """

    def __init__(self, schema: FeatureSchema, settings: ActionSettings, train_x: Tensor) -> None:
        self.schema = schema
        self.settings = settings
        kinds = [settings.features[feature.name].kind for feature in schema.features]
        for feature, kind in zip(schema.features, kinds, strict=True):
            if not feature.single and kind in ("increase_only", "decrease_only"):
                raise UserError(
                    f"actions {settings.name!r}: {feature.name!r} is categorical and has no order, "
                    f"so it cannot be {kind}"
                )
        device = train_x.device
        self.n_single = schema.n_single
        self.immutable = torch.tensor([kind == "immutable" for kind in kinds], device=device)
        self.increase = torch.tensor([kind == "increase_only" for kind in kinds], device=device)
        self.decrease = torch.tensor([kind == "decrease_only" for kind in kinds], device=device)
        self.feature_of_column = schema.feature_of_column.to(device)
        self.low, self.high = column_bounds(schema, settings, train_x)
        self.least, self.most = domain(schema, train_x, self.low)
        self.on_grid, self.grid = make_grid(schema, settings, train_x, self.high)
        self.weight = torch.ones(schema.width, device=device)
        self.weight[self.n_single :] = 0.5  # a swap touches two columns and costs 1
        fixed = self.immutable[: self.n_single]
        self._no_lower = _walls(fixed | self.increase[: self.n_single])
        self._no_higher = _walls(fixed | self.decrease[: self.n_single])
        self.max_features = min(settings.max_features or len(kinds), len(kinds))
        self._layout = Layout(schema, self.immutable, self.on_grid, self.grid, self.max_features)

    @property
    def names(self) -> list[str]:
        """The features' names."""
        return [feature.name for feature in self.schema.features]

    @property
    def fingerprint(self) -> str:
        """sha256 of the resolved set: preset, bounds in encoded units, cost."""
        resolved = {
            "settings": self.settings.model_dump(mode="json"),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
        }
        return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()

    def origin(self, x: Tensor) -> Tensor:
        """The encoded row itself."""
        return x

    def to_input(self, point: Tensor) -> Tensor:
        """The encoded point itself."""
        return point

    def row_bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reachable interval of each single column, (B, N_s) each.

        A factual outside its own bounds keeps its value reachable: no change is ever forced.
        """
        own = x[:, : self.n_single]
        low, high = self.low, self.high
        gamma = self.settings.gamma
        if gamma != 1.0:
            low, high = torch.minimum(low, own), torch.maximum(high, own)
            low = torch.minimum(torch.maximum(own - gamma * (own - low), self.least), own)
            high = torch.maximum(torch.minimum(own + gamma * (high - own), self.most), own)
            low, high = self._inward(own, low, high)
        # Infinite walls where a column may not go: the factual is the bound there.
        low = torch.minimum(torch.maximum(low, self._no_lower), own)
        return low, torch.maximum(torch.minimum(high, -self._no_higher), own)

    def _inward(self, own: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Scaled bounds of grid columns, rounded towards the factual."""
        on = self.on_grid
        low, high = low.clone(), high.clone()
        low[:, on] = torch.minimum(self.grid.up(low[:, on]), own[:, on])
        high[:, on] = torch.maximum(self.grid.down(high[:, on]), own[:, on])
        return low, high

    def snap(self, x: Tensor, single: Tensor) -> Tensor:
        """Move single columns (B, N_s) to the nearest lattice value; the factual stays bitwise."""
        on = self.on_grid
        out = single.clone()
        out[:, on] = self.grid.snapper(x[:, : self.n_single][:, on])(single[:, on])
        return out

    def grid_of(self, column: int) -> Grid:
        """The lattice of one single column that has one."""
        place = self.on_grid[:column].sum().reshape(1)
        return self.grid.take(place)

    def project(self, origin: Tensor, point: Tensor) -> Tensor:
        """Project points onto A(x): immutability, box and grid, categories, sparsity (A.4).

        Args:
            origin: (B, d) factual rows.
            point: (B, d) any finite values.

        Returns:
            (B, d) points in A(x). A category that ties with the factual one does not replace it;
            features that tie in size are kept in column order.
        """
        out = torch.empty_like(origin)
        for start in range(0, len(origin), _ROWS):
            rows = slice(start, start + _ROWS)
            own = origin[rows]
            self.projector(own).write(point[rows], out[rows].copy_(own))
        return out

    def projector(self, origin: Tensor) -> Projector:
        """`project` for fixed factuals: what depends on them alone is computed once."""
        return Projector(self._layout, origin, *self.row_bounds(origin))

    def scaled_action(self, origin: Tensor, point: Tensor) -> Tensor:
        """W delta (B, d): standardized columns, 0.5 per one-hot column."""
        return (point - origin) * self.weight

    def feature_distance(self, origin: Tensor, point: Tensor) -> Tensor:
        """(B, F) how far each feature moved: standard deviations, or 1 for a category swap."""
        moved = self.scaled_action(origin, point).abs()
        if not len(self.schema.groups):
            return moved
        out = moved.new_zeros(len(moved), len(self.immutable))
        return out.index_add_(1, self.feature_of_column, moved)

    def cost(self, origin: Tensor, point: Tensor) -> Tensor:
        """Cost (B,) of each action: weighted l1, weighted l2, or the mean of both (Table 8)."""
        if self.settings.cost == "weighted_l1":
            return self.scaled_action(origin, point).abs().sum(dim=1)
        moved = self.feature_distance(origin, point)
        l2 = moved.square().sum(dim=1).sqrt()
        return l2 if self.settings.cost == "weighted_l2" else 0.5 * (l2 + moved.sum(dim=1))

    def changed(self, origin: Tensor, point: Tensor) -> Tensor:
        """(B, F) bool: features with any changed column, compared bitwise."""
        columns = (point != origin).float()
        out = columns.new_zeros(len(columns), len(self.immutable))
        return out.index_add_(1, self.feature_of_column, columns) > 0

    def violations(self, origin: Tensor, point: Tensor) -> Tensor:
        """(B,) bool: rows whose point is not in A(x), checked on decoded raw values."""
        low, high = self.row_bounds(origin)
        single = point[:, : self.n_single]
        # Compared in encoded units: a float32 column keeps large raw values to within less than 1/2
        # but not to within a fixed fraction of 1 (the schema checks that when it encodes).
        own = origin[:, : self.n_single]
        off_grid = ((self.snap(origin, single) - single).abs() > 1e-5) & (single != own)
        changed = self.changed(origin, point)
        bad = (single < low).any(1) | (single > high).any(1) | off_grid.any(1)
        bad |= ~point.isfinite().all(1)
        bad |= (changed & self.immutable).any(1)
        bad |= changed.sum(1) > self.max_features
        for feature in self.schema.features[self.n_single :]:
            block = point[:, feature.start : feature.stop]
            moved = (block != origin[:, feature.start : feature.stop]).any(1)
            one_hot = ((block == 0) | (block == 1)).all(1) & (block.sum(1) == 1)
            bad |= moved & ~one_hot
        return bad

    def quality(self, origin: Tensor, point: Tensor) -> dict[str, Tensor]:
        """Nothing: a feature's change is its own measure."""
        return {}


def _walls(columns: Tensor) -> Tensor:
    """Infinity at marked columns (n,) bool, elsewhere its opposite."""
    return torch.where(columns, torch.inf, -torch.inf)
