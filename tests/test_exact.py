"""The exact solver against enumeration, and what it does where it cannot prove anything."""

import importlib.util
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from cfq_bench.actions import exact as exact_module
from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.exact import ExactAnswer, exact_actions
from cfq_bench.actions.greedy import greedy_actions
from cfq_bench.actions.layers import read_layers
from cfq_bench.actions.outcome import Solution, Status, target_margin
from cfq_bench.actions.program import Outcome, Program, Verdict
from cfq_bench.actions.solver import in_blocks, make_solver
from cfq_bench.config.actions import ActionSettings
from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import FeatureSettings
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.errors import UserError
from cfq_bench.evaluation.evaluate import solver_gap
from cfq_bench.evaluation.teacher_recourse import Direction
from cfq_bench.methods.base import Context, make_method

pytestmark = pytest.mark.slow

KAPPA = 0.1
SEEDS = range(3)
TRAIN = pd.DataFrame(
    {
        "age": [20, 23, 26, 29, 31],
        "loans": [0, 1, 3, 6, 7],
        "pay": [0.0, 1.0, 2.0, 3.0, 4.0],
        "rank": ["a", "b", "c", "c", "b"],
        "hue": ["r", "g", "b", "r", "g"],
        "sex": ["f", "m", "f", "m", "f"],
    }
)
KINDS = {
    "age": FeatureSettings(kind="integer"),
    "loans": FeatureSettings(kind="integer", transform="log1p"),
    "pay": FeatureSettings(kind="numeric"),
    "rank": FeatureSettings(kind="ordinal", order=["a", "b", "c"]),
    "hue": FeatureSettings(kind="categorical"),
    "sex": FeatureSettings(kind="categorical"),
}
WHOLE = ["age", "loans", "rank", "hue", "sex"]
"""Features with finitely many values: A(x) can be enumerated."""


def space_of(
    names: list[str] = WHOLE, features: dict[str, Any] | None = None, **changes: Any
) -> ActionSet:
    frame = TRAIN[names]
    schema = FeatureSchema.fit(frame, {name: KINDS[name] for name in names})
    raw: dict[str, Any] = {
        "name": "made",
        "about": "made for a test",
        "max_features": None,
        "bounds": {"low": 0.0, "high": 1.0},
        "gamma": 1.0,
        "grid": True,
        "cost": "weighted_l1",
        "features": {**dict.fromkeys(names, "any"), **(features or {})},
    }
    return ActionSet(
        schema, ActionSettings.model_validate({**raw, **changes}), schema.encode(frame)
    )


def random_rows(space: ActionSet, count: int, seed: int) -> Tensor:
    """Rows, some of them beyond the bounds of the train rows."""
    rng = np.random.default_rng(seed)
    choices = {
        "age": rng.integers(19, 33, count),
        "loans": rng.integers(0, 9, count),
        "pay": rng.normal(2.0, 1.5, count).round(2),
        "rank": rng.choice(["a", "b", "c"], count),
        "hue": rng.choice(["r", "g", "b"], count),
        "sex": rng.choice(["f", "m"], count),
    }
    return space.schema.encode(
        pd.DataFrame({f.name: choices[f.name] for f in space.schema.features})
    )


