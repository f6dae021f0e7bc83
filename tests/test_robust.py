"""The robust solver's actions hold on every variant, and how often actions do is counted right."""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.outcome import Solution, Status, target_margin
from cfq_bench.actions.robust import Robust, WorstCase
from cfq_bench.actions.solver import Solver, make_solver
from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import ActionSettings, FeatureSettings
from cfq_bench.data.dataset import Split, TabularData
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.errors import UserError
from cfq_bench.evaluation import robustness
from cfq_bench.evaluation.robustness import add_robustness
from cfq_bench.evaluation.tally import Evaluation
from cfq_bench.evaluation.teacher_recourse import Direction
from cfq_bench.experiment import Options, make_context, run
from cfq_bench.methods.base import Context, fit_method, make_method
from cfq_bench.quantization.deployed import DeployedLinear, DeployedNetwork, Shipped
from cfq_bench.record.record import Record
from cfq_bench.report.paper import paper_table
from cfq_bench.training.trainer import Runtime

pytestmark = pytest.mark.slow

Case = tuple[Context, DeployedNetwork]
QUICK = ["solver.steps=8", "solver.grid_points=5", "solver.bisections=6"]
"""A coarser search: what is tested here does not hang on how cheap its answers are."""
WIDE = [*QUICK, "solver.uncertainty.band=0.1", "solver.variants=3"]
"""Variants that differ enough for the standard solver's actions to fail."""


@pytest.fixture(scope="module")
def case(cache_dir: Path, short_overrides: list[str]) -> Case:
    """German Credit and a quantized network on it, at activations of two bits."""
    bits = ["quantization.activation_bits=2", "budget.avg_bits=3"]
    settings = load_settings("lsq", "german", overrides=[*short_overrides, *bits])
    context = make_context(settings, Options(cache_dir=cache_dir), Runtime())
    method = make_method(context)
    fit_method(method)
    f_q = method.deployed()
    assert isinstance(f_q, DeployedNetwork)
    return context, f_q


def solver_of(name: str, calibration: Tensor | None, *overrides: str) -> Solver:
    return make_solver(
        load_settings("fp32", "german", solver=name, overrides=overrides).solver, calibration
    )


def robust_of(calibration: Tensor | None, *overrides: str) -> Robust:
    solver = solver_of("robust", calibration, *overrides)
    assert isinstance(solver, Robust)
    return solver


def same(a: Solution, b: Solution, rows: Tensor | None = None) -> bool:
    """Bitwise; `a` is taken at some rows."""
    rows = torch.arange(len(a.status)) if rows is None else rows
    return all(torch.equal(getattr(a, part)[rows], getattr(b, part)) for part in vars(a))


def mixed_targets(context: Context, count: int) -> tuple[Tensor, Tensor]:
    """Test rows and, for each, the class that the teacher does not give it."""
    x = context.data.test.x[:count]
    return x, 1 - context.teacher(x).argmax(1)


# --- the worst case ---


def test_the_worst_case_is_chosen_row_by_row_and_for_its_class() -> None:
    members = [Constant([0.0, 2.0]), Linear([1.0, 0.0], [0.0, 0.5]), Constant([0.0, 0.0])]
    x = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.2, 0.0]])
    # Margins of class 1: 2 and -x + 0.5 and 0. Worst for 1: second, third, third; for 0: 1, 2, 1.
    assert WorstCase(members, 1)(x).tolist() == [[3.0, 0.5], [0.0, 0.0], [0.0, 0.0]]
    against = WorstCase(members, 0)(x)
    torch.testing.assert_close(against, torch.tensor([[0.0, 2.0], [-3.0, 0.5], [0.0, 2.0]]))


def test_the_worst_case_has_the_gradient_of_the_chosen_model() -> None:
    members = [Linear([0.0, 0.0], [0.0, 1.0]), Linear([1.0, 0.0], [0.0, 0.0])]
    x = torch.tensor([[3.0, 5.0], [-3.0, 5.0]], requires_grad=True)
    logits = WorstCase(members, 1)(x)
    (gradient,) = torch.autograd.grad((logits[:, 1] - logits[:, 0]).sum(), x)
    # The second model's margin is -x0; the first one's is 1, without a gradient.
    assert gradient.tolist() == [[-1.0, 0.0], [0.0, 0.0]]


class Constant(nn.Module):
    """The same logits for every row."""

    def __init__(self, values: Sequence[float]) -> None:
        super().__init__()
        self.values = torch.tensor(values)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.values.expand(len(inputs), -1)


