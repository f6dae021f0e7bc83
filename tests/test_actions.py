"""Every projected point lies in A(x): checked by the code itself and by an independent reading."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.config.actions import ActionSettings
from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import FeatureSettings
from cfq_bench.data.dataset import load_data
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.errors import UserError
from cfq_bench.experiment import Options, run

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def bits(x: Tensor) -> Tensor:
    """Compare floats by their bits: 0.0 is not -0.0."""
    return x.contiguous().view(torch.int32)


def action_settings(features: dict[str, Any], **changes: Any) -> ActionSettings:
    raw: dict[str, Any] = {
        "name": "made",
        "about": "made for a test",
        "max_features": None,
        "bounds": {"low": 0.0, "high": 1.0},
        "gamma": 1.0,
        "grid": True,
        "cost": "weighted_l1",
        "features": features,
    }
    return ActionSettings.model_validate({**raw, **changes})


# --- generated action sets ---


@dataclass
class Case:
    """An action set, rows of which many lie outside its bounds, and points to project."""

    train: pd.DataFrame
    kinds: dict[str, FeatureSettings]
    actions: ActionSettings
    space: ActionSet
    x: Tensor
    points: Tensor


ORDER = ["a", "b", "c", "d"]


def random_frame(
    rng: np.random.Generator, kinds: dict[str, FeatureSettings], count: int, reach: float
) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name, feature in kinds.items():
        if feature.kind == "numeric":
            values = rng.normal(0, 3 * reach, count).round(3)
            columns[name] = np.abs(values) if feature.transform == "log1p" else values
        elif feature.kind == "integer":
            low = 0 if feature.transform == "log1p" else int(-20 * reach)
            columns[name] = rng.integers(low, int(30 * reach), count)
        elif feature.kind == "ordinal":
            columns[name] = rng.choice(ORDER[1:3] if reach == 1.0 else ORDER, count)
        else:
            choices = ORDER[: 2 + len(name) % 3]
            columns[name] = pd.Categorical(rng.choice(choices, count), categories=choices)
    return pd.DataFrame(columns)


def random_points(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Anything finite: near, far, tied, on the row itself, zeros of both signs, extremes."""
    shape = x.shape
    styles = [
        x + rng.normal(0, 1, shape),
        rng.normal(0, 30, shape),
        np.round(rng.normal(0, 1, shape)),  # many ties
        x,
        np.zeros(shape),
        np.full(shape, -0.0),
        rng.choice([-3.4e38, 3.4e38, 1e-45, -1e-45, 1e30], shape),
        np.where(rng.random(shape) < 0.5, x, np.nextafter(x, np.float32(9), dtype=np.float32)),
    ]
    choice = rng.integers(0, len(styles), shape if rng.random() < 0.5 else (len(x), 1))
    return np.choose(choice, styles).astype(np.float32)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds: dict[str, FeatureSettings] = {}
    actions: dict[str, Any] = {}
    kind_names = st.sampled_from(["numeric", "integer", "ordinal", "categorical"])
    for i, kind in enumerate(draw(st.lists(kind_names, min_size=1, max_size=6))):
        name = f"{kind}{i}" + "x" * draw(st.integers(0, 2))
        log = kind in ("numeric", "integer") and draw(st.booleans())
        kinds[name] = FeatureSettings(
            kind=kind,
            transform="log1p" if log else "none",
            order=ORDER if kind == "ordinal" else None,
        )
        may = ["immutable", "any", "any"]
        if kind != "categorical":
            may += ["increase_only", "decrease_only"]
        action: dict[str, Any] = {"kind": draw(st.sampled_from(may))}
        if kind in ("numeric", "integer"):
            action |= draw(
                st.sampled_from(
                    [
                        {},
                        {"low": 1.5, "high": 2.0},
                        {"low": 1.5, "high": 11.25},
                        {"low_percentile": 0.2, "high_percentile": 0.9},
                        {"low_percentile": 0.0, "high": 9.0, "step": 3.0},
                        {"step": 2.0 if kind == "integer" else 0.25},
                    ]
                )
            )
        actions[name] = action
    train = random_frame(rng, kinds, 20, 1.0)
    schema = FeatureSchema.fit(train, kinds)
    made = action_settings(
        actions,
        max_features=draw(st.sampled_from([None, 1, 2, 3])),
        bounds=draw(st.sampled_from([{"low": 0.0, "high": 1.0}, {"low": 0.1, "high": 0.8}])),
        gamma=draw(st.sampled_from([0.5, 1.0, 1.5])),
    )
    space = ActionSet(schema, made, schema.encode(train))
    x = schema.encode(random_frame(rng, kinds, 8, 2.0))
    points = torch.from_numpy(random_points(rng, x.numpy()))
    return Case(train, kinds, made, space, x, points)


