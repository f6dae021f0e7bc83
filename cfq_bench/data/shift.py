"""Test rows from another distribution (paper, Table 26): training never sees them.

The paper states kinds of shift, not their strength, and "continuous actionable features" for the
noise. Here: numeric and integer features that are not immutable; labels stay. Reweighting and
imbalance thin out the other rows instead of drawing with replacement, so that nobody counts twice.
"""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from cfq_bench.config.settings import Settings
from cfq_bench.data.dataset import Dataset, Split, TabularData, fingerprint
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.errors import UserError
from cfq_bench.seeds import derive_seed

AnyData = TypeVar("AnyData", bound=Dataset)


def shifted(data: AnyData, settings: Settings) -> tuple[AnyData, dict[str, Any]]:
    """The same data with another test split, the same for every method of a seed.

    Args:
        data: the splits; noise is for tables alone.
        settings: of the run; `evaluation.shift` says which shift.

    Returns:
        The data, with a fingerprint of their own, and for the record: kind, test rows, and where
        rows were thinned out the group and its share before and after.

    Raises:
        UserError: reweighting without two groups.
    """
    kind = settings.evaluation.shift
    told: dict[str, Any] = {"kind": kind, "rows": len(data.test)}
    if kind == "none":
        return data, told
    if kind == "noise":
        x = _noisy(_as_table(data), settings)
        return _with_test(data, x, np.arange(len(data.test))), told
    if kind == "reweight":
        attribute, group = _rarest(data, settings)
        chosen = (data.test_groups[attribute] == group).to_numpy()
        told |= {"attribute": attribute, "group": group}
    else:
        chosen = (data.test.y == 0).cpu().numpy()
        told |= {"attribute": settings.data.target.column, "group": "unfavourable"}
    rng = np.random.default_rng(derive_seed(settings.seed, "shift", kind))
    kept = thinned(chosen, settings.evaluation.shift_odds, rng)
    told |= {"rows": len(kept), "share_before": chosen.mean(), "share_after": chosen[kept].mean()}
    return _with_test(data, data.test.x, kept), told


def thinned(chosen: np.ndarray, odds: float, rng: np.random.Generator) -> np.ndarray:
    """Rows that remain when others are left out until the odds of the chosen are `odds` times.

    Args:
        chosen: (N,) bool.
        odds: ratio of the odds after and before; above 1 the others are thinned out, below 1 the
            chosen; 1 keeps all.
        rng: decides which rows go.

    Returns:
        Positions, ascending; at least one row of either side.

    >>> kept = thinned(np.array([True, False, False, False, False]), 4.0, np.random.default_rng(0))
    >>> len(kept), bool(0 in kept)
    (2, True)
    """
    whole, thin = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    if odds < 1.0:
        whole, thin, odds = thin, whole, 1.0 / odds
    most = max(1, round(len(thin) / odds))
    return np.sort(np.concatenate([whole, rng.permutation(thin)[:most]]))


def _as_table(data: Dataset) -> TabularData:
    if not isinstance(data, TabularData):
        raise TypeError("settings refuse noise on images")
    return data


def _with_test(data: AnyData, x: Tensor, kept: np.ndarray) -> AnyData:
    rows = torch.from_numpy(kept).to(x.device)
    test = Split(x[rows], data.test.y[rows], data.test.row_ids[kept])
    groups = data.test_groups.iloc[kept].reset_index(drop=True)
    splits = (data.train, data.validation, test)
    return replace(data, test=test, test_groups=groups, fingerprint=fingerprint(splits))


def _rarest(data: Dataset, settings: Settings) -> tuple[str, str]:
    """The attribute to reweight, and its rarest group that is large enough to be reported."""
    attribute = settings.evaluation.shift_attribute or settings.data.protected[0]
    sizes = data.test_groups[attribute].value_counts()
    large = sizes[sizes >= settings.evaluation.group_min_rows].sort_index()
    if len(large) < 2:
        raise UserError(
            f"evaluation.shift=reweight: {attribute!r} has {len(large)} groups of at least "
            f"{settings.evaluation.group_min_rows} test rows, expected two: name another "
            "protected attribute in evaluation.shift_attribute, or lower evaluation.group_min_rows"
        )
    return attribute, str(large.idxmin())


def _noisy(data: TabularData, settings: Settings) -> Tensor:
    """Test rows (N, d) plus Gaussian noise, then back to whole numbers and to the train range."""
    schema, x = data.schema, data.test.x
    _, actions = settings.table()
    count = schema.n_single
    generator = torch.Generator().manual_seed(derive_seed(settings.seed, "shift", "noise"))
    noise = torch.randn(len(x), count, generator=generator).to(x.device)
    free = torch.tensor(
        [
            f.kind in ("numeric", "integer") and actions.features[f.name].kind != "immutable"
            for f in schema.features[:count]
        ],
        device=x.device,
    )
    own = x[:, :count]
    moved = own + settings.evaluation.shift_noise * noise
    low, high = data.train.x[:, :count].amin(0), data.train.x[:, :count].amax(0)
    # Rows outside the train range stay reachable: noise pulls nobody in.
    moved = torch.minimum(torch.maximum(moved, torch.minimum(low, own)), torch.maximum(high, own))
    moved = torch.where(free, _whole(schema, own, moved), own)
    return torch.cat([moved, x[:, count:]], dim=1)


def _whole(schema: FeatureSchema, own: Tensor, moved: Tensor) -> Tensor:
    """Whole raw values where the feature has them; a value that comes back is bitwise its own."""
    raw = schema.destandardize(moved).round()
    snapped = torch.where(raw == schema.destandardize(own).round(), own, schema.standardize(raw))
    return torch.where(schema.grid.to(own.device), snapped, moved)