class Linear(nn.Module):
    """Logits (w x, 0) + b of two columns."""

    def __init__(self, weight: Sequence[float], bias: Sequence[float]) -> None:
        super().__init__()
        self.weight, self.bias = torch.tensor(weight), torch.tensor(bias)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([inputs @ self.weight, torch.zeros(len(inputs))], 1) + self.bias


# --- the solver ---


@pytest.mark.parametrize("kappa", [0.0, 0.1])
def test_on_a_float_model_it_is_the_search_bitwise(case: Case, kappa: float) -> None:
    context, _ = case
    x, target = mixed_targets(context, 40)
    search = solver_of("search", None, *QUICK)
    standard = search.solve(context.teacher, context.actions, x, target, kappa)
    robust = robust_of(context.data.train.x, *QUICK)
    assert same(standard, robust.solve(context.teacher, context.actions, x, target, kappa))
    assert bool(standard.found.any())


def test_its_search_has_the_settings_of_the_standard_one() -> None:
    """Else costs would be compared between two searches and not between two demands."""
    robust, search = (
        load_settings("fp32", "german", solver=name).solver.model_dump()
        for name in ("robust", "search")
    )
    shared = search.keys() - {"name", "about", "module"}
    assert shared
    assert {key: robust[key] for key in shared} == {key: search[key] for key in shared}


def test_evaluations_vary_as_the_solver_expects() -> None:
    settings = load_settings("fp32", "german", solver="robust")
    expected = settings.solver.model_dump()["uncertainty"]
    assert settings.evaluation.uncertainty.model_dump() == expected


@pytest.mark.parametrize("kappa", [0.0, 0.1])
def test_every_action_holds_on_every_variant(case: Case, kappa: float) -> None:
    """Evaluated again, one plain call for each variant; the standard solver's actions fail."""
    context, f_q = case
    x, target = mixed_targets(context, 50)
    solver = robust_of(context.data.train.x, *WIDE)
    got = solver.solve(f_q, context.actions, x, target, kappa)
    plain = solver.standard().solve(f_q, context.actions, x, target, kappa)
    variants = solver.variants(f_q)
    assert len(variants) == 3
    assert {0, 1} <= set(target[got.found].tolist())

    def worst(solution: Solution) -> Tensor:
        with torch.no_grad():
            margins = [
                target_margin(one(context.actions.to_input(solution.point)), target)
                for one in (f_q, *variants)
            ]
        return torch.stack(margins).amin(0)[solution.found]

    assert bool((worst(got) > kappa - 1e-5).all())
    assert bool((worst(plain) < kappa - 1e-3).any())
    # A row needs an action where f_q rejects it, whatever its variants say.
    assert torch.equal(got.status == Status.NOT_NEEDED, plain.status == Status.NOT_NEEDED)
    both = got.found & plain.found
    assert float(got.cost[both].mean()) > float(plain.cost[both].mean())


def test_a_row_s_answer_does_not_depend_on_its_company(case: Case) -> None:
    context, f_q = case
    x, target = mixed_targets(context, 24)
    solver = robust_of(context.data.train.x, *WIDE)

    def solve(rows: Tensor) -> Solution:
        return solver.solve(f_q, context.actions, x[rows], target[rows], 0.1)

    whole = solve(torch.arange(len(x)))
    assert bool(whole.found.any())
    shuffled = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    alone = [torch.tensor([int(i)]) for i in whole.found.nonzero()[:2, 0]]
    for rows in (shuffled, shuffled[:7], *alone):
        assert same(whole, solve(rows), rows)


def test_another_solver_of_the_same_settings_has_the_same_variants(case: Case) -> None:
    context, f_q = case
    x = context.data.test.x[:20]
    train = context.data.train.x

    def logits(*overrides: str) -> list[Tensor]:
        with torch.no_grad():
            return [one(x) for one in robust_of(train, *overrides).variants(f_q)]

    assert all(map(torch.equal, logits(), logits()))
    assert not any(map(torch.equal, logits(), logits("solver.seed=1")))
    solver = robust_of(train)
    assert solver.variants(f_q) is solver.variants(f_q)  # drawn once


def test_without_rows_to_calibrate_on_it_says_so(case: Case) -> None:
    context, f_q = case
    x, target = mixed_targets(context, 5)
    with pytest.raises(UserError, match=r"^solver 'robust' needs train rows .*calibration_rows=0"):
        robust_of(None).solve(f_q, context.actions, x, target, 0.1)
    needs_none = robust_of(None, *QUICK, "solver.uncertainty.calibration_rows=0")
    assert len(needs_none.solve(f_q, context.actions, x, target, 0.1).status) == 5