# --- the independent check, in raw units and numpy ---


def raw_value(schema: FeatureSchema, j: int, z: float) -> float:
    feature = schema.features[j]
    value = z * feature.scale + feature.mean
    return float(np.expm1(value)) if feature.log1p else value


def step_of(case: Case, j: int) -> float | None:
    feature = case.space.schema.features[j]
    whole = 1.0 if feature.kind in ("integer", "ordinal") else None
    return case.actions.features[feature.name].step or whole


def raw_limits(case: Case, j: int, own: float) -> tuple[float, float]:
    """Reach of a single column, in raw units, by the words of the settings."""
    feature = case.space.schema.features[j]
    action = case.actions.features[feature.name]
    if action.kind == "immutable":
        return own, own
    values = case.train[feature.name]
    if feature.kind == "ordinal":
        values = values.map(ORDER.index)
    shares = [
        preset if own_share is None else own_share
        for own_share, preset in (
            (action.low_percentile, case.actions.bounds.low),
            (action.high_percentile, case.actions.bounds.high),
        )
    ]
    low, high = (float(np.quantile(values.to_numpy(float), share)) for share in shares)
    low = low if action.low is None else action.low
    high = high if action.high is None else action.high
    step = step_of(case, j)
    if step is not None:
        low, high = step * np.ceil(low / step - 1e-3), step * np.floor(high / step + 1e-3)
    natural = min(0.0, low) if (values >= 0).all() or feature.log1p else -np.inf
    low, high = min(low, own), max(high, own)

    def scaled(end: float) -> float:
        there, here = (np.log1p(v) if feature.log1p else v for v in (end, own))
        moved = here + case.actions.gamma * (there - here)
        return float(np.expm1(moved)) if feature.log1p else float(moved)

    low, high = scaled(low), scaled(high)
    low = min(max(low, natural), own)
    if feature.kind == "ordinal":
        high = min(high, len(ORDER) - 1.0)
    if action.kind == "increase_only":
        low = own
    if action.kind == "decrease_only":
        high = own
    return low, high


def breaks_rules(case: Case, x: np.ndarray, u: np.ndarray) -> bool:
    """One row: whether u is not in A(x)."""
    if not np.isfinite(u).all():
        return True
    schema, changed = case.space.schema, 0
    for j, feature in enumerate(schema.features):
        mine, now = x[feature.start : feature.stop], u[feature.start : feature.stop]
        if (mine == now).all():
            continue
        changed += 1
        if case.actions.features[feature.name].kind == "immutable":
            return True
        if feature.kind == "categorical":
            if sorted(now.tolist()) != [0.0] * (len(now) - 1) + [1.0]:
                return True
            continue
        own, value = raw_value(schema, j, float(mine[0])), raw_value(schema, j, float(now[0]))
        low, high = raw_limits(case, j, own)
        slack = 1e-4 * (1.0 + abs(value))
        if value < low - slack or value > high + slack:
            return True
        step = step_of(case, j)
        if step is not None and abs(value - step * round(value / step)) > slack:
            return True
    return changed > (case.actions.max_features or len(schema.features))


def brute_force(case: Case, points: Tensor) -> list[bool]:
    pairs = zip(case.x.numpy(), points.numpy(), strict=True)
    return [breaks_rules(case, x, u) for x, u in pairs]


