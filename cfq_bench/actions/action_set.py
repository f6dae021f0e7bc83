"""The action set A(x) of a table (paper, A.2 and A.4).

A(x) = points u with u_j = x_j for immutable features, bounds, one-hot groups, directions, integers
and ordinals on their grid, and at most k changed *features*. The paper masks encoded columns; one
column of a one-hot group alone would break the group, so sparsity counts features here.
"""

import hashlib
import json
from collections.abc import Callable

import torch
from torch import Tensor

from cfq_bench.actions.bounds import column_bounds, domain, whole_down, whole_up
from cfq_bench.config.settings import ActionSettings
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.errors import UserError


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
        self.least, self.most = (end.to(device) for end in domain(schema))
        self.grid = schema.grid.to(device) & settings.grid
        self.has_grid = bool(self.grid.any())
        self.weight = torch.ones(schema.width, device=device)
        self.weight[self.n_single :] = 0.5  # a swap touches two columns and costs 1
        self.max_features = min(settings.max_features or len(kinds), len(kinds))
        self._index_groups(device)

    def _index_groups(self, device: torch.device) -> None:
        """Pad the one-hot groups to (G, C) so that all are projected by a few operations.

        Padding points at one extra column behind the last, which `project` fills with -inf.
        """
        groups = self.schema.groups
        size = max((stop - start for start, stop in groups), default=0)
        index = torch.full((len(groups), size), self.schema.width - self.n_single)
        for i, (start, stop) in enumerate(groups):
            index[i, : stop - start] = torch.arange(start, stop) - self.n_single
        self.group_index = index.to(device)
        self.flat_group_index = self.group_index.flatten()
        self.frozen_groups = self.immutable[self.n_single :]
        # Where each one-hot column sits in the flattened (G, C) layout.
        flat = torch.full((self.schema.width - self.n_single + 1,), 0)
        flat[index.flatten()] = torch.arange(index.numel())
        self.column_in_groups = flat[:-1].to(device)

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
        low = torch.minimum(self.low, own)
        high = torch.maximum(self.high, own)
        gamma = self.settings.gamma
        if gamma != 1.0:
            low = torch.minimum(torch.maximum(own - gamma * (own - low), self.least), own)
            high = torch.maximum(torch.minimum(own + gamma * (high - own), self.most), own)
            low, high = self._inward(own, low, high)
        single = slice(0, self.n_single)
        low = torch.where(self.increase[single] | self.immutable[single], own, low)
        high = torch.where(self.decrease[single] | self.immutable[single], own, high)
        return low, high

    def _inward(self, own: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Scaled bounds of grid columns, rounded towards the factual."""
        if not self.has_grid:
            return low, high
        least = self.schema.standardize(whole_up(self.schema.destandardize(low)))
        most = self.schema.standardize(whole_down(self.schema.destandardize(high)))
        low = torch.where(self.grid, torch.minimum(least, own), low)
        return low, torch.where(self.grid, torch.maximum(most, own), high)

    def snap(self, x: Tensor, single: Tensor) -> Tensor:
        """Move single columns (B, N_s) to the nearest whole raw value; the factual stays bitwise.

        Arithmetic is float64, so that the encoded value of a whole number is one float32.
        """
        return self._snap(x[:, : self.n_single], self._whole(x), single)

    def _whole(self, x: Tensor) -> Tensor | None:
        """(B, N_s) whole raw values of the factuals; None where no column has a grid."""
        return self.schema.destandardize(x[:, : self.n_single]).round() if self.has_grid else None

    def _snap(self, own: Tensor, own_whole: Tensor | None, single: Tensor) -> Tensor:
        if own_whole is None:
            return single
        raw = self.schema.destandardize(single).round()
        snapped = torch.where(raw == own_whole, own, self.schema.standardize(raw))
        return torch.where(self.grid, snapped, single)

    def project(self, origin: Tensor, point: Tensor) -> Tensor:
        """Project points onto A(x): immutability, box and grid, categories, sparsity (A.4).

        Args:
            origin: (B, d) factual rows.
            point: (B, d) any finite values.

        Returns:
            (B, d) points in A(x). A category that ties with the factual one does not replace it;
            features that tie in size are kept in column order.
        """
        return self.projector(origin)(point)

    def projector(self, origin: Tensor) -> Callable[[Tensor], Tensor]:
        """`project` for fixed factuals: what depends on them alone is computed once."""
        low, high = self.row_bounds(origin)
        own, own_whole = origin[:, : self.n_single], self._whole(origin)
        own_groups = self._padded(origin, 0.0)

        def project(point: Tensor) -> Tensor:
            free = (
                point[:, : self.n_single] + 0.0
            )  # -0.0 becomes 0.0: one value has one bit pattern
            single = torch.minimum(torch.maximum(free, low), high)
            single = self._snap(own, own_whole, single)
            single = torch.minimum(torch.maximum(single, low), high)
            if not len(self.schema.groups):
                return self._sparsify(origin, single)
            return self._sparsify(
                origin, torch.cat([single, self._categories(own_groups, point)], dim=1)
            )

        return project

    def _padded(self, rows: Tensor, fill: float) -> Tensor:
        """One-hot columns laid out as (B, G, C), padded with `fill`."""
        groups, size = self.group_index.shape
        pad = rows.new_full((len(rows), 1), fill)
        columns = torch.cat([rows[:, self.n_single :], pad], dim=1)
        # index_select of a flat index is ten times faster here than indexing by a matrix.
        return columns.index_select(1, self.flat_group_index).view(len(rows), groups, size)

    def _categories(self, own: Tensor, point: Tensor) -> Tensor:
        """One-hot groups by argmax; the factual group, all-zero ones included, wins ties."""
        score = self._padded(point, -torch.inf)
        best, choice = score.max(dim=2)  # (B, G)
        own_score = torch.where(own > 0, score, 0.0).sum(dim=2)  # 0 for an all-zero group
        keep = (own_score >= best) | self.frozen_groups
        chosen = torch.zeros_like(own).scatter_(2, choice[:, :, None], 1.0)
        groups = torch.where(keep[:, :, None], own, chosen)
        return groups.flatten(1).index_select(1, self.column_in_groups)

    def _sparsify(self, origin: Tensor, point: Tensor) -> Tensor:
        """Keep the k features that moved most, in units of cost; the others return to x."""
        if self.max_features >= len(self.immutable):
            return point
        moved = self.feature_distance(origin, point)  # (B, F)
        order = moved.sort(dim=1, descending=True, stable=True).indices[:, : self.max_features]
        keep = torch.zeros_like(moved, dtype=torch.bool).scatter_(1, order, True)
        return torch.where(keep.index_select(1, self.feature_of_column), point, origin)

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
        whole = self.schema.standardize(self.schema.destandardize(single).round())
        off_grid = ((whole - single).abs() > 1e-5) & (single != origin[:, : self.n_single])
        changed = self.changed(origin, point)
        bad = (single < low).any(1) | (single > high).any(1) | (off_grid & self.grid).any(1)
        bad |= ~point.isfinite().all(1)
        bad |= (changed & self.immutable).any(1)
        bad |= changed.sum(1) > self.max_features
        for feature in self.schema.features[self.n_single :]:
            block = point[:, feature.start : feature.stop]
            moved = (block != origin[:, feature.start : feature.stop]).any(1)
            one_hot = ((block == 0) | (block == 1)).all(1) & (block.sum(1) == 1)
            bad |= moved & ~one_hot
        return bad