# --- one layer, by hand ---


def line(high: float = 10.0) -> tuple[TabularData, ActionSet]:
    """One numeric feature z (scale 1) and a second one that nothing may change."""
    train = pd.DataFrame({"z": [-1.0, 1.0], "hue": ["a", "b"]})
    kinds = {"z": FeatureSettings(kind="numeric"), "hue": FeatureSettings(kind="categorical")}
    schema = FeatureSchema.fit(train, kinds)
    fit = Split(schema.encode(train), torch.tensor([0, 1]), np.arange(2))
    test = pd.DataFrame({"z": [-2.0, -1.0, 0.0, 3.0], "hue": ["a", "b", "a", "b"]})
    split = Split(schema.encode(test), torch.tensor([0, 0, 1, 1]), np.arange(4))
    hue = test[["hue"]]
    data = TabularData(fit, fit, split, hue, hue, hue, "made", "0", schema)
    made = {"name": "made", "about": "made", "max_features": None, "gamma": 1.0, "grid": True}
    features = {"z": {"kind": "any", "low": -10.0, "high": high}, "hue": "immutable"}
    bounds = {"low": 0.0, "high": 1.0}
    settings = ActionSettings.model_validate(
        {**made, "bounds": bounds, "cost": "weighted_l1", "features": features}
    )
    return data, ActionSet(schema, settings, fit.x)


def one_layer() -> DeployedNetwork:
    """Margin of class 1: 3 codes of step 0.5 on z, minus 1.5: z - 1 in units of 1.5."""
    weight = torch.tensor([[0.0, 0.0, 0.0], [1.5, 0.0, 0.0]])
    bias, step = torch.tensor([0.0, -1.5]), torch.tensor([[0.5]])
    return DeployedNetwork(
        [DeployedLinear(Shipped("layer1", weight, bias, step, 4, None, None, 32))]
    )


def steps_of(networks: Sequence[nn.Module]) -> list[float]:
    return [float(one.units[0].step) for one in networks if isinstance(one, DeployedNetwork)]


def test_the_cost_is_that_of_the_least_step() -> None:
    """Margin 3 s z - 1.5 > kappa: z = (1.5 + kappa) / 3 s, dearest where the step s is least."""
    data, space = line()
    solver = robust_of(None, "solver.uncertainty.band=0.2", "solver.uncertainty.calibration_rows=0")
    f_q, x, target = one_layer(), data.test.x, torch.ones(4, dtype=torch.int64)
    got = solver.solve(f_q, space, x, target, 0.1)
    least = min([0.5, *steps_of(solver.variants(f_q))])
    assert least < 0.47  # the band reaches 0.4
    end = 1.6 / (3 * least)
    assert got.status.tolist() == [Status.FOUND] * 3 + [Status.NOT_NEEDED]
    np.testing.assert_allclose(got.cost.numpy(), [end + 2, end + 1, end, 0.0], rtol=2e-3)
    plain = solver.standard().solve(f_q, space, x, target, 0.1)
    np.testing.assert_allclose(
        plain.cost[:3].numpy(), [1.6 / 1.5 + i for i in (2, 1, 0)], rtol=2e-3
    )


def test_what_is_in_reach_of_f_q_alone_is_not_found() -> None:
    """z ends at 1.08: enough at the nominal step (1.067), too little at the least one."""
    data, space = line(high=1.08)
    overrides = ["solver.uncertainty.band=0.2", "solver.uncertainty.calibration_rows=0"]
    solver = robust_of(None, *overrides)
    f_q, x, target = one_layer(), data.test.x[:3], torch.ones(3, dtype=torch.int64)
    assert bool(solver.standard().solve(f_q, space, x, target, 0.1).found.all())
    got = solver.solve(f_q, space, x, target, 0.1)
    assert got.status.tolist() == [Status.NOT_FOUND] * 3
    assert torch.equal(got.point, x)
    assert bool(got.cost.isinf().all())


# --- what is counted ---