# --- properties of the projection ---


@PROPERTY
@given(cases())
def test_projected_points_are_in_the_action_set(case: Case) -> None:
    projected = case.space.project(case.x, case.points)
    assert not case.space.violations(case.x, projected).any()
    assert not any(brute_force(case, projected))


@PROPERTY
@given(cases())
def test_projection_is_idempotent_and_keeps_factuals(case: Case) -> None:
    once = case.space.project(case.x, case.points)
    assert torch.equal(bits(case.space.project(case.x, once)), bits(once))
    assert torch.equal(bits(case.space.project(case.x, case.x)), bits(case.x))


@PROPERTY
@given(cases())
def test_unchanged_features_are_bitwise_the_factual_s(case: Case) -> None:
    projected = case.space.project(case.x, case.points)
    frozen = case.space.immutable[case.space.feature_of_column]
    assert torch.equal(bits(projected[:, frozen]), bits(case.x[:, frozen]))
    changed = case.space.changed(case.x, projected)[:, case.space.feature_of_column]
    assert torch.equal(bits(projected[~changed]), bits(case.x[~changed]))
    assert not case.space.changed(case.x, case.x).any()


@PROPERTY
@given(cases())
def test_projected_rows_decode_to_real_rows(case: Case) -> None:
    schema = case.space.schema
    projected = case.space.project(case.x, case.points)
    decoded = schema.decode(projected)
    assert not decoded.isna().any(axis=None)
    exact = [j for j in range(schema.width) if j >= schema.n_single or schema.grid[j]]
    again = schema.encode(decoded)
    assert torch.equal(bits(again[:, exact]), bits(projected[:, exact]))
    assert torch.allclose(again, projected, atol=1e-5)


@PROPERTY
@given(cases())
def test_a_row_s_projection_does_not_depend_on_the_others(case: Case) -> None:
    whole = case.space.project(case.x, case.points)
    order = torch.arange(len(case.x)).flip(0)
    assert torch.equal(
        bits(case.space.project(case.x[order], case.points[order])), bits(whole[order])
    )
    cost = case.space.cost(case.x, whole)
    for i in range(len(case.x)):
        alone = case.space.project(case.x[[i]], case.points[[i]])
        assert torch.equal(bits(alone), bits(whole[[i]]))
        assert torch.equal(bits(case.space.cost(case.x[[i]], alone)), bits(cost[[i]]))


def corrupted(case: Case, point: Tensor, rng: np.random.Generator) -> Tensor:
    """Break one rule, or none, in each row, by much more than any tolerance."""
    schema, out = case.space.schema, point.clone()
    for row in out:
        feature = schema.features[rng.integers(len(schema.features))]
        if not feature.single:
            row[feature.start : feature.stop] = torch.from_numpy(
                rng.choice([0.0, 1.0, 0.5], feature.stop - feature.start).astype(np.float32)
            )
        else:
            step = float(rng.choice([0.3, 1.0, -1.0, 2.0, 500.0, 0.0]))
            if step == 0.0:
                continue
            raw = raw_value(schema, feature.start, float(row[feature.start])) + step
            if feature.on_grid and step != 0.3:
                raw = round(raw)  # a bound is met exactly or not at all
            raw = np.log1p(max(raw, 0.0)) if feature.log1p else raw
            row[feature.start] = (raw - feature.mean) / feature.scale
    return out


