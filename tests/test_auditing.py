"""The audit of answers: every rule catches its kind of fault, and right answers pass."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.outcome import Solution, Status
from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import FeatureSettings
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.evaluation.audit_solution import (
    Question,
    decode_as_is,
    encoded_violations,
    solution_violations,
)
from cfq_bench.evaluation.auditing import cost_of, raw_violations
from tests.test_actions import Case, action_settings, cases, corrupted

PROPERTY = settings(max_examples=40, deadline=None, derandomize=True, database=None)
ORDER = ["a", "b", "c", "d"]
KINDS = {
    "age": FeatureSettings(kind="integer"),
    "pay": FeatureSettings(kind="numeric"),
    "gain": FeatureSettings(kind="integer", transform="log1p"),
    "rank": FeatureSettings(kind="ordinal", order=ORDER),
    "hue": FeatureSettings(kind="categorical"),
    "sex": FeatureSettings(kind="categorical"),
}
TRAIN = pd.DataFrame(
    {
        "age": [20, 30, 40, 50, 60],
        "pay": [0.0, 1.0, 2.0, 3.0, 4.0],
        "gain": [0, 0, 100, 5000, 99999],
        "rank": ["a", "b", "c", "d", "d"],
        "hue": ["r", "g", "b", "r", "g"],
        "sex": ["f", "m", "f", "m", "f"],
    }
)
ROW = {"age": 40, "pay": 2.0, "gain": 100, "rank": "b", "hue": "r", "sex": "f"}
FREE: dict[str, Any] = dict.fromkeys(KINDS, "any")


def rules(
    own: dict[str, Any] | None = None,
    features: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **new: Any,
) -> list[tuple[str, str]]:
    """(feature, rule) of what is wrong when a row changes to new values."""
    before = pd.DataFrame([ROW | (own or {})])
    after = pd.DataFrame([ROW | (own or {}) | new])
    actions = action_settings(FREE | (features or {}), **(settings or {}))
    table = raw_violations(before, after, TRAIN, KINDS, actions)
    return list(zip(table["feature"], table["rule"], strict=True))


# --- one rule at a time, in raw units ---


@pytest.mark.parametrize(
    "new",
    [
        {},
        {"age": 20, "pay": 4.0, "gain": 99_999, "rank": "d", "hue": "b", "sex": "m"},
        {"pay": 1.2345},
    ],
)
def test_good_actions_pass(new: dict[str, Any]) -> None:
    assert rules(**new) == []


@pytest.mark.parametrize(("name", "value"), [("age", 41), ("pay", 2.001), ("rank", "c")])
def test_immutable_numbers_stay(name: str, value: Any) -> None:
    assert rules(features={name: "immutable"}, **{name: value}) == [(name, "immutable")]
    assert rules(features={name: "immutable"}) == []


def test_immutable_categories_stay() -> None:
    assert rules(features={"sex": "immutable"}, sex="m") == [("sex", "immutable")]


@pytest.mark.parametrize(
    ("kind", "wrong", "right"), [("increase_only", 39, 41), ("decrease_only", 41, 39)]
)
def test_directions(kind: str, wrong: int, right: int) -> None:
    assert rules(features={"age": kind}, age=wrong) == [("age", "direction")]
    assert rules(features={"age": kind}, age=right) == []
    assert rules(features={"rank": "decrease_only"}, rank="c") == [("rank", "direction")]


def test_absolute_bounds() -> None:
    narrow = {"age": {"kind": "any", "low": 35, "high": 45}}
    assert rules(features=narrow, age=34) == [("age", "bounds")]
    assert rules(features=narrow, age=46) == [("age", "bounds")]
    assert rules(features=narrow, age=35) == rules(features=narrow, age=45) == []


def test_percentile_bounds_are_of_the_train_rows() -> None:
    quartiles = {"bounds": {"low": 0.25, "high": 0.75}}  # 30 to 50
    assert rules(settings=quartiles, age=51) == [("age", "bounds")]
    assert rules(settings=quartiles, age=29) == [("age", "bounds")]
    assert rules(settings=quartiles, age=50) == []
    assert rules(age=61) == [("age", "bounds")]


def test_a_factual_outside_its_bounds_ends_the_interval() -> None:
    assert rules(own={"age": 90}) == []
    assert rules(own={"age": 90}, age=89) == []
    assert rules(own={"age": 90}, age=91) == [("age", "bounds")]


@pytest.mark.parametrize(("gamma", "last"), [(0.5, 50), (1.0, 60), (1.5, 70)])
def test_gamma_scales_the_interval_around_the_factual(gamma: float, last: int) -> None:
    assert rules(settings={"gamma": gamma}, age=last) == []
    assert rules(settings={"gamma": gamma}, age=last + 1) == [("age", "bounds")]


def test_gamma_scales_log_columns_on_their_logarithms() -> None:
    top = np.expm1(np.log1p(100) + 0.5 * (np.log1p(99_999) - np.log1p(100)))
    assert rules(settings={"gamma": 0.5}, gain=int(top)) == []
    assert rules(settings={"gamma": 0.5}, gain=int(top) + 1) == [("gain", "bounds")]


def test_gamma_invents_no_ranks() -> None:
    assert rules(own={"rank": "d"}, settings={"gamma": 3.0}, rank="a") == []


@pytest.mark.parametrize(("name", "value"), [("age", 41.5), ("age", 41.01), ("gain", 200.5)])
def test_integers_are_whole(name: str, value: float) -> None:
    assert rules(**{name: value}) == [(name, "step")]
    assert rules(settings={"grid": False}, **{name: value}) == []


def test_steps_are_multiples_or_the_factual() -> None:
    stepped = {"age": {"kind": "any", "step": 7}, "pay": {"kind": "any", "step": 0.5}}
    assert rules(features=stepped, age=42, pay=2.5) == []
    assert rules(features=stepped) == []  # 40 is no multiple of 7, and nobody has to move
    assert rules(features=stepped, age=45) == [("age", "step")]
    assert rules(features=stepped, pay=2.7) == [("pay", "step")]
    assert rules(features=stepped, settings={"grid": False}, age=45, pay=2.7) == []
    assert rules(features=stepped, age=63) == [("age", "bounds")]  # 56 is the last within 60


def test_percentiles_of_one_feature() -> None:
    narrow = {"age": {"kind": "any", "low_percentile": 0.25, "high_percentile": 0.75}}  # 30 to 50
    assert rules(features=narrow, age=30) == rules(features=narrow, age=50) == []
    assert rules(features=narrow, age=29) == rules(features=narrow, age=51) == [("age", "bounds")]


def test_gamma_makes_nobody_younger_than_0() -> None:
    assert rules(settings={"gamma": 3.0}, age=0) == []
    assert rules(settings={"gamma": 3.0}, age=-1) == [("age", "bounds")]


def test_a_rank_between_two_categories_is_not_whole() -> None:
    assert rules(rank=1.5) == [("rank", "step")]


def test_a_rank_beyond_the_last_is_out_of_bounds() -> None:
    assert rules(rank=4.0) == [("rank", "bounds")]
    assert rules(rank=-1.0) == [("rank", "bounds")]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_are_finite(value: float) -> None:
    assert ("pay", "finite") in rules(pay=value)


def test_an_unknown_rank_is_none() -> None:
    assert ("rank", "finite") in rules(rank="e")


@pytest.mark.parametrize("value", ["violet", None, "columns 0.4, 0.4, 0.2"])
def test_categories_are_known(value: str | None) -> None:
    assert rules(hue=value) == [("hue", "category")]


def test_a_factual_that_the_encoding_does_not_know_may_stay() -> None:
    assert rules(own={"hue": "violet"}) == []
    assert rules(own={"hue": "violet"}, hue=None) == []  # how an encoded row gives it back
    assert rules(own={"hue": "violet"}, hue="g") == []
    assert rules(own={"hue": "violet"}, features={"hue": "immutable"}, hue=None) == []


def test_documented_categories_are_known_without_a_train_row() -> None:
    train = TRAIN.assign(hue=pd.Categorical(TRAIN["hue"], categories=["r", "g", "b", "violet"]))
    before, after = pd.DataFrame([ROW]), pd.DataFrame([ROW | {"hue": "violet"}])
    assert raw_violations(before, after, train, KINDS, action_settings(FREE)).empty


def test_at_most_k_features_change() -> None:
    two = {"max_features": 2}
    assert rules(settings=two, age=41, hue="g") == []
    assert rules(settings=two, age=41, hue="g", rank="c") == [("", "max_features")]


def test_a_violation_says_what_and_where() -> None:
    before = pd.DataFrame([ROW, ROW])
    after = pd.DataFrame([ROW, ROW | {"age": 61}])
    table = raw_violations(before, after, TRAIN, KINDS, action_settings(FREE))
    assert table.to_dict("records") == [
        {"row": 1, "feature": "age", "rule": "bounds", "value": "61", "allowed": "20 to 60"}
    ]


# --- costs ---


@pytest.mark.parametrize(
    ("cost", "expected"), [("weighted_l1", 7.0), ("weighted_l2", 5.0), ("mixed", 6.0)]
)
def test_costs_by_hand(cost: str, expected: float) -> None:
    train = pd.DataFrame({"a": [-1.0, 1.0], "b": [-2.0, 2.0]})  # deviations 1 and 2
    kinds = {name: FeatureSettings(kind="numeric") for name in train}
    actions = action_settings(dict.fromkeys(kinds, "any"), cost=cost)
    before, after = pd.DataFrame({"a": [0.0], "b": [0.0]}), pd.DataFrame({"a": [3.0], "b": [-8.0]})
    assert cost_of(before, after, train, kinds, actions) == pytest.approx([expected])


def test_a_swap_costs_one_and_half_from_nothing() -> None:
    before = pd.DataFrame([ROW, ROW | {"hue": "violet"}, ROW])
    after = pd.DataFrame([ROW | {"hue": "g"}, ROW | {"hue": "g"}, ROW])
    cost = cost_of(before, after, TRAIN, KINDS, action_settings(FREE))
    assert cost.tolist() == [1.0, 0.5, 0.0]


# --- encoded rows ---


def schema_and_row() -> tuple[FeatureSchema, Tensor]:
    schema = FeatureSchema.fit(TRAIN, KINDS)
    return schema, schema.encode(pd.DataFrame([ROW]))


def column_of(schema: FeatureSchema, name: str) -> int:
    return next(feature.start for feature in schema.features if feature.name == name)


def test_nothing_is_repaired_when_a_row_is_decoded() -> None:
    schema, x = schema_and_row()
    hue, rank, age = (column_of(schema, name) for name in ("hue", "rank", "age"))
    assert decode_as_is(schema, x).iloc[0].to_dict() == pytest.approx(ROW)
    point = x.repeat(3, 1)
    point[0, hue : hue + 3] = torch.tensor([0.4, 0.4, 0.2])
    point[1, hue : hue + 3] = 0.0
    point[2, age] += 0.05
    point[2, rank] += 0.5
    decoded = decode_as_is(schema, point)
    assert decoded["hue"][0] == "columns 0.4, 0.4, 0.2"
    assert pd.isna(decoded["hue"][1])
    assert decoded["age"][2] == pytest.approx(40 + 0.05 * TRAIN["age"].std(ddof=0))
    assert isinstance(decoded["rank"][2], float)


def encoded_rules(column: str, value: float | None, **settings: Any) -> list[tuple[str, str]]:
    schema, x = schema_and_row()
    point = x.clone()
    at = column_of(schema, column)
    point[0, at] = torch.nextafter(point[0, at], torch.tensor(9.0)) if value is None else value
    actions = action_settings(FREE | settings.pop("features", {}), **settings)
    table = encoded_violations(schema, actions, x, point)
    return list(zip(table["feature"], table["rule"], strict=True))


def test_one_bit_of_an_immutable_column_is_a_change() -> None:
    frozen = {"features": {"pay": "immutable"}}
    assert encoded_rules("pay", None, **frozen) == [("pay", "immutable_bits")]
    assert encoded_rules("pay", -0.0, **frozen) == [("pay", "immutable_bits")]  # it was 0.0
    assert encoded_rules("pay", None) == []


def test_a_group_that_is_not_one_hot_is_caught() -> None:
    assert encoded_rules("hue", 1.0) == [("hue", "one_hot")]  # two ones: columns are b, g, r
    assert encoded_rules("hue", 0.5) == [("hue", "one_hot")]


def test_changes_too_small_to_see_count_as_changes() -> None:
    schema, x = schema_and_row()
    point = torch.nextafter(x, torch.tensor(9.0))
    table = encoded_violations(schema, action_settings(FREE, max_features=5), x, point)
    assert ("", "max_features_bits") in set(zip(table["feature"], table["rule"], strict=True))


# --- whole answers ---


def richer(x: Tensor) -> Tensor:
    """Logits of a rule on two columns: favourable where `pay` exceeds its mean."""
    schema, _ = schema_and_row()
    score = x[:, column_of(schema, "pay")]
    return torch.stack([-score, score], dim=1)


def question(**changes: Any) -> Question:
    """Two people below the mean, who want class 1; one above, who has it."""
    schema, _ = schema_and_row()
    raw = pd.DataFrame([ROW | {"pay": 1.0}, ROW | {"pay": 0.0}, ROW | {"pay": 3.0}])
    asked = Question(
        model=richer,
        schema=schema,
        data=load_settings(data="german").data.model_copy(update={"features": KINDS}),
        actions=action_settings(FREE),
        train=TRAIN,
        raw=raw,
        x=schema.encode(raw),
        target=torch.ones(3, dtype=torch.int64),
        kappa=0.1,
    )
    return dataclasses.replace(asked, **changes)


def answer(**changes: Any) -> Solution:
    """The first goes to 4.0, the second has no action, the third needs none."""
    asked = question()
    after = asked.raw.assign(pay=[4.0, 0.0, 3.0])
    point = asked.schema.encode(after)
    right = Solution(
        point,
        torch.tensor([Status.FOUND, Status.NOT_FOUND, Status.NOT_NEEDED], dtype=torch.int8),
        torch.tensor([3.0 / float(np.sqrt(2.0)), torch.inf, 0.0]),
        torch.zeros(3),
    )
    return dataclasses.replace(right, **changes)


def wrong(solution: Solution, **changes: Any) -> list[tuple[int, str]]:
    table = solution_violations(question(**changes), solution)
    return list(zip(table["row"], table["rule"], strict=True))


def statuses(*names: Status) -> Tensor:
    return torch.tensor(names, dtype=torch.int8)


def test_a_right_answer_passes() -> None:
    assert wrong(answer()) == []


def test_a_point_that_breaks_the_raw_rules_is_reported_at_its_row() -> None:
    frozen = action_settings(FREE | {"pay": "immutable"})
    assert wrong(answer(), actions=frozen) == [(0, "immutable"), (0, "immutable_bits")]


def test_a_margin_that_is_not_met() -> None:
    high = 2.0 * 2.0 / float(np.sqrt(2.0))  # the margin of the first row's point
    assert wrong(answer(), kappa=high + 1e-3) == [(0, "margin")]
    assert wrong(answer(), kappa=high - 1e-3) == []


def test_a_cost_that_is_not_the_action_s() -> None:
    cost = answer().cost
    assert wrong(answer(cost=cost * torch.tensor([1.001, 1.0, 1.0]))) == [(0, "cost")]
    assert wrong(answer(cost=torch.tensor([float(cost[0]), 5.0, 0.0]))) == [(1, "cost")]
    assert wrong(answer(cost=torch.tensor([float(cost[0]), torch.inf, 0.5]))) == [(2, "cost")]
    assert wrong(answer(cost=torch.tensor([torch.nan, torch.inf, 0.0]))) == [(0, "cost")]


def test_statuses_that_do_not_fit() -> None:
    found, lost, needless = Status.FOUND, Status.NOT_FOUND, Status.NOT_NEEDED
    no_cost = torch.tensor([3.0 / float(np.sqrt(2.0)), torch.inf, torch.inf])
    assert wrong(answer(status=statuses(found, lost, lost), cost=no_cost)) == [(2, "status")]
    no_need = torch.tensor([3.0 / float(np.sqrt(2.0)), 0.0, 0.0])
    assert wrong(answer(status=statuses(found, needless, needless), cost=no_need)) == [
        (1, "status")
    ]
    unknown = torch.tensor([found, 9, needless], dtype=torch.int8)
    assert wrong(answer(status=unknown)) == [(1, "status")]


@pytest.mark.parametrize("row", [1, 2])
def test_a_row_without_an_action_stays(row: int) -> None:
    point = answer().point.clone()
    point[row] = answer().point[0]
    assert wrong(answer(point=point)) == [(row, "unchanged")]


# --- against the action set ---


@PROPERTY
@given(cases())
def test_projected_points_pass_the_audit(case: Case) -> None:
    assert audited(case, case.space.project(case.x, case.points)) == [False] * len(case.x)


@PROPERTY
@given(cases(), st.integers(0, 2**32 - 1))
def test_the_audit_catches_what_the_action_set_refuses(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = corrupted(case, case.space.project(case.x, case.points), rng)
    assert audited(case, points) == case.space.violations(case.x, points).tolist()


@PROPERTY
@given(cases(), st.sampled_from(["weighted_l1", "weighted_l2", "mixed"]))
def test_costs_agree_with_the_action_set(case: Case, cost: str) -> None:
    actions = case.actions.model_copy(update={"cost": cost})
    schema = case.space.schema
    space = ActionSet(schema, actions, schema.encode(case.train))
    points = space.project(case.x, case.points)
    before, after = decode_as_is(schema, case.x), decode_as_is(schema, points)
    ours = cost_of(before, after, case.train, case.kinds, actions)
    assert ours == pytest.approx(space.cost(case.x, points).double().numpy(), rel=1e-4, abs=1e-4)


def audited(case: Case, points: Tensor) -> list[bool]:
    """Which rows the raw and the encoded rules refuse."""
    schema = case.space.schema
    before, after = decode_as_is(schema, case.x), decode_as_is(schema, points)
    tables = [
        raw_violations(before, after, case.train, case.kinds, case.actions),
        encoded_violations(schema, case.actions, case.x, points),
    ]
    bad = {row for table in tables for row in table["row"].tolist()}
    return [i in bad for i in range(len(case.x))]


# --- the command ---


def script() -> ModuleType:
    path = Path(__file__).parents[1] / "scripts" / "violations.py"
    spec = importlib.util.spec_from_file_location("violations", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_command_checks_every_preset_and_solver(tmp_path: Path) -> None:
    command = script()
    assert command.main(["--data", "german", "--exact-rows", "5", "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "violations.json").read_text())
    assert report["clean"] is True
    assert [(line["preset"], line["solver"]) for line in report["lines"]] == [
        (preset, solver)
        for preset in command.names("actions/german")
        for solver in command.names("solver")
        if f"german, {preset}, {solver}" not in report["skipped"]
    ]
    for line in report["lines"]:
        rows = 5 if line["solver"] == "exact" else 300
        assert line["rows"] == line["not_needed"] == rows
        assert line["found"] + line["not_found"] + line["infeasible"] == rows
        assert line["violations"] == 0
    table = (tmp_path / "violations.md").read_text().splitlines()
    assert len(table) == 2 + len(report["lines"])


def test_the_command_fails_where_nothing_can_be_checked(tmp_path: Path) -> None:
    assert script().main(["--data", "nowhere", "--out", str(tmp_path)]) == 1
    report = json.loads((tmp_path / "violations.json").read_text())
    assert "unknown data 'nowhere'" in report["skipped"]["nowhere"]


def test_the_command_fails_on_one_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solver that ages the first person it finds an action for, and whose own check is silent."""
    command = script()
    honest = command.make_solver

    def ageing(config: Any, calibration: Tensor) -> Any:
        solver = honest(config, calibration)

        def solve(model: Any, space: ActionSet, *rest: Any) -> Solution:
            solution = solver.solve(model, space, *rest)
            first = int(solution.found.nonzero()[0])
            age = column_of(space.schema, "age")
            solution.point[first, age] += 1.0
            return solution

        return SimpleNamespace(solve=solve)

    monkeypatch.setattr(command, "make_solver", ageing)
    out = ["--out", str(tmp_path)]
    assert command.main(["--data", "german", "--solver", "pgd", *out]) == 1
    report = json.loads((tmp_path / "violations.json").read_text())
    assert report["clean"] is False
    told = report["lines"][0]["first_violations"]
    assert {(line["feature"], line["rule"]) for line in told} >= {
        ("age", "immutable"),
        ("age", "immutable_bits"),
    }
