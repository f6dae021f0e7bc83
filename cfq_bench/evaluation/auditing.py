"""Do changes of raw rows obey an action set's YAML? Checked in raw units, from the text alone.

Nothing here uses `ActionSet` or encoded rows: a fault in encoding, projection or their own final
check shows here. A rule is one small function; it stands in `NUMBER_RULES` or `CATEGORY_RULES`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter

import numpy as np
import pandas as pd

from cfq_bench.config.actions import ActionSettings
from cfq_bench.config.settings import FeatureSettings
from cfq_bench.evaluation.audit_columns import (
    Categories,
    Floats,
    Mask,
    Numbers,
    column_of,
    text_of,
)

COLUMNS = ("row", "feature", "rule", "value", "allowed")
Line = tuple[int, str, str, str, str]
"""A violation, as in COLUMNS."""
Told = Callable[[int], str]
"""Something about a row, by its position, as text: made for rows that break a rule only."""
Finding = tuple[Mask, Told]
"""Which rows break a rule (B,), and what they may be instead."""


def raw_violations(
    before: pd.DataFrame,
    after: pd.DataFrame,
    train: pd.DataFrame,
    features: Mapping[str, FeatureSettings],
    actions: ActionSettings,
) -> pd.DataFrame:
    """Every way in which rows `after` break the action set, one line each; empty where none do.

    Args:
        before: (B, F) factual raw rows.
        after: (B, F) raw rows that the actions lead to, in the same order.
        train: raw train rows, for percentile bounds and known categories.
        features: kinds, transforms and orders of the columns.
        actions: the preset.

    Returns:
        ``row`` (position), ``feature`` (empty for rules on a whole row), ``rule``, ``value`` and
        ``allowed`` (text).
    """
    found: list[Line] = []
    changed = np.zeros(len(before), dtype=np.int64)
    for name, about in features.items():
        column = column_of(before[name], after[name], train[name], about, actions)
        changed += column.changed
        told = partial(_cell, after[name])
        for rule, (bad, allowed) in _findings(column).items():
            found += lines(bad, name, rule, told, allowed)
    most = actions.max_features
    if most is not None:
        told = partial(_cell, pd.Series(changed))
        found += lines(changed > most, "", "max_features", told, lambda _: f"at most {most}")
    return table_of(found)


def cost_of(
    before: pd.DataFrame,
    after: pd.DataFrame,
    train: pd.DataFrame,
    features: Mapping[str, FeatureSettings],
    actions: ActionSettings,
) -> Floats:
    """Costs (B,) of the changes: train standard deviations, and 1 for a category swap.

    A category that replaces a missing or unknown one touches one encoded column and costs 1/2.
    """
    moved = [
        column_of(before[name], after[name], train[name], about, actions).distance
        for name, about in features.items()
    ]
    distance = np.stack(moved, axis=1)  # (B, F)
    l1: Floats = distance.sum(axis=1)
    l2: Floats = np.sqrt(np.square(distance).sum(axis=1))
    return {"weighted_l1": l1, "weighted_l2": l2, "mixed": 0.5 * (l1 + l2)}[actions.cost]


def lines(bad: Mask, feature: str, rule: str, value: Told, allowed: Told) -> list[Line]:
    """One line for each bad row."""
    return [(i, feature, rule, value(i), allowed(i)) for i in np.flatnonzero(bad).tolist()]


def table_of(found: list[Line]) -> pd.DataFrame:
    """Lines in order of rows."""
    in_order = sorted(found, key=itemgetter(0))
    return pd.DataFrame(in_order, columns=list(COLUMNS))


def immutable(column: Numbers | Categories) -> Finding:
    """What is immutable stays."""
    bad = column.changed & (column.action.kind == "immutable")
    return bad, lambda i: f"{text_of(column.before[i])} (immutable)"


def finite(column: Numbers) -> Finding:
    """A number is finite, an ordinal one of its categories."""
    order = column.about.order
    expected = "a finite number" if order is None else f"one of {', '.join(order)}"
    return ~np.isfinite(column.after), lambda _: expected


def direction(column: Numbers) -> Finding:
    """increase_only never falls, decrease_only never rises."""
    moved = column.after - column.before
    slack = column.tolerance(column.before)
    kind = column.action.kind
    bad = (moved < -slack) & (kind == "increase_only")
    bad |= (moved > slack) & (kind == "decrease_only")
    return bad, lambda i: f"{kind} from {text_of(column.before[i])}"


def bounds(column: Numbers) -> Finding:
    """Values stay within reach."""
    low, high = column.reach()
    through = None if column.preset.gamma == 1.0 else column.before
    bad = column.after < low - column.tolerance(low, through)
    bad |= column.after > high + column.tolerance(high, through)
    return bad, lambda i: f"{text_of(low[i])} to {text_of(high[i])}"


def step(column: Numbers) -> Finding:
    """Integers and ranks are whole, and others multiples of their step, or the factual value."""
    size = column.step if column.preset.grid else None
    if size is None:
        return np.zeros(len(column.after), dtype=bool), str
    with np.errstate(invalid="ignore"):  # infinities are another rule's
        off = np.abs(column.after - size * np.round(column.after / size))
        bad = off > column.tolerance(column.after)
    expected = "a whole number" if size == 1.0 else f"a multiple of {text_of(size)}"
    return bad & column.changed, lambda _: expected


def category(column: Categories) -> Finding:
    """A new category is one of the known."""
    known = np.array([value in column.known for value in column.after], dtype=bool)
    return column.changed & ~known, lambda _: f"one of {', '.join(sorted(column.known))}"


NUMBER_RULES = (immutable, finite, direction, bounds, step)
CATEGORY_RULES = (immutable, category)


def _findings(column: Numbers | Categories) -> dict[str, Finding]:
    if isinstance(column, Numbers):
        return {rule.__name__: rule(column) for rule in NUMBER_RULES}
    return {rule.__name__: rule(column) for rule in CATEGORY_RULES}


def _cell(values: pd.Series, row: int) -> str:
    return text_of(values.iloc[row])
