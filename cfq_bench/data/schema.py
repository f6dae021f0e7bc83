"""FeatureSchema: raw rows to encoded rows and back, exactly.

Encoded rows have the single-column features first (numeric, integer and ordinal, standardized on
the train split), then one one-hot group per categorical feature. d is the width, N_s the number of
single-column features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cfq_bench.config.settings import FeatureKind, FeatureSettings
from cfq_bench.data.words import named, shown
from cfq_bench.errors import UserError, some


@dataclass(frozen=True)
class Feature:
    """One feature and the encoded columns that it owns."""

    name: str
    kind: FeatureKind
    unit: str
    start: int
    stop: int
    categories: tuple[str, ...] = ()
    """Ordinal: lowest to highest; categorical: in column order."""
    mean: float = 0.0
    scale: float = 1.0
    """Mean and scale of the transformed train values (single-column features)."""
    scale_source: str = "std"
    """std, or what replaced it where the column is (nearly) constant: range, one."""
    log1p: bool = False

    @property
    def single(self) -> bool:
        """Whether the feature is one standardized column."""
        return self.kind != "categorical"

    @property
    def on_grid(self) -> bool:
        """Whether raw values are whole numbers (an ordinal's are its ranks)."""
        return self.kind in ("integer", "ordinal")


class Units:
    """Raw values of n single columns to standardized ones, and back.

    Args:
        mean: (n,) float64, of transformed raw values.
        scale: (n,) float64, of transformed raw values.
        log: (n,) bool, which columns are log1p-transformed.
    """

    def __init__(self, mean: Tensor, scale: Tensor, log: Tensor) -> None:
        self.mean, self.scale, self.log = mean, scale, log
        self.has_log, self.all_log = bool(log.any()), bool(log.all())
        self._logs: list[int] = log.nonzero()[:, 0].tolist()

    def take(self, columns: Tensor) -> "Units":
        """Those of some columns (m,) int64, on the device of `columns`."""
        own = (each.to(columns.device) for each in (self.mean, self.scale, self.log))
        return Units(*(each[columns] for each in own))

    def standardize(self, raw: Tensor) -> Tensor:
        """Raw values (..., n) float64 to encoded (..., n) float32, never -0.0.

        Here and below, values (m,) of one column (n = 1) are as good as (m, 1).
        """
        value = raw
        if self.all_log:
            value = raw.clamp_min(0.0).log1p()
        elif self.has_log:
            value = raw.clone()
            for j in self._logs:  # of every column, logarithms would cost more than all the rest
                value[..., j] = raw[..., j].clamp_min(0.0).log1p()
        centred = value - self.mean.to(raw.device)
        return centred.div_(self.scale.to(raw.device)).float().add_(0.0)

    def destandardize(self, z: Tensor) -> Tensor:
        """Encoded values (..., n) to raw (..., n) float64, not yet rounded."""
        value = (z.double() * self.scale.to(z.device)).add_(self.mean.to(z.device))
        if self.all_log:
            return value.expm1()
        for j in self._logs:
            value[..., j] = value[..., j].expm1()
        return value


class FeatureSchema:
    """Encodes and decodes rows; fitted on the train split only.

    Attributes:
        features: the features in column order, single-column ones first.
        n_single: N_s, the number of single-column features.
        width: d.
        groups: (start, stop) of each one-hot group, in column order.
        feature_of_column: (d,) int64, index into `features`.
        units: of the single columns.
        grid: (N_s,) bool, which raw values are whole numbers.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self.features = tuple(features)
        singles = [feature for feature in self.features if feature.single]
        self.n_single = len(singles)
        self.width = self.features[-1].stop
        self.groups = [(f.start, f.stop) for f in self.features if not f.single]
        index = [i for i, f in enumerate(self.features) for _ in range(f.start, f.stop)]
        self.feature_of_column = torch.tensor(index)
        self.units = Units(
            torch.tensor([f.mean for f in singles], dtype=torch.float64),
            torch.tensor([f.scale for f in singles], dtype=torch.float64),
            torch.tensor([f.log1p for f in singles], dtype=torch.bool),
        )
        self.grid = torch.tensor([f.on_grid for f in singles], dtype=torch.bool)

    @classmethod
    def fit(cls, frame: pd.DataFrame, settings: dict[str, FeatureSettings]) -> "FeatureSchema":
        """Fit on the train rows.

        Columns are in order of the features' names: the order of a mapping is no part of a run's
        identity, and a record that is read back must give the same columns.
        """
        features: list[Feature] = []
        column = 0
        singles = [name for name, s in sorted(settings.items()) if s.kind != "categorical"]
        for name in singles:
            features.append(_fit_single(frame[name], name, settings[name], column))
            column += 1
        for name, s in sorted(settings.items()):
            if s.kind == "categorical":
                categories = _categories(frame[name])
                stop = column + len(categories)
                features.append(Feature(name, s.kind, s.unit, column, stop, categories))
                column = stop
        return cls(features)

    def encode(
        self,
        frame: pd.DataFrame,
        source: str = "the data",
        unseen: Literal["refuse", "ignore"] = "refuse",
    ) -> Tensor:
        """Encode raw rows.

        Args:
            frame: has a column per feature.
            source: what an error calls the rows' origin.
            unseen: what to do about a category that the schema does not have: raise, or encode
                its group as all zero.

        Returns:
            (B, d) float32.

        Raises:
            UserError: a category that the schema does not have, or a number that a standardized
                float32 cannot keep; names column and row.
        """
        raw = torch.from_numpy(self._raw_singles(frame))
        single = self.standardize(raw)
        self._check_kept(frame, raw, single, source)
        one_hot = np.zeros((len(frame), self.width - self.n_single), dtype=np.float32)
        for feature in self.features[self.n_single :]:
            codes = _codes(frame[feature.name], feature)
            known = codes >= 0
            if unseen == "refuse" and not known.all():
                raise _unknown(frame[feature.name], int(known.argmin()), feature, source)
            columns = feature.start - self.n_single + codes
            one_hot[np.flatnonzero(known), columns[known]] = 1.0
        return torch.cat([single, torch.from_numpy(one_hot)], dim=1)

    def decode(self, x: Tensor) -> pd.DataFrame:
        """Decode encoded rows (B, d) to raw values: whole numbers, category names, floats.

        An all-zero one-hot group decodes to a missing value.
        """
        x = x.detach().cpu()
        raw = self.destandardize(x[:, : self.n_single])
        columns: dict[str, object] = {}
        for j, feature in enumerate(self.features[: self.n_single]):
            values = raw[:, j].numpy()
            if feature.kind == "integer":
                columns[feature.name] = values.round().astype(np.int64)
            elif feature.kind == "ordinal":
                ranks = values.round().astype(np.int64).clip(0, len(feature.categories) - 1)
                columns[feature.name] = [feature.categories[rank] for rank in ranks]
            else:
                columns[feature.name] = values
        for feature in self.features[self.n_single :]:
            block = x[:, feature.start : feature.stop]
            best = block.argmax(dim=1).tolist()
            empty = (block.amax(dim=1) <= 0).tolist()
            columns[feature.name] = [
                None if none else feature.categories[i] for i, none in zip(best, empty, strict=True)
            ]
        return pd.DataFrame(columns)

    def standardize(self, raw: Tensor) -> Tensor:
        """Raw single-column values (B, N_s) float64 to encoded (B, N_s) float32, never -0.0."""
        return self.units.standardize(raw)

    def destandardize(self, z: Tensor) -> Tensor:
        """Encoded single-column values (B, N_s) to raw (B, N_s) float64, not yet rounded."""
        return self.units.destandardize(z)

    def _raw_singles(self, frame: pd.DataFrame) -> np.ndarray:
        raw = np.empty((len(frame), self.n_single), dtype=np.float64)
        for j, feature in enumerate(self.features[: self.n_single]):
            raw[:, j] = _raw(frame[feature.name], feature.kind, feature.categories)
        return raw

    def _check_kept(self, frame: pd.DataFrame, raw: Tensor, single: Tensor, source: str) -> None:
        lost = (self.destandardize(single).round() != raw) & self.grid
        lost |= ~single.isfinite()
        if bool(lost.any()):
            row, column = (int(i) for i in lost.nonzero()[0])
            raise UserError(
                f"{source}: column {named(self.features[column].name)}, row {frame.index[row]}: "
                f"the value {raw[row, column]:.16g} is too large to be kept exactly as a "
                "standardized float32: use larger units or kind: numeric"
            )


def _raw(column: pd.Series, kind: FeatureKind, categories: Sequence[str]) -> np.ndarray:
    if kind == "ordinal":
        ranks = {category: rank for rank, category in enumerate(categories)}
        return column.astype(str).map(ranks).to_numpy(dtype=np.float64)
    return pd.to_numeric(column).to_numpy(dtype=np.float64)


def _fit_single(column: pd.Series, name: str, s: FeatureSettings, index: int) -> Feature:
    order = tuple(s.order or ())
    values = _raw(column, s.kind, order)
    if s.transform == "log1p":
        values = np.log1p(values)
    scale, source = float(values.std()), "std"
    if scale < 1e-8 * max(1.0, float(np.abs(values).max())):  # a constant up to rounding
        scale, source = float(np.ptp(values)), "range"
    if scale <= 0.0:
        scale, source = 1.0, "one"
    return Feature(
        name,
        s.kind,
        s.unit,
        index,
        index + 1,
        order,
        float(values.mean()),
        scale,
        source,
        s.transform == "log1p",
    )


def _categories(column: pd.Series) -> tuple[str, ...]:
    """The documented categories where the loader gives them, else those of the train rows."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return tuple(map(str, column.cat.categories))
    return tuple(sorted(map(str, column.unique())))


def _codes(column: pd.Series, feature: Feature) -> np.ndarray:
    """Positions of categories (B,) int64; -1 for one that the schema does not have."""
    known = pd.Index(feature.categories, dtype=object)
    return known.get_indexer(pd.Index(column.astype(str), dtype=object)).astype(np.int64)


def _unknown(column: pd.Series, position: int, feature: Feature, source: str) -> UserError:
    return UserError(
        f"{source}: column {named(feature.name)}, row {column.index[position]}: unknown category "
        f"{named(column.iloc[position])}; known: {some(map(shown, feature.categories))}; "
        "data.unseen=ignore encodes it as none of them"
    )