def network(width: int, hidden: list[int], seed: int, shift: float = 0.0) -> nn.Sequential:
    """A random network; `shift` is added to the margin of class 1."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise([width, *hidden]):
            layers += [nn.Linear(before, after), nn.ReLU()]
        last = nn.Linear(hidden[-1] if hidden else width, 2)
    with torch.no_grad():
        last.weight.mul_(4.0)
        last.bias[1] += shift
    return nn.Sequential(*layers, last).requires_grad_(False)


def task(
    space: ActionSet, hidden: list[int], seed: int, most: int
) -> tuple[nn.Module, Tensor, Tensor]:
    """A model, rows that it does not give the target, and the target; the class takes turns.

    The model refuses four rows in five, and 19 in 20 for every third seed.
    """
    model = network(space.schema.width, hidden, seed)
    x = random_rows(space, 60, seed)
    target = torch.full((len(x),), 1 - seed % 2)
    sign = 1.0 if seed % 2 == 0 else -1.0
    share = 0.95 if seed % 3 == 2 else 0.8
    with torch.no_grad():
        model[-1].bias[1] -= sign * target_margin(model(x), target).quantile(share)  # type: ignore[operator, index]
    needed = target_margin(model(x), target) <= 0
    return model, x[needed][:most], target[needed][:most]


def everything(space: ActionSet) -> Tensor:
    """Every row of the table's finite features, (P, d)."""
    values = {
        "age": range(19, 33),
        "loans": range(9),
        "rank": ["a", "b", "c"],
        "hue": ["r", "g", "b"],
        "sex": ["f", "m"],
    }
    names = [feature.name for feature in space.schema.features]
    rows = itertools.product(*(values[name] for name in names))
    return space.schema.encode(pd.DataFrame(rows, columns=names))


def brute_force(
    model: nn.Module, space: ActionSet, x: Tensor, target: Tensor, points: Tensor
) -> np.ndarray:
    """Least cost of every row, over points in A(x) that exceed the margin."""
    best = []
    for row, wanted in zip(x, target, strict=True):
        origin = row.expand_as(points)
        ok = target_margin(model(points), wanted.expand(len(points))) > KAPPA
        ok &= ~space.violations(origin, points)
        cost = torch.where(ok, space.cost(origin, points), torch.inf)
        best.append(float(cost.min()))
    return np.array(best)


def answers(
    model: nn.Module, space: ActionSet, x: Tensor, target: Tensor, time_limit_s: float = 20.0
) -> ExactAnswer:
    answer = exact_actions(model, space, x, target, KAPPA, time_limit_s=time_limit_s)
    found = answer.status == Status.FOUND
    margin = target_margin(in_blocks(model)(answer.point), target)
    assert bool((margin[found] > KAPPA).all())
    assert not space.violations(x, answer.point).any()
    assert torch.equal(answer.point[~found], x[~found])
    assert (answer.cost >= answer.bound - 1e-5).all()
    return answer


@pytest.mark.parametrize("hidden", [[], [6, 5]])
@pytest.mark.parametrize(
    ("k", "features"),
    [
        (1, None),
        (2, {"age": "increase_only", "hue": "immutable"}),
        (3, {"loans": "decrease_only", "rank": "increase_only"}),
        (3, {"age": {"kind": "any", "step": 3}, "loans": {"kind": "any", "step": 2}}),
        (None, None),
    ],
)
def test_the_optimum_is_that_of_enumeration(
    hidden: list[int], k: int | None, features: dict[str, Any] | None
) -> None:
    space = space_of(features=features, max_features=k)
    points = everything(space)
    feasible = infeasible = 0
    for seed in SEEDS:
        model, x, target = task(space, hidden, seed, 4)
        truth = brute_force(model, space, x, target, points)
        answer = answers(model, space, x, target)
        assert ((answer.status == Status.FOUND).numpy() == np.isfinite(truth)).all()
        assert ((answer.status == Status.INFEASIBLE).numpy() == np.isinf(truth)).all()
        np.testing.assert_allclose(answer.cost, truth, atol=1e-5)
        np.testing.assert_allclose(answer.bound, truth, atol=1e-4)
        feasible, infeasible = (
            feasible + np.isfinite(truth).sum(),
            infeasible + np.isinf(truth).sum(),
        )
    assert feasible >= 3
    if k == 1:
        assert infeasible >= 1


