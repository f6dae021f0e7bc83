"""How far each single column may go: absolute raw bounds, or percentiles of the train rows."""

import torch
from torch import Tensor

from cfq_bench.actions.grid import level_down, level_up, step_of
from cfq_bench.config.actions import ActionSettings, FeatureAction
from cfq_bench.data.schema import Feature, FeatureSchema
from cfq_bench.errors import UserError


def column_bounds(
    schema: FeatureSchema, settings: ActionSettings, train_x: Tensor
) -> tuple[Tensor, Tensor]:
    """Encoded bounds (N_s,) float32 of the single columns, on the device of `train_x`.

    Bounds are rounded inwards to the lattice: whole raw values, or multiples of a feature's step.

    Raises:
        UserError: a lower bound above the upper one; names the feature.
    """
    if schema.n_single == 0:  # quantile refuses a table without single columns
        return train_x.new_zeros(0), train_x.new_zeros(0)
    raw = schema.destandardize(train_x[:, : schema.n_single].cpu())
    ends = []
    # Column by column: torch refuses to take quantiles of more than 16 million values at once.
    for feature, values in zip(schema.features, raw.unbind(1), strict=False):
        low, high = _ends(settings.features[feature.name], settings, values)
        ends.append(_inward(feature, low, high, settings))
    least, most = torch.tensor(ends, dtype=torch.float64).unbind(1)
    return schema.standardize(least).to(train_x.device), schema.standardize(most).to(train_x.device)


def _ends(action: FeatureAction, settings: ActionSettings, values: Tensor) -> tuple[float, float]:
    """Raw bounds of one feature: its own, or percentiles of its train values (N,)."""
    low, high = action.low, action.high
    if low is None:
        share = action.low_percentile
        low = float(values.quantile(settings.bounds.low if share is None else share))
    if high is None:
        share = action.high_percentile
        high = float(values.quantile(settings.bounds.high if share is None else share))
    return low, high


def domain(schema: FeatureSchema, train_x: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
    """Encoded ends (N_s,) float32 of what raw values can be; gamma > 1 widens no bound beyond them.

    An ordinal's ranks; 0 upwards for log1p columns, and for columns that are never negative in the
    train rows, unless their own lower bound is.

    Args:
        schema: the encoding.
        train_x: (N, d) encoded train rows.
        low: (N_s,) encoded lower bounds.
    """
    singles = schema.features[: schema.n_single]
    zero = schema.standardize(torch.zeros(len(singles), dtype=torch.float64)).to(low.device)
    positive = (train_x[:, : schema.n_single] >= zero).all(0) | schema.units.log.to(low.device)
    least = torch.where(positive, torch.minimum(zero, low), -torch.inf)
    ranks = [len(f.categories) - 1.0 if f.kind == "ordinal" else torch.inf for f in singles]
    most = schema.standardize(torch.tensor(ranks, dtype=torch.float64))
    return least, most.to(low.device)


def _inward(
    feature: Feature, low: float, high: float, settings: ActionSettings
) -> tuple[float, float]:
    if feature.kind == "ordinal":
        low, high = max(low, 0.0), min(high, len(feature.categories) - 1.0)
    step = step_of(feature, settings)
    if step is not None:
        levels = torch.tensor([low, high], dtype=torch.float64) / step
        low, high = float(level_up(levels)[0]) * step, float(level_down(levels)[1]) * step
    if low > high:
        raise UserError(
            f"actions {settings.name!r}: feature {feature.name!r} has its low bound {low:g} above "
            f"its high bound {high:g}" + ("" if step in (None, 1.0) else f" in steps of {step:g}")
        )
    return low, high
