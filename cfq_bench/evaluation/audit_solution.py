"""Is a solver's answer what it says? Encoded rows, margins, costs and statuses, checked again.

Points are decoded without rounding and without argmax, so that nothing invalid is repaired on the
way to the rules of `auditing`.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cfq_bench.actions.outcome import Model, Solution, Status
from cfq_bench.config.actions import ActionSettings
from cfq_bench.config.settings import DataSettings
from cfq_bench.data.schema import Feature, FeatureSchema
from cfq_bench.evaluation.audit_columns import Floats
from cfq_bench.evaluation.auditing import Line, Told, cost_of, lines, raw_violations, table_of

MARGIN_TOLERANCE = 1e-5
"""Logits by which a row alone may differ from the same row in a block: sums in another order."""
COST_RELATIVE, COST_ABSOLUTE = 1e-4, 1e-5
"""The absolute part covers float32 columns, which keep a value of 30 deviations to 2e-6 of one."""


@dataclass(frozen=True)
class Question:
    """What a solver was asked, with the raw rows behind it.

    Attributes:
        model: inputs to logits.
        schema: the encoding, of which only means, scales and the order of columns are used.
        data: kinds of the features.
        actions: the preset.
        train: raw train rows.
        raw: (B, F) raw factual rows.
        x: (B, d) the same rows, encoded.
        target: (B,) int64.
        kappa: margin that an action must exceed.
    """

    model: Model
    schema: FeatureSchema
    data: DataSettings
    actions: ActionSettings
    train: pd.DataFrame
    raw: pd.DataFrame
    x: Tensor
    target: Tensor
    kappa: float


def solution_violations(asked: Question, solution: Solution) -> pd.DataFrame:
    """Everything that is wrong with the answers, in the columns of `raw_violations`."""
    found = solution.status == int(Status.FOUND)
    rows = found.nonzero()[:, 0]
    before, after = asked.x[rows], solution.point[rows]
    raw = asked.raw.iloc[rows.numpy()].reset_index(drop=True)
    decoded = decode_as_is(asked.schema, after)
    features, actions = asked.data.features, asked.actions
    cost = cost_of(raw, decoded, asked.train, features, actions)
    broken = pd.concat(
        [
            raw_violations(raw, decoded, asked.train, features, actions),
            encoded_violations(asked.schema, actions, before, after),
            table_of(_margins(asked, rows, after)),
            table_of(_costs(solution.cost[rows].double().numpy(), cost)),
        ]
    )
    broken["row"] = rows.numpy()[broken["row"].to_numpy(dtype=np.int64)]
    table = pd.concat([broken, table_of(_statuses(asked, solution))])
    return table.sort_values("row", kind="stable", ignore_index=True)


def decode_as_is(schema: FeatureSchema, x: Tensor) -> pd.DataFrame:
    """Encoded rows (B, d) as raw values, nothing rounded or repaired.

    Numbers are floats; a rank that is no category's stays a number; a group that is not one-hot
    becomes the text of its columns, and an all-zero one a missing value.
    """
    encoded = x.double().numpy()
    columns = {}
    for feature in schema.features:
        block = encoded[:, feature.start : feature.stop]
        columns[feature.name] = (
            _numbers(feature, block) if feature.single else _names(feature, block)
        )
    return pd.DataFrame(columns)


def _numbers(feature: Feature, block: np.ndarray) -> np.ndarray:
    raw = block[:, 0] * feature.scale + feature.mean
    if feature.log1p:
        raw = np.expm1(raw)
    if feature.kind != "ordinal":
        return raw
    values: np.ndarray = raw.astype(object)
    for rank, name in enumerate(feature.categories):
        values[np.abs(raw - rank) < 1e-4] = name  # float32 keeps a rank to within far less
    return values


def _names(feature: Feature, block: np.ndarray) -> list[str | None]:
    names: list[str | None] = []
    for bits in block:
        ones = np.flatnonzero(bits == 1.0)
        if not bits.any():
            names.append(None)
        elif len(ones) == 1 and np.count_nonzero(bits) == 1:
            names.append(feature.categories[int(ones[0])])
        else:
            names.append(f"columns {', '.join(f'{bit:g}' for bit in bits)}")
    return names


def encoded_violations(
    schema: FeatureSchema, actions: ActionSettings, before: Tensor, after: Tensor
) -> pd.DataFrame:
    """What raw values cannot show: bits of immutables, one-hot groups, changes too small to see."""
    old, new = before.numpy(), after.numpy()
    bits = old.view(np.int32) != new.view(np.int32)  # (B, d)
    found: list[Line] = []
    count = np.zeros(len(old), dtype=np.int64)
    for feature in schema.features:
        block = new[:, feature.start : feature.stop]
        moved = bits[:, feature.start : feature.stop].any(axis=1)
        count += moved
        frozen = actions.features[feature.name].kind == "immutable"
        show = _shows(block)
        found += lines(moved & frozen, feature.name, "immutable_bits", show, _is("the same"))
        if not feature.single:
            one = np.isin(block, (0.0, 1.0)).all(axis=1) & (block.sum(axis=1) == 1.0)
            found += lines(moved & ~one, feature.name, "one_hot", show, _is("one 1, else 0"))
    most = actions.max_features
    if most is not None:
        expected = _is(f"at most {most}")
        found += lines(count > most, "", "max_features_bits", _shows(count), expected)
    return table_of(found)


def _margins(asked: Question, rows: Tensor, points: Tensor) -> list[Line]:
    """Each row alone: a batch of one through the model itself."""
    margins = margins_alone(asked.model, points, asked.target[rows])
    enough = margins > asked.kappa - MARGIN_TOLERANCE  # False for nan
    return lines(~enough, "", "margin", _shows(margins), _is(f"above {asked.kappa:g}"))


def margins_alone(model: Model, points: Tensor, target: Tensor) -> Floats:
    """Target logit minus the best other one, (B,) float64, in batches of one."""
    margins = np.zeros(len(points))
    with torch.no_grad():
        for i, wanted in enumerate(target.tolist()):
            logits = model(points[i : i + 1])[0].double().numpy()
            margins[i] = logits[wanted] - np.delete(logits, wanted).max()
    return margins


def _costs(said: Floats, computed: Floats) -> list[Line]:
    close = np.abs(said - computed) <= COST_RELATIVE * computed + COST_ABSOLUTE
    return lines(~close, "", "cost", _shows(said), _shows(computed))


def _statuses(asked: Question, solution: Solution) -> list[Line]:
    """Rows that have the target already, and those alone, are not needed; no action, no change."""
    status, cost = solution.status.numpy(), solution.cost.numpy()
    own = margins_alone(asked.model, asked.x, asked.target)
    same = (solution.point == asked.x).all(dim=1).numpy()
    found, needless = (status == int(each) for each in (Status.FOUND, Status.NOT_NEEDED))
    shown = _shows(status)
    return [
        *lines(~np.isin(status, list(Status)), "", "status", shown, _is("a Status")),
        *lines(~needless & (own > MARGIN_TOLERANCE), "", "status", shown, _is("not needed")),
        *lines(needless & (own < -MARGIN_TOLERANCE), "", "status", shown, _is("needed")),
        *lines(~found & ~same, "", "unchanged", shown, _is("the row itself unless found")),
        *lines(needless & (cost != 0.0), "", "cost", _shows(cost), _is("0: not needed")),
        *lines(~found & ~needless & (cost != np.inf), "", "cost", _shows(cost), _is("inf")),
    ]


def _shows(values: np.ndarray) -> Told:
    """Values (B,) or (B, n) as text, row by row."""
    return lambda i: " ".join(f"{value:.9g}" for value in np.atleast_1d(values[i]))


def _is(text: str) -> Told:
    return lambda _: text