@pytest.mark.parametrize("hidden", [[], [6, 5]])
def test_numeric_columns_take_any_value(hidden: list[int]) -> None:
    space = space_of(["age", "pay", "hue"], max_features=2)
    steps = torch.linspace(-4.0, 4.0, 1601)
    gaps = []
    for seed in SEEDS:
        model, x, target = task(space, hidden, seed, 3)
        answer = answers(model, space, x, target)
        for i, row in enumerate(x):
            ages = space.schema.standardize(
                torch.stack([torch.arange(19.0, 33.0), torch.zeros(14)], 1).double()
            )[:, 0]
            choices = [ages.tolist(), steps.tolist(), range(3)]
            grid = torch.tensor(list(itertools.product(*choices)))
            own = torch.cat([grid[:, :1], row[1].expand(len(grid), 1), grid[:, 2:]], 1)
            grid = torch.cat([grid, own])
            one_hot = nn.functional.one_hot(grid[:, 2].long(), 3).float()
            points = torch.cat([grid[:, :2], one_hot], 1)
            near = (points[:, 0] - row[0]).abs() < 1e-4
            points[near, 0] = row[0]
            truth = brute_force(model, space, row[None], target[[i]], points)[0]
            assert answer.cost[i] <= truth + 1e-5
            if np.isfinite(truth):
                assert answer.cost[i] >= truth - 2 * 0.005 - 1e-4
                gaps.append(answer.cost[i] - answer.bound[i])
            else:
                assert answer.status[i] == Status.INFEASIBLE
    assert len(gaps) >= 3
    assert max(gaps) < 1e-3


def test_columns_with_many_values_are_relaxed_and_the_bound_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exact_module, "MOST_VALUES", 2)
    space = space_of(max_features=3)
    points = everything(space)
    apart = 0
    for seed in SEEDS:
        model, x, target = task(space, [6], seed, 4)
        truth = brute_force(model, space, x, target, points)
        answer = answers(model, space, x, target)
        assert (answer.bound <= truth + 1e-5).all()
        assert (answer.cost >= truth - 1e-5).all()
        apart += int((answer.bound < truth - 1e-3).sum())
    assert apart >= 1


def test_what_no_action_reaches_is_infeasible() -> None:
    space = space_of(max_features=2)
    for hidden in ([], [6, 5]):
        model = network(space.schema.width, hidden, 0, shift=-50.0)
        x = random_rows(space, 5, 0)
        answer = answers(model, space, x, torch.ones(5, dtype=torch.int64))
        assert set(answer.status.tolist()) == {int(Status.INFEASIBLE)}
        assert np.isinf(answer.bound).all()
        assert np.isinf(answer.cost).all()


def test_nothing_to_move_is_infeasible() -> None:
    space = space_of(["age", "hue"], features={"age": "decrease_only", "hue": "immutable"})
    x = space.schema.encode(pd.DataFrame({"age": [20], "hue": ["r"]}))
    for hidden in ([], [3]):
        model = network(space.schema.width, hidden, 0, shift=-9.0)
        answer = answers(model, space, x, torch.ones(1, dtype=torch.int64))
        assert answer.status.tolist() == [int(Status.INFEASIBLE)]


def test_a_time_out_is_not_a_proof() -> None:
    space = space_of()
    model = network(space.schema.width, [24, 24], 0, shift=-40.0)
    x = random_rows(space, 3, 0)
    start = time.perf_counter()
    answer = answers(model, space, x, torch.ones(3, dtype=torch.int64), time_limit_s=1e-6)
    assert time.perf_counter() - start < 5.0
    assert set(answer.status.tolist()) == {int(Status.NOT_FOUND)}
    assert (answer.bound >= 0.0).all()
    assert np.isfinite(answer.bound).all()


