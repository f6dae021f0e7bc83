"""One feature of raw rows before and after an action, in the terms of the action set's YAML."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from cfq_bench.config.actions import ActionSettings, FeatureAction
from cfq_bench.config.settings import FeatureSettings

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]
FLOAT32 = 2.0**-23
"""Twice the relative rounding error of a float32: once for the value and once for a bound."""


@dataclass(frozen=True)
class Numbers:
    """One numeric, integer or ordinal feature of B rows; an ordinal's values are its ranks.

    Attributes:
        about: the feature.
        action: what may be done to it.
        preset: the preset, for percentiles, gamma and the grid.
        before, after: (B,) float64; nan in `after` where an ordinal's category is unknown.
        train: (N,) float64.
        middle: mean of the transformed train values.
    """

    about: FeatureSettings
    action: FeatureAction
    preset: ActionSettings
    before: Floats
    after: Floats
    train: Floats
    middle: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "middle", float(self.transform(self.train).mean()))

    @property
    def step(self) -> float | None:
        """Values are multiples of this; None where any value will do."""
        if self.preset.grid and self.action.step is not None:
            return self.action.step
        return 1.0 if self.about.kind in ("integer", "ordinal") else None

    def transform(self, raw: Floats) -> Floats:
        """Raw values on the scale on which distances are taken."""
        return np.log1p(np.maximum(raw, 0.0)) if self.about.transform == "log1p" else raw

    def tolerance(self, raw: Floats, through: Floats | None = None) -> Floats:
        """How far raw values may come back from their standardized float32 form.

        The float32 (t - mean) / scale of t is off by a share FLOAT32 / 2 of itself, so t by that
        share of |t - mean|; log1p columns are stretched by 1 + raw on the way back. Whole numbers
        of 1,700,000 are kept to 0.2, those of 100 to 0.00002. The last term covers float64.

        Args:
            raw: (B,) values.
            through: (B,) values from which `raw` was computed in a few float32 steps.
        """
        size = np.abs(self.transform(raw) - self.middle)
        if through is not None:
            size = 2.0 * (size + np.abs(self.transform(through) - self.middle))
        stretch = 1.0 + np.abs(raw) if self.about.transform == "log1p" else 1.0
        return FLOAT32 * size * stretch + 1e-9 * (1.0 + np.abs(raw))

    @property
    def changed(self) -> Mask:
        """(B,) bool."""
        return ~(np.abs(self.after - self.before) <= self.tolerance(self.before))

    @property
    def distance(self) -> Floats:
        """(B,) in train standard deviations of the transformed values.

        Where a column is constant, its range takes their place, and else 1.
        """
        values = self.transform(self.train)
        scale = float(values.std())
        if scale < 1e-8 * max(1.0, float(np.abs(values).max())):
            scale = float(np.ptp(values)) or 1.0
        return np.abs(self.transform(self.after) - self.transform(self.before)) / scale

    def reach(self) -> tuple[Floats, Floats]:
        """Ends (B,) of the interval: absolute or percentile, widened to the factual, times gamma.

        Gamma scales on the transformed values (Table 25), never beyond what the feature can be.
        """
        least, most = self._ends()
        low: Floats = np.minimum(least, self.before)
        high: Floats = np.maximum(most, self.before)
        if self.preset.gamma == 1.0:
            return low, high
        own = self.transform(self.before)
        back = np.expm1 if self.about.transform == "log1p" else np.asarray
        bottom, top = self._domain(least)
        gamma = self.preset.gamma
        low = np.maximum(back(own - gamma * (own - self.transform(low))), bottom)
        high = np.minimum(back(own + gamma * (self.transform(high) - own)), top)
        return np.minimum(low, self.before), np.maximum(high, self.before)

    def _ends(self) -> tuple[float, float]:
        """The same for all rows; a feature with a step has the multiples between them."""
        bounds, action = self.preset.bounds, self.action
        low = self._end(action.low, action.low_percentile, bounds.low)
        high = self._end(action.high, action.high_percentile, bounds.high)
        if self.about.order is not None:
            low, high = max(low, 0.0), min(high, len(self.about.order) - 1.0)
        if self.step is not None:
            ends = np.array([low, high])
            slack = self.tolerance(ends)
            low = self.step * float(np.ceil((low - slack[0]) / self.step))
            high = self.step * float(np.floor((high + slack[1]) / self.step))
        return low, high

    def _end(self, raw: float | None, own_share: float | None, preset_share: float) -> float:
        if raw is not None:
            return raw
        return float(np.quantile(self.train, preset_share if own_share is None else own_share))

    def _domain(self, low: float) -> tuple[float, float]:
        """What gamma cannot go beyond: ranks, and 0 for what no train row has less of."""
        if self.about.order is not None:
            return 0.0, len(self.about.order) - 1.0
        positive = self.about.transform == "log1p" or bool((self.train >= 0.0).all())
        return (min(0.0, low) if positive else -np.inf), np.inf


@dataclass(frozen=True)
class Categories:
    """One categorical feature of B rows.

    Attributes:
        action: what may be done to it.
        before, after: (B,) text; None where missing.
        known: its categories.
    """

    action: FeatureAction
    before: Texts
    after: Texts
    known: frozenset[str]

    @property
    def changed(self) -> Mask:
        """(B,) bool; to the encoding, an unknown category is a missing one."""
        pairs = zip(self.before, self._seen(), self.after, strict=True)
        return np.array([after not in (own, seen) for own, seen, after in pairs], dtype=bool)

    @property
    def distance(self) -> Floats:
        """(B,) 1 for a swap, 1/2 where one of both is no known category."""
        of_none = np.array([own is None for own in self._seen()], dtype=bool)
        of_none |= np.array([value is None for value in self.after], dtype=bool)
        return np.where(self.changed, np.where(of_none, 0.5, 1.0), 0.0)

    def _seen(self) -> list[str | None]:
        return [own if own in self.known else None for own in self.before]


def column_of(
    before: pd.Series,
    after: pd.Series,
    train: pd.Series,
    about: FeatureSettings,
    actions: ActionSettings,
) -> Numbers | Categories:
    """One feature (columns of the same name) of rows before and after, and of the train rows."""
    action = actions.features[str(train.name)]
    if about.kind == "categorical":
        documented = isinstance(train.dtype, pd.CategoricalDtype)
        values = train.cat.categories if documented else train.unique()
        known = frozenset(str(value) for value in values)
        return Categories(action, _texts(before), _texts(after), known)
    numbers = [_numbers(column, about) for column in (before, after, train)]
    return Numbers(about, action, actions, *numbers)


def _numbers(column: pd.Series, about: FeatureSettings) -> Floats:
    if about.order is None:
        return pd.to_numeric(column).to_numpy(dtype=np.float64)
    ranks = {name: float(rank) for rank, name in enumerate(about.order)}
    # A rank between two categories, which only a fault can give, comes as the number itself.
    values = [value if isinstance(value, float) else ranks.get(str(value)) for value in column]
    return np.array(values, dtype=np.float64)


def _texts(column: pd.Series) -> Texts:
    empty = column.isna().to_numpy()
    texts = [None if none else str(value) for none, value in zip(empty, column, strict=True)]
    return np.array(texts, dtype=object)


def text_of(value: object) -> str:
    """A value as a message shows it."""
    return f"{value:.10g}" if isinstance(value, float) else str(value)