def counted(
    monkeypatch: pytest.MonkeyPatch, variants: list[nn.Module], solver: Solver, high: float = 10.0
) -> Evaluation:
    """`add_robustness` on the four rows of `line`, with variants of the test's own."""
    data, space = line(high)
    target = torch.ones(4, dtype=torch.int64)
    f_q = one_layer()
    on_q = solver.solve(f_q, space, data.test.x, target, 0.1)
    result = Evaluation({"task/acc": 1.0}, {"task/acc": 4}, pd.DataFrame(), on_q, 8.0)
    direction = Direction("favourable", torch.arange(4), data.test.x, target, {})
    settings = load_settings("fp32", "german", overrides=["evaluation.variants=3"])
    monkeypatch.setattr(robustness, "deployment_variants", lambda *_: variants)
    return add_robustness(result, f_q, data, space, solver, direction, settings)


def threshold(at: float) -> nn.Module:
    """Accepts z > at."""
    layer = nn.Linear(3, 2).requires_grad_(False)
    layer.weight.zero_()[1, 0] = 1.0
    layer.bias.copy_(torch.tensor([0.0, -at]))
    return layer


def test_success_is_counted_over_the_rows_that_f_q_rejects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Actions end at z = 1.067; variants accept from 1, from 1.05 and from 2. One row is free."""
    variants = [threshold(1.0), threshold(1.05), threshold(2.0)]
    got = counted(monkeypatch, variants, solver_of("search", None))
    assert got.metrics == {
        "task/acc": 1.0,
        "robust/nominal_success": 1.0,
        "robust/success": pytest.approx(2 / 3),
        "robust/worst_success": 0.0,
    }
    assert got.counts == {"task/acc": 4} | dict.fromkeys(list(got.metrics)[1:], 3)


def test_a_row_without_an_action_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where z ends at 1 no action exists, though a variant accepts every row as it is."""
    got = counted(monkeypatch, [threshold(-5.0)], solver_of("search", None), high=1.0)
    for key in ("nominal_success", "success", "worst_success"):
        assert (got.metrics[f"robust/{key}"], got.counts[f"robust/{key}"]) == (0.0, 3)


def test_the_standard_solver_is_measured_beside_the_robust_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overrides = ["solver.uncertainty.band=0.2", "solver.uncertainty.calibration_rows=0"]
    solver = robust_of(None, *overrides)
    got = counted(monkeypatch, [threshold(1.0), threshold(1.05)], solver)
    f_q = one_layer()
    end = 1.6 / (3 * min([0.5, *steps_of(solver.variants(f_q))]))
    assert got.metrics["robust/cost_ratio"] == pytest.approx((end + 1) / (1.6 / 1.5 + 1), rel=2e-3)
    assert got.counts["robust/cost_ratio"] == 3
    assert got.metrics["robust/time_ratio"] > 1.0  # the 8 s of the result over milliseconds
    assert got.metrics["robust/success"] == got.metrics["robust/worst_success"] == 1.0


def test_costs_are_compared_where_both_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ["solver.uncertainty.band=0.2", "solver.uncertainty.calibration_rows=0"]
    got = counted(monkeypatch, [threshold(1.0)], robust_of(None, *overrides), high=1.08)
    assert np.isnan(got.metrics["robust/cost_ratio"])
    assert got.counts["robust/cost_ratio"] == 0
    assert got.metrics["robust/nominal_success"] == 0.0


# --- runs ---

Run = Callable[..., Record]


@pytest.fixture
def short_run(tmp_path: Path, cache_dir: Path, short_overrides: list[str]) -> Run:
    def start(method: str, solver: str, *overrides: str) -> Record:
        short = [*short_overrides, *QUICK, "evaluation.extra_kappas=[]", "evaluation.max_rows=10"]
        settings = load_settings(method, "german", solver=solver, overrides=[*short, *overrides])
        options = Options(tmp_path, cache_dir=cache_dir, wandb="disabled", force=True)
        return run(settings, options)

    return start


def robust_metrics(record: Record) -> dict[str, float | None]:
    assert record.status == "ok", record.reason
    return {key: value for key, value in record.metrics.items() if key.startswith("robust/")}


def test_records_have_the_keys_that_were_asked_for(short_run: Run) -> None:
    assert robust_metrics(short_run("lsq", "search")) == {}
    rates = {"robust/nominal_success", "robust/success", "robust/worst_success"}
    plain = robust_metrics(short_run("lsq", "search", "evaluation.variants=3"))
    assert plain.keys() == rates
    robust = short_run("lsq", "robust", "evaluation.variants=3", "solver.variants=2")
    found = robust_metrics(robust)
    assert found.keys() == rates | {"robust/cost_ratio", "robust/time_ratio"}
    assert all(value is not None and value >= 0 for value in found.values())
    again = robust_metrics(short_run("lsq", "robust", "evaluation.variants=3", "solver.variants=2"))
    assert {**again, "robust/time_ratio": 0} == {**found, "robust/time_ratio": 0}
    assert robust.counts["robust/success"] > 0