@PROPERTY
@given(cases(), st.integers(0, 2**32 - 1))
def test_violations_agree_with_an_independent_check(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = corrupted(case, case.space.project(case.x, case.points), rng)
    points = torch.where(torch.from_numpy(rng.random((len(points), 1)) < 0.1), torch.nan, points)
    ours = case.space.violations(case.x, points).tolist()
    assert ours == brute_force(case, points)


@PROPERTY
@given(cases())
def test_bounds_hold_the_factual_and_directions(case: Case) -> None:
    low, high = case.space.row_bounds(case.x)
    own = case.x[:, : case.space.n_single]
    assert bool(((low <= own) & (own <= high)).all())
    for j, feature in enumerate(case.space.schema.features[: case.space.n_single]):
        kind = case.actions.features[feature.name].kind
        assert kind not in ("immutable", "increase_only") or torch.equal(low[:, j], own[:, j])
        assert kind not in ("immutable", "decrease_only") or torch.equal(high[:, j], own[:, j])


# --- hand-made cases ---

TRAIN = pd.DataFrame(
    {
        "age": [20, 30, 40, 50, 60],
        "pay": [0.0, 1.0, 2.0, 3.0, 4.0],
        "rank": ["a", "b", "c", "d", "d"],
        "hue": ["r", "g", "b", "r", "g"],
        "sex": ["f", "m", "f", "m", "f"],
    }
)
KINDS = {
    "age": FeatureSettings(kind="integer"),
    "pay": FeatureSettings(kind="numeric"),
    "rank": FeatureSettings(kind="ordinal", order=ORDER),
    "hue": FeatureSettings(kind="categorical"),
    "sex": FeatureSettings(kind="categorical"),
}
FREE = dict.fromkeys(KINDS, "any")


def space_with(features: dict[str, Any] | None = None, **changes: Any) -> ActionSet:
    schema = FeatureSchema.fit(TRAIN, KINDS)
    return ActionSet(
        schema, action_settings({**FREE, **(features or {})}, **changes), schema.encode(TRAIN)
    )


def row_with(space: ActionSet, **values: Any) -> Tensor:
    row = {"age": 40, "pay": 2.0, "rank": "b", "hue": "r", "sex": "f", **values}
    return space.schema.encode(pd.DataFrame([row]))


def hue(space: ActionSet, point: Tensor) -> list[float]:
    """Scores of b, g, r."""
    return point[0, 3:6].tolist()


@pytest.mark.parametrize(
    ("own", "scores", "expected"),
    [
        ("r", (0.4, 0.4, 0.2), (1, 0, 0)),  # a tie that the factual is not in: one of them
        ("g", (0.4, 0.4, 0.2), (0, 1, 0)),  # a tie with the factual: no change
        ("b", (0.4, 0.4, 0.2), (1, 0, 0)),
        ("r", (0.0, 0.0, 0.0), (0, 0, 1)),  # nothing scores: no change
        ("r", (-1.0, -2.0, -3.0), (1, 0, 0)),
        ("r", (0.5, 0.5, 0.5), (0, 0, 1)),
        ("g", (9.0, 0.0, 8.0), (1, 0, 0)),
    ],
)
def test_groups_stay_one_hot(
    own: str, scores: tuple[float, ...], expected: tuple[int, ...]
) -> None:
    space = space_with()
    x = row_with(space, hue=own)
    point = x.clone()
    point[0, 3:6] = torch.tensor(scores)
    projected = space.project(x, point)
    assert hue(space, projected) == [float(e) for e in expected]
    assert not space.violations(x, projected).any()


def test_an_empty_factual_group_stays_or_becomes_one_hot() -> None:
    space = space_with()
    x = row_with(space)
    x[0, 3:6] = 0.0
    assert torch.equal(space.project(x, x), x)
    assert not space.violations(x, x).any()
    point = x.clone()
    point[0, 4] = 0.3
    assert hue(space, space.project(x, point)) == [0.0, 1.0, 0.0]


def test_a_factual_outside_its_bounds_keeps_its_value() -> None:
    space = space_with({"age": {"kind": "any", "low": 30, "high": 50}})
    for age, reach in ((90, (30, 90)), (10, (10, 50)), (40, (30, 50))):
        x = row_with(space, age=age)
        assert torch.equal(bits(space.project(x, x)), bits(x))
        ages = [
            int(space.schema.decode(space.project(x, torch.full_like(x, far)))["age"][0])
            for far in (-1e6, 1e6)
        ]
        assert tuple(ages) == reach


@pytest.mark.parametrize(
    ("gamma", "reach"), [(0.5, (30, 50)), (1.0, (20, 60)), (1.5, (10, 70)), (0.03, (40, 40))]
)
def test_gamma_scales_the_interval_around_the_factual(gamma: float, reach: tuple[int, int]) -> None:
    space = space_with(gamma=gamma)
    x = row_with(space)
    ends = [space.project(x, torch.full_like(x, far)) for far in (-1e6, 1e6)]
    decoded = pd.concat([space.schema.decode(end) for end in ends], ignore_index=True)
    assert decoded["age"].tolist() == list(reach)
    expected = [max(0.0, 2.0 - 2.0 * gamma), 2.0 + 2.0 * gamma]  # nobody was paid less than 0
    np.testing.assert_allclose(decoded["pay"], expected, atol=1e-6)


def test_gamma_never_leaves_the_ranks_of_an_ordinal() -> None:
    space = space_with(gamma=1.5)
    for own in ORDER:
        x = row_with(space, rank=own)
        for far, end in ((-1e6, 0), (1e6, 3)):
            point = space.project(x, torch.full_like(x, far))
            ranks = space.schema.destandardize(point[:, :3])[0, 2]
            assert float(ranks) == pytest.approx(end, abs=1e-5)
            assert torch.equal(space.schema.encode(space.schema.decode(point))[:, 2], point[:, 2])


def test_the_nearest_whole_value_is_taken() -> None:
    space = space_with()
    x = row_with(space)
    for age in (40.4, 40.6, 39.51, 55.0):
        raw = torch.tensor([[age, 2.0, 1.0]], dtype=torch.float64)
        point = torch.cat([space.schema.standardize(raw), x[:, 3:]], dim=1)
        assert space.schema.decode(space.project(x, point))["age"][0] == round(age)
    relaxed = space_with(grid=False)
    assert torch.equal(relaxed.project(x, point), point)


def test_the_sign_of_zero_is_no_change() -> None:
    frame = pd.DataFrame({"n": [-3, 0, 3], "v": [-1.0, 0.0, 1.0], "w": [-1.0, 0.0, 1.0]})
    kinds = {name: FeatureSettings(kind="numeric") for name in frame}
    kinds["n"] = FeatureSettings(kind="integer")
    schema = FeatureSchema.fit(frame, kinds)
    made = action_settings({"n": "any", "v": "any", "w": "immutable"}, gamma=0.5)
    space = ActionSet(schema, made, schema.encode(frame))
    for x in schema.encode(frame)[:, None]:
        point = torch.tensor([[-0.1, -0.0, -0.0]])
        projected = space.project(x, point)
        assert torch.equal(bits(space.project(x, projected)), bits(projected))
        assert torch.equal(bits(projected[:, 2]), bits(x[:, 2]))
    zero = schema.encode(frame.assign(v=-0.0, fixed=-0.0))[[1]]
    assert torch.equal(bits(zero), torch.zeros(1, 3, dtype=torch.int32))
    assert torch.equal(bits(space.project(zero, -zero)), bits(zero))


@pytest.mark.parametrize(
    ("kind", "ages"), [("increase_only", [40, 60]), ("decrease_only", [20, 40])]
)
def test_directions(kind: str, ages: list[int]) -> None:
    space = space_with({"age": kind})
    x = row_with(space)
    ends = [space.project(x, torch.full_like(x, far)) for far in (-1e6, 1e6)]
    assert [int(space.schema.decode(end)["age"][0]) for end in ends] == ages


def test_the_largest_changes_are_kept() -> None:
    space = space_with(max_features=2)
    x = row_with(space)
    point = x.clone()
    point[0, 1] += 0.9  # standard deviations
    point[0, 0] = space.schema.encode(TRAIN)[4, 0]  # 60 years: 1.41 of them
    point[0, 3:6] = torch.tensor([1.0, 0.0, 0.0])  # a swap: 1
    projected = space.project(x, point)
    assert space.changed(x, projected)[0].tolist() == [True, False, False, True, False]


@pytest.mark.parametrize(
    ("cost", "swap", "swaps", "all_three"),
    [
        ("weighted_l1", 1.0, 2.0, 4.5),
        ("weighted_l2", 1.0, 2.0**0.5, (1 + 1 + 2.5**2) ** 0.5),
        ("mixed", 1.0, 0.5 * (2.0 + 2.0**0.5), 0.5 * (4.5 + (2 + 2.5**2) ** 0.5)),
    ],
)
def test_a_swap_costs_one(cost: str, swap: float, swaps: float, all_three: float) -> None:
    space = space_with(cost=cost)
    x = row_with(space)
    one = row_with(space, hue="g")
    two = row_with(space, hue="b", sex="m")
    three = two.clone()
    three[0, 1] += 2.5
    for point, expected in ((x, 0.0), (one, swap), (two, swaps), (three, all_three)):
        assert float(space.cost(x, point)) == pytest.approx(expected, abs=1e-6)


@PROPERTY
@given(cases(), st.sampled_from(["weighted_l1", "weighted_l2", "mixed"]))
def test_costs_agree_with_numpy(case: Case, cost: str) -> None:
    made = case.actions.model_copy(update={"cost": cost})
    schema = case.space.schema
    space = ActionSet(schema, made, schema.encode(case.train))
    point = space.project(case.x, case.points)
    expected = []
    for x, u in zip(case.x.double().numpy(), point.double().numpy(), strict=True):
        moved = [
            float(abs(u - x)[f.start])
            if f.single
            else float((u[f.start : f.stop] != x[f.start : f.stop]).any())
            for f in schema.features
        ]
        l1, l2 = sum(moved), float(np.linalg.norm(moved))
        expected.append({"weighted_l1": l1, "weighted_l2": l2, "mixed": (l1 + l2) / 2}[cost])
    np.testing.assert_allclose(space.cost(case.x, point), expected, rtol=1e-5, atol=1e-6)


def test_a_constant_column_is_neither_free_nor_infinitely_dear() -> None:
    train = pd.DataFrame({"flat": [5.0] * 6, "rare": [0.0] * 5 + [9.0]})
    kinds = {name: FeatureSettings(kind="numeric") for name in train}
    schema = FeatureSchema.fit(train, kinds)
    flat = {"kind": "any", "low": 4.0, "high": 7.0}
    made = action_settings({"flat": flat, "rare": "any"})
    space = ActionSet(schema, made, schema.encode(train))
    x = schema.encode(train)[:1]
    costs = []
    for column in range(2):
        point = x.clone()
        point[0, column] = 1e6
        costs.append(float(space.cost(x, space.project(x, point))))
    assert costs == pytest.approx([2.0, 9.0 / float(np.std(train["rare"]))], rel=1e-5)


def test_only_single_columns_and_only_categories_work() -> None:
    for names in (["age", "pay"], ["hue", "sex"]):
        frame, kinds = TRAIN[names], {name: KINDS[name] for name in names}
        schema = FeatureSchema.fit(frame, kinds)
        x = schema.encode(frame)
        space = ActionSet(schema, action_settings(dict.fromkeys(names, "any")), x)
        point = space.project(x, -x)
        assert not space.violations(x, point).any()
        assert space.changed(x, point).any()


# --- settings ---


def test_bounds_that_cross_name_the_feature() -> None:
    words = r"actions 'made': feature 'age' has its low bound 70 above its high bound 60"
    with pytest.raises(UserError, match=words):
        space_with({"age": {"kind": "any", "low": 70.0}})
    with pytest.raises(UserError, match="'age' has its low bound 42 above its high bound 41"):
        space_with({"age": {"kind": "any", "low": 41.2, "high": 41.8}})  # no whole number inside
    with pytest.raises(UserError, match="'hue' is categorical and has no order"):
        space_with({"hue": "increase_only"})


def test_large_whole_bounds_are_exact() -> None:
    train = pd.DataFrame({"n": np.arange(900_000, 1_100_000, 10_000)})
    schema = FeatureSchema.fit(train, {"n": FeatureSettings(kind="integer")})
    made = action_settings({"n": {"kind": "any", "low": 950_001, "high": 1_050_001}})
    space = ActionSet(schema, made, schema.encode(train))
    x = schema.encode(train[10:11])
    ends = [schema.decode(space.project(x, torch.full_like(x, far))) for far in (-99.0, 99.0)]
    assert [int(end["n"][0]) for end in ends] == [950_001, 1_050_001]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["actions.features.shoe=any"], "feature 'shoe', which data 'compas' does not have"),
        (["actions.features.age={kind: any, low: 9.0, high: 1.0}"], r"age.*low 9\.0 is above"),
        (["actions.bounds={low: 0.9, high: 0.1}"], r"bounds.*low 0\.9 is above high 0\.1"),
        (["actions.features.age=sometimes"], r"age.*sometimes"),
        (["actions.gamma=0"], "gamma"),
        (["actions.max_features=0"], "max_features"),
        (
            [f"actions.features.{n}=immutable" for n in ("priors_count", "c_charge_degree")]
            + [f"actions.features.juv_{n}_count=immutable" for n in ("fel", "misd", "other")],
            "leave nothing to change",
        ),
    ],
)
def test_presets_that_make_no_sense_are_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        load_settings("fp32", "compas", overrides=overrides)
    assert "\n" not in str(caught.value)


