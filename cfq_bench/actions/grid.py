"""Lattices of raw values: whole numbers, or multiples of a step that the action set names.

Arithmetic is float64 in raw units, also for log1p columns, so that the encoded value of a lattice
value is one float32.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from cfq_bench.config.actions import ActionSettings
from cfq_bench.data.schema import Feature, FeatureSchema, Units
from cfq_bench.errors import UserError

_SAME = 1e-6
"""Encoded values this close, relative to their size, are one raw value."""
_LEAST_GAP = 1e-4
"""Standard deviations between neighbours below which a float32 cannot hold a lattice reliably."""


class Grid:
    """The lattice {n * step} of each of n columns, in raw units.

    Args:
        units: of the columns.
        step: (n,) float64, greater than 0.
        native: (n,) bool, columns whose factuals all lie on their lattice: whole numbers, step 1.
    """

    def __init__(self, units: Units, step: Tensor, native: Tensor) -> None:
        self.units, self.step, self.native = units, step, native
        self.all_native = bool(native.all())

    def take(self, columns: Tensor) -> "Grid":
        """The lattices of some columns (m,) int64."""
        step, native = (each.to(columns.device)[columns] for each in (self.step, self.native))
        return Grid(self.units.take(columns), step, native)

    def level(self, z: Tensor) -> Tensor:
        """Encoded values (B, n) as multiples of the step, (B, n) float64, not yet rounded."""
        raw = self.units.destandardize(z)
        return raw if self.all_native else raw / self.step

    def encode(self, level: Tensor) -> Tensor:
        """Whole levels (B, n) float64 as encoded values (B, n) float32."""
        return self.units.standardize(level if self.all_native else level * self.step)

    def holds(self, value: float) -> bool:
        """Whether an encoded value of a single column (n = 1) lies on its lattice."""
        if self.all_native:
            return True
        own = torch.tensor([value])
        nearest = self.encode(self.level(own).round())
        return bool((nearest - own).abs() <= _SAME * own.abs().clamp_min(1.0))

    def between(self, value: float, end: float) -> Tensor:
        """Levels (m,) float64 of a single column beyond one encoded value, up to another.

        Args:
            value: where to start, itself left out.
            end: where to stop, a lattice value.
        """
        start, stop = (float(level) for level in self.level(torch.tensor([[value], [end]])))
        sign = 1.0 if end > value else -1.0
        if self.holds(value):
            first = round(start) + sign
        else:
            first = math.ceil(start) if sign > 0 else math.floor(start)
        count = max(0, round(sign * (stop - first)) + 1)
        return first + sign * torch.arange(count, dtype=torch.float64)

    def snapper(self, own: Tensor) -> Callable[[Tensor], Tensor]:
        """What moves encoded values (B, n) to the nearest lattice value, or to the factual's.

        A factual (B, n) off the lattice is one more reachable value; one on it stays bitwise.
        """
        exact = self.level(own)
        own_level = exact.round()
        if self.all_native:
            return lambda values: self._nearest(own, own_level, values)
        same = _SAME * own.abs().clamp_min(1.0)
        on = self.native | ((self.encode(own_level) - own).abs() <= same)
        if bool(on.all()):
            return lambda values: self._nearest(own, own_level, values)
        own_level = torch.where(on, own_level, torch.nan)  # equals no level

        def snap(values: Tensor) -> Tensor:
            level = self.level(values)
            nearer = ~on & ((level - exact).abs() <= (level - level.round()).abs())
            return torch.where(nearer, own, self._nearest(own, own_level, values))

        return snap

    def _nearest(self, own: Tensor, own_level: Tensor, values: Tensor) -> Tensor:
        level = self.level(values).round()
        return torch.where(level == own_level, own, self.encode(level))

    def up(self, low: Tensor) -> Tensor:
        """Encoded bounds (B, n) up to the lattice."""
        return self.encode(level_up(self.level(low)))

    def down(self, high: Tensor) -> Tensor:
        """Encoded bounds (B, n) down to the lattice."""
        return self.encode(level_down(self.level(high)))


def step_of(feature: Feature, settings: ActionSettings) -> float | None:
    """The step that a single column's bounds are rounded to; None for any value."""
    step = settings.features[feature.name].step
    if step is not None and settings.grid:
        return step
    return 1.0 if feature.on_grid else None


def level_up(level: Tensor) -> Tensor:
    """Least whole levels that are not below the given (float64), up to float32 decoding error."""
    return (level - _decoding_error(level)).ceil()


def level_down(level: Tensor) -> Tensor:
    """Greatest whole levels that are not above the given, up to float32 decoding error."""
    return (level + _decoding_error(level)).floor()


def _decoding_error(level: Tensor) -> Tensor:
    """Below one half: whole numbers are checked at encoding, other steps by `make_grid`."""
    return (1e-3 + 2e-6 * level.abs()).clamp_max(0.49)


def make_grid(
    schema: FeatureSchema, settings: ActionSettings, train_x: Tensor, high: Tensor
) -> tuple[Tensor, Grid]:
    """Which single columns of an action set lie on a lattice, (N_s,) bool, and the lattices.

    Args:
        schema: the encoding.
        settings: the preset.
        train_x: (N, d) encoded train rows.
        high: (N_s,) encoded upper bounds.

    Raises:
        UserError: a step that a standardized float32 would blur; names the feature.
    """
    singles = schema.features[: schema.n_single]
    steps = [step_of(feature, settings) if settings.grid else None for feature in singles]
    on = torch.tensor([step is not None for step in steps], dtype=torch.bool)
    step = torch.tensor([step or 1.0 for step in steps], dtype=torch.float64)
    native = schema.grid & (step == 1.0)
    if bool((on & ~native).any()):
        top = torch.maximum(high, train_x[:, : schema.n_single].amax(0)).cpu()
        _refuse_fine_steps(schema, settings, torch.where(on & ~native, step, torch.inf), top)
    columns = on.to(train_x.device).nonzero()[:, 0]
    return on.to(train_x.device), Grid(schema.units, step, native).take(columns)


def _refuse_fine_steps(
    schema: FeatureSchema, settings: ActionSettings, step: Tensor, top: Tensor
) -> None:
    """Steps (N_s,) at the greatest encoded values (N_s,): the narrowest place of a log1p column."""
    most = schema.destandardize(top)
    gaps = top - schema.standardize(most - step)
    for feature, gap in zip(schema.features, gaps.tolist(), strict=False):
        if gap < _LEAST_GAP:
            raise UserError(
                f"actions {settings.name!r}: feature {feature.name!r} has step "
                f"{settings.features[feature.name].step:g}, only {gap:.1g} of its standard "
                "deviation: too fine to be kept as a standardized float32, use a larger step"
            )