def test_a_float_model_loses_nothing(short_run: Run) -> None:
    """Its only variant is itself."""
    got = robust_metrics(short_run("fp32", "search", "evaluation.variants=3"))
    assert got["robust/nominal_success"] == got["robust/success"] == got["robust/worst_success"]


def test_an_evaluation_never_draws_the_solver_s_variants(
    short_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: dict[str, list[int]] = {"actions.robust": [], "evaluation.robustness": []}
    for module, kept in seeds.items():
        name = f"cfq_bench.{module}.deployment_variants"
        original = robustness.deployment_variants

        def spy(*arguments: Any, kept: list[int] = kept, original: Any = original) -> Any:
            kept.append(arguments[-1])
            return original(*arguments)

        monkeypatch.setattr(name, spy)
    for seed in (0, 1):
        extra = ["evaluation.variants=2", "solver.variants=2", f"seed={seed}"]
        short_run("lsq", "robust", *extra)
    solver, evaluation = seeds.values()
    assert len(set(evaluation)) == 2  # the run's seed reaches them
    assert solver
    assert not set(solver) & set(evaluation)


# --- the table ---


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[1] / "scripts" / "robust_table.py"
    spec = importlib.util.spec_from_file_location("robust_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_paper_s_table_is_read_as_printed() -> None:
    cells = paper_table(13)
    assert len(cells) == 24
    by_place = {(c.dataset, c.method, c.metric): (c.mean, c.std) for c in cells}
    assert by_place["german", "robust_solver", "robust_success"] == (0.845, 0.018)
    assert by_place["adult", "cfq", "mean_cost"] == (1.03, 0.03)
    assert any(cell.std is None for cell in paper_table(30))
    with pytest.raises(UserError, match="Table 99"):
        paper_table(99)


def test_the_table_has_the_paper_s_rows_beside_ours(script: ModuleType) -> None:
    keys = (*script.COLUMNS, "worst_success")
    results = {
        (data, *row): [dict.fromkeys(keys, 0.25), dict.fromkeys(keys, 0.75)]
        for data in script.DATA
        for row in script.ROWS
    }
    lines = script.table(results).splitlines()
    assert sum("*paper:" in line for line in lines) == 3  # German Credit alone is in both
    at = lines.index("| german | robust solver on f_q (lsq), M = 8 |" + " 0.500 ± 0.354 |" * 5)
    assert lines[at + 1] == (
        "| german | *paper: robust solver* | 0.892 ± 0.013 | 0.845 ± 0.018 | 1.150 ± 0.060 "
        "| 2.410 ± 0.140 | - |"
    )
    assert {line.count("|") for line in lines} == {8}


def test_costs_and_times_are_relative_to_the_standard_run(script: ModuleType) -> None:
    rows = {
        "ours": [(1, "favourable", "found", 3.0), (2, "favourable", "not_found", np.inf),
                 (3, "favourable", "found", 1.0), (4, "favourable", "not_needed", 0.0)],
        "standard": [(1, "favourable", "found", 2.0), (2, "favourable", "found", 9.0),
                     (3, "favourable", "found", 1.0), (1, "adverse", None, np.nan)],
    }  # fmt: skip
    columns = ["row_id", "direction", "status_q", "cost_q"]

    class Store:
        def read_rows(self, name: str) -> pd.DataFrame:
            return pd.DataFrame(rows[name], columns=columns)

    class Kept:
        def __init__(self, run_id: str, **metrics: float | None) -> None:
            self.run_id = run_id
            self.metrics = {key.replace("_", "/", 1): value for key, value in metrics.items()}

    rates = {"robust_nominal_success": 0.5, "robust_success": None, "robust_worst_success": 0.25}
    ours = Kept("ours", **rates, time_solve_s=3.0)
    standard = Kept("standard", **rates, time_solve_s=2.0)
    got = script.columns(ours, standard, Store())
    assert got["mean_cost"] == pytest.approx(4 / 3)
    assert got["solver_time"] == 1.5
    assert got["nominal_success"] == 0.5
    assert np.isnan(got["robust_success"])
    timed = Kept("ours", **rates, time_solve_s=3.0, robust_time_ratio=6.0)
    assert script.columns(timed, standard, Store())["solver_time"] == 6.0
    assert script.columns(standard, standard, Store())["mean_cost"] == 1.0