def test_a_preset_must_mention_every_feature(tmp_path: Path) -> None:
    preset = tmp_path / "short.yaml"
    preset.write_text(
        "about: x\nmax_features: 1\nbounds: {low: 0.0, high: 1.0}\ngamma: 1.0\ngrid: true\n"
        "cost: weighted_l1\nfeatures: {age: any}\n"
    )
    with pytest.raises(UserError, match="do not say what may be done to feature 'juv_fel_count'"):
        load_settings("fp32", "compas", actions=str(preset))


def test_no_immutable_feature_at_all_is_allowed() -> None:
    names = ("age", "sex", "race")
    made = load_settings(
        "fp32", "compas", overrides=[f"actions.features.{name}=any" for name in names]
    )
    data = load_data(made.data, 0)
    space = ActionSet(data.schema, made.actions, data.train.x)
    assert not space.immutable[space.feature_of_column].any()
    x = data.test.x[:50]
    assert not space.violations(x, space.project(x, -x)).any()


def test_the_fingerprint_follows_the_resolved_set() -> None:
    sets = [
        space_with(),
        space_with({"age": "immutable"}),
        space_with({"age": {"kind": "any", "high": 59.0}}),
        space_with(max_features=2),
        space_with(gamma=0.5),
        space_with(cost="weighted_l2"),
        space_with(bounds={"low": 0.1, "high": 0.9}),
        space_with(grid=False),
        space_with(name="other"),
    ]
    assert len({space.fingerprint for space in sets}) == len(sets)
    assert space_with(about="other words").fingerprint == sets[0].fingerprint
    # The same preset on other train rows is another set.
    schema = FeatureSchema.fit(TRAIN, KINDS)
    fewer = ActionSet(schema, action_settings(FREE), schema.encode(TRAIN[1:4]))
    assert fewer.fingerprint != sets[0].fingerprint


def test_a_record_names_its_preset_and_its_resolved_set(tmp_path: Path) -> None:
    def recorded(*overrides: str) -> dict[str, Any]:
        quick = ["data.fit.teacher_epochs=1", "evaluation.max_rows=2", "evaluation.exact_rows=0"]
        made = load_settings(
            "fp32",
            "german",
            backbone="logreg",
            solver="pgd",
            overrides=[*quick, "solver.steps=1", "evaluation.extra_kappas=[]", *overrides],
        )
        options = Options(tmp_path / "results", tmp_path / "cache", wandb="disabled")
        record = run(made, options)
        assert record.status == "ok", record.reason
        return dict(record.details["action_set"])

    first = recorded()
    assert first["preset"] == "german/paper"
    other = recorded("actions.features.month={kind: any, high: 24.0}")
    assert other["preset"] == first["preset"]
    assert other["sha256"] != first["sha256"]
