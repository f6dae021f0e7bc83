"""Steps and percentiles of single features, what gamma leaves alone, and Table 25's regimes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.outcome import Status
from cfq_bench.actions.solver import make_solver
from cfq_bench.cli.main import main
from cfq_bench.config.actions import ActionSettings
from cfq_bench.config.loader import load_settings, settings_from_config
from cfq_bench.config.settings import FeatureSettings, Settings
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.errors import UserError

TRAIN = pd.DataFrame(
    {
        "amount": np.arange(250, 5250, 50),
        "gain": np.arange(100) * 37,
        "rate": np.linspace(0.0, 9.9, 100),
    }
)
KINDS = {
    "amount": FeatureSettings(kind="integer"),
    "gain": FeatureSettings(kind="integer", transform="log1p"),
    "rate": FeatureSettings(kind="numeric"),
}
SCHEMA = FeatureSchema.fit(TRAIN, KINDS)
X = SCHEMA.encode(TRAIN)


def space(features: dict[str, Any], **changes: Any) -> ActionSet:
    raw: dict[str, Any] = {
        "name": "made",
        "about": "made for a test",
        "max_features": None,
        "bounds": {"low": 0.0, "high": 1.0},
        "gamma": 1.0,
        "grid": True,
        "cost": "weighted_l1",
        "features": {**dict.fromkeys(KINDS, "immutable"), **features},
    }
    return ActionSet(SCHEMA, ActionSettings.model_validate({**raw, **changes}), X)


def row(**raw: float) -> Tensor:
    return SCHEMA.encode(pd.DataFrame([{"amount": 1250, "gain": 74, "rate": 5.0, **raw}]))


def reached(made: ActionSet, x: Tensor, name: str) -> set[float]:
    """Every raw value of one feature that projections of a fine ramp reach."""
    index = [f.name for f in SCHEMA.features].index(name)
    points = x.repeat(20_001, 1)
    points[:, index] = torch.linspace(-6, 6, 20_001)
    projected = made.project(x.expand_as(points), points)
    assert not made.violations(x.expand_as(points), projected).any()
    assert torch.equal(made.project(x.expand_as(points), projected), projected)
    return set(SCHEMA.destandardize(projected)[:, index].round(decimals=3).tolist())


def test_a_step_makes_its_multiples_reachable_and_keeps_the_factual() -> None:
    made = space({"amount": {"kind": "any", "step": 500}})
    on = {float(value) for value in range(500, 5001, 500)}
    assert reached(made, row(amount=1500), "amount") == on
    assert reached(made, row(amount=1250), "amount") == on | {1250.0}


def test_a_step_of_a_numeric_feature_and_of_a_log_column() -> None:
    made = space({"rate": {"kind": "any", "step": 2.5}, "gain": {"kind": "any", "step": 1000}})
    assert reached(made, row(), "rate") == {0.0, 2.5, 5.0, 7.5}
    assert reached(made, row(), "gain") == {0.0, 74.0, 1000.0, 2000.0, 3000.0}
    free = space({"rate": {"kind": "any", "step": 2.5}}, grid=False)
    assert len(reached(free, row(), "rate")) > 1000


def test_values_off_the_lattice_are_violations() -> None:
    made = space({"amount": {"kind": "any", "step": 500}, "rate": {"kind": "any", "step": 2.5}})
    x = row()
    for change, bad in (
        ({"amount": 1500}, False),
        ({"amount": 1550}, True),
        ({"rate": 7.5}, False),
        ({"rate": 7.0}, True),
        ({}, False),
    ):
        assert bool(made.violations(x, row(**change))) is bad


def test_search_and_exact_walk_in_steps() -> None:
    made = space({"amount": {"kind": "any", "step": 500}, "gain": {"kind": "any", "step": 1000}})
    model = nn.Sequential(nn.Linear(3, 2)).requires_grad_(False)
    model[0].weight.copy_(torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.2, 0.0]]))
    model[0].bias.zero_()
    x = torch.cat([row(amount=amount, gain=0) for amount in (250, 800, 1250, 1500)])
    target = torch.ones(4, dtype=torch.int64)
    amounts = SCHEMA.encode(
        pd.DataFrame(
            [(a, g, 5.0) for a in range(500, 5001, 500) for g in (0, 1000, 2000, 3000)],
            columns=["amount", "gain", "rate"],
        )
    )
    exact = make_solver(load_settings("fp32", "compas", solver="exact").solver)
    search = make_solver(load_settings("fp32", "compas", solver="search").solver)
    for kappa in (0.1, 0.6):
        best = exact.solve(model, made, x, target, kappa)
        ours = search.solve(model, made, x, target, kappa)
        for i in range(4):
            candidates = torch.cat([amounts, row(amount=TRAIN["amount"][0], gain=0)])
            candidates[-1] = x[i]  # the factual amount with other gains
            own = amounts.clone()
            own[:, 0] = x[i, 0]
            candidates = torch.cat([candidates, own])
            ok = (model(candidates)[:, 1] - model(candidates)[:, 0]) > kappa
            cost = made.cost(x[i].expand_as(candidates), candidates)[ok].min()
            assert best.status[i] == Status.FOUND
            assert best.cost[i] == pytest.approx(float(cost), abs=1e-5)
            assert ours.cost[i] >= cost - 1e-5
            assert not made.violations(x[[i]], ours.point[[i]]).any()


def test_percentiles_of_one_feature_are_the_train_rows() -> None:
    made = space(
        {
            "amount": {"kind": "any", "low_percentile": 0.1, "high_percentile": 0.5},
            "rate": {"kind": "any", "low_percentile": 0.25},
        },
        bounds={"low": 0.0, "high": 0.8},
    )
    low = SCHEMA.destandardize(made.low[None])[0]
    high = SCHEMA.destandardize(made.high[None])[0]
    names = [feature.name for feature in SCHEMA.features]
    amount, rate = names.index("amount"), names.index("rate")
    assert low[amount] == pytest.approx(np.ceil(TRAIN["amount"].quantile(0.1)), abs=1e-3)
    assert high[amount] == pytest.approx(np.floor(TRAIN["amount"].quantile(0.5)), abs=1e-3)
    assert low[rate] == pytest.approx(TRAIN["rate"].quantile(0.25), abs=1e-5)
    assert high[rate] == pytest.approx(TRAIN["rate"].quantile(0.8), abs=1e-5)


def test_gamma_makes_no_amount_negative() -> None:
    wide = space(dict.fromkeys(KINDS, "any"), gamma=5.0)
    lowest = SCHEMA.destandardize(wide.project(row(), torch.full((1, 3), -1e6)))[0]
    assert lowest.abs().max() < 1e-4  # all of them end at 0
    debt = TRAIN.assign(rate=TRAIN["rate"] - 5.0)
    schema = FeatureSchema.fit(debt, KINDS)
    settings = wide.settings
    signed = ActionSet(schema, settings, schema.encode(debt))
    low, _ = signed.row_bounds(schema.encode(debt.iloc[[50]]))
    assert schema.destandardize(low)[0, -1] < -10.0  # a rate that is negative may go further down


@pytest.mark.parametrize(
    ("data", "feature", "action", "words"),
    [
        ("german", "credit_amount", "{kind: any, step: 0.5}", ["credit_amount", "whole number"]),
        ("german", "credit_amount", "{kind: any, step: -5}", ["credit_amount", "greater than 0"]),
        ("german", "purpose", "{kind: any, step: 2}", ["purpose", "categorical", "step"]),
        ("german", "purpose", "{kind: any, low_percentile: 0.1}", ["purpose", "no bounds"]),
        ("german", "skill_level", "{kind: any, step: 2}", ["skill_level", "ordinal"]),
        ("german", "age", "{kind: any, low_percentile: 5}", ["low_percentile", "[0, 1]"]),
        ("german", "age", "{kind: any, low: 5, low_percentile: 0.1}", ["low", "same end"]),
        ("german", "age", "{kind: any, low_percentile: 0.9, high_percentile: 0.1}", ["above"]),
    ],
)
def test_what_cannot_be_an_action_is_one_line(
    data: str, feature: str, action: str, words: list[str]
) -> None:
    with pytest.raises(UserError) as error:
        load_settings("fp32", data, overrides=[f"actions.features.{feature}={action}"])
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_a_step_that_no_value_meets_and_one_too_fine_are_named() -> None:
    with pytest.raises(UserError, match=r"rate.*steps of 100"):
        space({"rate": {"kind": "any", "low": 1.0, "step": 100.0}})
    with pytest.raises(UserError, match=r"rate.*too fine"):
        space({"rate": {"kind": "any", "step": 1e-6}})


@pytest.mark.parametrize(
    ("name", "k", "gamma"), [("restrictive", 2, 0.5), ("moderate", 4, 1.0), ("permissive", 8, 1.5)]
)
def test_regimes_are_those_of_table_25(name: str, k: int, gamma: float) -> None:
    settings = load_settings("fp32", "compas", actions="compas/strict", regime=name)
    assert (settings.actions.regime, settings.actions.max_features) == (name, k)
    assert settings.actions.gamma == gamma
    plain = load_settings("fp32", "compas", actions="compas/strict")
    assert settings.actions.features == plain.actions.features
    assert plain.actions.regime is None
    again: Settings = settings_from_config(settings.model_dump(mode="json"))
    assert again.model_dump() == settings.model_dump()


def test_a_regime_is_an_option_of_the_command(tmp_path: Path) -> None:
    def call(*arguments: str) -> Any:
        return CliRunner().invoke(main, arguments)

    listed = call("list", "regime")
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in ("restrictive", "moderate", "permissive"))
    wrong = call("run", "--regime", "permisive", "--results-dir", str(tmp_path))
    assert wrong.exit_code == 2
    assert "permissive" in wrong.output
    both = call("run", "--regime", "moderate", "--results-dir", str(tmp_path), "actions.gamma=2")
    assert both.exit_code == 2
    assert "leave out one of the two" in both.output