@pytest.mark.parametrize("moved", [0.0, 1.0])
def test_what_highs_claims_is_checked_on_the_network(
    monkeypatch: pytest.MonkeyPatch, moved: float
) -> None:
    """Points that do not reach the margin, or leave A(x), are no answers."""
    space = space_of(max_features=1)
    model = network(space.schema.width, [6], 0, shift=-50.0)

    def lie(self: Program, need: float, time_limit_s: float) -> Outcome:
        return Outcome(Verdict.OPTIMAL, moved * self.moves.upper, 0.0)

    monkeypatch.setattr(Program, "solve", lie)
    answer = answers(model, space, random_rows(space, 3, 0), torch.ones(3, dtype=torch.int64))
    assert set(answer.status.tolist()) == {int(Status.NOT_FOUND)}


def test_where_the_start_is_the_optimum_it_is_the_answer() -> None:
    space = space_of(max_features=2)
    for seed in SEEDS:
        model, x, target = task(space, [6], seed, 4)
        first = answers(model, space, x, target)
        ok = first.status == Status.FOUND
        again = exact_actions(
            model, space, x, target, KAPPA, time_limit_s=20.0, start=(first.point, ok)
        )
        assert torch.equal(again.status, first.status)
        np.testing.assert_allclose(again.cost, first.cost, atol=1e-6)


# --- as a solver ---


def solver(*overrides: str) -> Any:
    return make_solver(load_settings(solver="exact", overrides=overrides).solver)


def test_a_row_s_answer_does_not_depend_on_its_company() -> None:
    space = space_of(max_features=2)
    model, _, _ = task(space, [8], 0, 0)
    x = random_rows(space, 60, 0)[:24]
    target = torch.ones(len(x), dtype=torch.int64)
    whole: Solution = solver().solve(model, space, x, target, KAPPA)
    counts = {int(status) for status in whole.status}
    assert {int(Status.FOUND), int(Status.NOT_NEEDED)} <= counts
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    for rows in (order, order[:7], torch.tensor([int(whole.found.nonzero()[0])])):
        part = solver().solve(model, space, x[rows], target[rows], KAPPA)
        for name, value in vars(part).items():
            assert torch.equal(value, getattr(whole, name)[rows]), name


def gelu(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 4), nn.GELU(), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: network(d, [64, 32], 0), "out of reach for 96 hidden units, at most 48"),
        (gelu, "got a GELU at place 1"),
        (lambda d: nn.Sequential(nn.Linear(d, 4), nn.Linear(4, 2)), "got a Linear at place 1"),
        (lambda d: nn.Sequential(nn.Linear(d, 3)), "two logits"),
        (lambda d: nn.Sequential(nn.Linear(d, 2), nn.ReLU()), "two logits"),
        (lambda d: lambda u: u[:, :2], "got a function"),
        (lambda d: nn.Linear(d, 2), "got a Linear"),
    ],
)
def test_networks_that_cannot_be_read_are_refused(make: Callable[[int], Any], message: str) -> None:
    space = space_of()
    x = random_rows(space, 30, 0)
    start = time.perf_counter()
    with pytest.raises(UserError, match=message) as error:
        answers(make(space.schema.width), space, x, torch.ones(30, dtype=torch.int64))
    assert time.perf_counter() - start < 2.0
    assert "\n" not in str(error.value)


def test_other_costs_are_refused() -> None:
    space = space_of(cost="weighted_l2")
    x = random_rows(space, 2, 0)
    with pytest.raises(UserError, match="need the weighted_l1 cost, got weighted_l2"):
        answers(network(space.schema.width, [], 0), space, x, torch.ones(2, dtype=torch.int64))


@pytest.mark.parametrize("blocks", ["true", "false"])
def test_quantized_weights_are_read_and_quantized_activations_refused(
    make_context: Callable[..., Context], blocks: str
) -> None:
    context = make_context("lsq", f"quantization.input_blocks={blocks}")
    deployed = make_method(context).deployed()
    with pytest.raises(UserError, match="its input is quantized to 8 bits, a step function"):
        read_layers(deployed, 1000)
    only_first = nn.ModuleList([next(iter(deployed.layers))])
    for unit in only_first.modules():
        for name in ("codes", "step", "bias"):
            value = getattr(unit, name, None)
            if value is not None and len(value) > 2:
                setattr(unit, name, value[:2])
    deployed.layers = only_first  # a quantized linear model with two logits
    (margin,) = read_layers(deployed, 0)
    x = context.data.test.x[:5]
    logits = deployed(x).double().numpy()
    np.testing.assert_allclose(
        x.double().numpy() @ margin.weight[0] + margin.bias[0],
        logits[:, 1] - logits[:, 0],
        atol=1e-5,
    )


