"""How far each single column may go: absolute raw bounds, or percentiles of the train rows."""

import torch
from torch import Tensor

from cfq_bench.config.settings import ActionSettings
from cfq_bench.data.schema import Feature, FeatureSchema
from cfq_bench.errors import UserError


def column_bounds(
    schema: FeatureSchema, settings: ActionSettings, train_x: Tensor
) -> tuple[Tensor, Tensor]:
    """Encoded bounds (N_s,) float32 of the single columns, on the device of `train_x`.

    Bounds of integers and ordinals are rounded inwards to whole raw values.

    Raises:
        UserError: a lower bound above the upper one; names the feature.
    """
    if schema.n_single == 0:  # quantile refuses a table without single columns
        return train_x.new_zeros(0), train_x.new_zeros(0)
    raw = schema.destandardize(train_x[:, : schema.n_single].cpu())
    # Column by column: torch refuses to take quantiles of more than 16 million values at once.
    least = torch.stack([column.quantile(settings.bounds.low) for column in raw.unbind(1)])
    most = torch.stack([column.quantile(settings.bounds.high) for column in raw.unbind(1)])
    for j, feature in enumerate(schema.features[: schema.n_single]):
        action = settings.features[feature.name]
        if action.low is not None:
            least[j] = action.low
        if action.high is not None:
            most[j] = action.high
        least[j], most[j] = _inward(feature, float(least[j]), float(most[j]), settings)
    return schema.standardize(least).to(train_x.device), schema.standardize(most).to(train_x.device)


def domain(schema: FeatureSchema) -> tuple[Tensor, Tensor]:
    """Encoded ends (N_s,) float32 of what raw values can be, on the CPU.

    An ordinal's ranks, and 0 upwards for log1p columns; no bound widens beyond them.
    """
    least = torch.full((schema.n_single,), -torch.inf, dtype=torch.float64)
    most = torch.full((schema.n_single,), torch.inf, dtype=torch.float64)
    for j, feature in enumerate(schema.features[: schema.n_single]):
        if feature.kind == "ordinal":
            least[j], most[j] = 0.0, len(feature.categories) - 1.0
        elif feature.log1p:
            least[j] = 0.0
    return schema.standardize(least), schema.standardize(most)


def whole_up(raw: Tensor) -> Tensor:
    """Least whole numbers that are not below raw values (float64), up to float32 decoding error."""
    return (raw - _decoding_error(raw)).ceil()


def whole_down(raw: Tensor) -> Tensor:
    """Greatest whole numbers that are not above raw values, up to float32 decoding error."""
    return (raw + _decoding_error(raw)).floor()


def _decoding_error(raw: Tensor) -> Tensor:
    """Below one half: the schema checks at encoding that whole numbers come back."""
    return (1e-3 + 2e-6 * raw.abs()).clamp_max(0.49)


def _inward(
    feature: Feature, low: float, high: float, settings: ActionSettings
) -> tuple[float, float]:
    if feature.kind == "ordinal":
        low, high = max(low, 0.0), min(high, len(feature.categories) - 1.0)
    if feature.on_grid:
        bounds = torch.tensor([low, high], dtype=torch.float64)
        low, high = float(whole_up(bounds)[0]), float(whole_down(bounds)[1])
    if low > high:
        raise UserError(
            f"actions {settings.name!r}: feature {feature.name!r} has its low bound {low:g} above "
            f"its high bound {high:g}"
        )
    return low, high