def test_the_solver_s_gap_is_known_for_small_networks_only() -> None:
    space = space_of(max_features=2)
    settings = load_settings(overrides=["evaluation.exact_rows=8"])
    search = make_solver(settings.solver)
    for hidden, known in (([16, 8], True), ([64, 32], False)):
        model, x, target = task(space, hidden, 0, 30)
        solution = search.solve(model, space, x, target, KAPPA)
        assert bool(solution.found.any())
        direction = Direction("favourable", torch.arange(len(x)), x, target, {KAPPA: solution})
        start = time.perf_counter()
        gap = solver_gap(settings, model, space, direction)
        if known:
            assert -1e-4 <= gap["solver/gap_mean"] < 0.5
        else:
            assert time.perf_counter() - start < 0.5
            assert all(np.isnan(value) for value in gap.values())


def test_the_largest_gains_reach_what_the_cheapest_do_not() -> None:
    """At k = 2, cheap gains of age would take a place that loans and hue need."""
    space = space_of(max_features=2)
    model = nn.Sequential(nn.Linear(space.schema.width, 2))
    x = space.schema.encode(
        pd.DataFrame({"age": [30], "loans": [0], "rank": ["a"], "hue": ["b"], "sex": ["f"]})
    )
    column = {feature.name: feature.start for feature in space.schema.features}
    with torch.no_grad():
        model[0].weight.zero_()
        weight = model[0].weight[1]
        weight[column["age"]] = 9.0  # one year to the bound: the best rate, a small gain
        weight[column["loans"]] = 4.0
        weight[column["hue"] + 2] = 3.0
        reach = [float(end[0, column["loans"]]) for end in space.row_bounds(x)]
        gain = 4.0 * (reach[1] - float(x[0, column["loans"]])) + 3.0
        model[0].bias.copy_(torch.tensor([0.0, 0.2 - gain - float(weight @ x[0])]))
    model.requires_grad_(False)
    target = torch.ones(1, dtype=torch.int64)
    assert answers(model, space, x, target).status.tolist() == [int(Status.FOUND)]
    for price_matters in (True, False):
        point, valid = greedy_actions(
            model, space, x, target, KAPPA, points=13, price_matters=price_matters
        )
        assert bool(valid) is not price_matters
        assert not space.violations(x, point).any()


def test_the_gap_report_writes_what_it_measured(tmp_path: Path) -> None:
    path = Path(__file__).parents[1] / "scripts" / "gap_report.py"
    spec = importlib.util.spec_from_file_location("gap_report", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.main(["--rows", "8", "--data", "german", "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "gap_report.json").read_text())
    assert [(line["backbone"], line["solver"]) for line in report["lines"]] == [
        ("logreg", "search"),
        ("logreg", "pgd"),
        ("mlp_small", "search"),
        ("mlp_small", "pgd"),
    ]
    for line in report["lines"]:
        assert line["rows"] == 8
        assert line["frr_found"] <= line["frr_proved"] <= 1.0
        assert line["gap_mean"] is None or line["gap_mean"] >= -1e-4
    table = (tmp_path / "gap_report.md").read_text().splitlines()
    assert len(table) == 2 + len(report["lines"])
    assert script.main(["--data", "nowhere", "--out", str(tmp_path)]) == 1
    assert (
        "unknown data 'nowhere'"
        in json.loads((tmp_path / "gap_report.json").read_text())["skipped"]["nowhere, logreg"]
    )
