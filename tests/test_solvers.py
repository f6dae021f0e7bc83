"""Solvers return verified actions or say why not, the same for a row in any company."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.exact import exact_actions
from cfq_bench.actions.greedy import greedy_actions
from cfq_bench.actions.outcome import Model, Solution, Status, target_margin
from cfq_bench.actions.pgd import projected_gradient
from cfq_bench.actions.shrink import shrink
from cfq_bench.actions.solver import Solver, in_blocks, make_solver
from cfq_bench.actions.space import ActionSpace
from cfq_bench.actions.teacher_actions import choose_targets, recourse_pool, teacher_actions
from cfq_bench.backbones.base import Backbone
from cfq_bench.cache import Cache
from cfq_bench.config.actions import ActionSettings
from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import FeatureSettings, Settings
from cfq_bench.data.dataset import TabularData, load_data
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.errors import UserError
from cfq_bench.evaluation.teacher_recourse import teacher_recourse
from cfq_bench.teacher.fit import obtain_teacher
from cfq_bench.training.trainer import Runtime

pytestmark = pytest.mark.slow

SOLVERS = ("search", "pgd")
EVERY = (*SOLVERS, "exact")
"""Exact refuses models whose weights it cannot read, and proves instead of giving up."""
KAPPA = 0.1


def solver_named(name: str, *overrides: str) -> Solver:
    return make_solver(load_settings("fp32", "compas", solver=name, overrides=overrides).solver)


def bits(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.int32)


def same(a: Solution, b: Solution) -> bool:
    return torch.equal(a.status, b.status) and all(
        torch.equal(bits(getattr(a, part)), bits(getattr(b, part)))
        for part in ("point", "cost", "margin")
    )


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# --- real data and trained teachers ---


@dataclass
class Task:
    settings: Settings
    data: TabularData
    teacher: Backbone
    space: ActionSet

    def rejected(self, most: int) -> tuple[Tensor, Tensor]:
        x = self.data.test.x
        x = x[self.teacher(x).argmax(1) == 0][:most]
        return x, torch.ones(len(x), dtype=torch.int64)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Task]:
    cache = Cache(tmp_path_factory.mktemp("cache"))
    made: dict[tuple[str, ...], Task] = {}

    def get(data_name: str, backbone: str, *overrides: str) -> Task:
        key = (data_name, backbone, *overrides)
        if key not in made:
            settings = load_settings("fp32", data_name, backbone=backbone, overrides=overrides)
            data = load_data(settings.data, settings.seed)
            space = ActionSet(data.schema, settings.actions, data.train.x)
            teacher = obtain_teacher(settings, data, space, cache, Runtime())
            made[key] = Task(settings, data, teacher, space)
        return made[key]

    return get


# --- a small table and linear models ---

ORDER = ["a", "b", "c", "d"]
TRAIN = pd.DataFrame(
    {
        "age": [20, 24, 28, 32, 36],
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
AGE, PAY, RANK, HUE, SEX = range(5)


def space_of(
    frame: pd.DataFrame = TRAIN, features: dict[str, Any] | None = None, **changes: Any
) -> ActionSet:
    kinds = {name: KINDS[name] for name in frame}
    schema = FeatureSchema.fit(frame, kinds)
    raw: dict[str, Any] = {
        "name": "made",
        "about": "made for a test",
        "max_features": None,
        "bounds": {"low": 0.0, "high": 1.0},
        "gamma": 1.0,
        "grid": True,
        "cost": "weighted_l1",
        "features": {**dict.fromkeys(kinds, "any"), **(features or {})},
    }
    return ActionSet(
        schema, ActionSettings.model_validate({**raw, **changes}), schema.encode(frame)
    )


def linear(weights: list[float] | np.ndarray, bias: float) -> nn.Sequential:
    """Logits (0, w x + b): the margin of class 1 is w x + b."""
    layer = nn.Linear(len(weights), 2)
    with torch.no_grad():
        layer.weight[0] = 0.0
        layer.weight[1] = torch.as_tensor(weights, dtype=torch.float32)
        layer.bias.copy_(torch.tensor([0.0, bias]))
    layer.requires_grad_(False)
    return nn.Sequential(layer)


def random_rows(space: ActionSet, count: int, seed: int) -> Tensor:
    rng = np.random.default_rng(seed)
    choices = {
        "age": rng.integers(18, 40, count),
        "pay": rng.normal(2.0, 2.0, count).round(2),
        "rank": rng.choice(ORDER, count),
        "hue": rng.choice(["r", "g", "b"], count),
        "sex": rng.choice(["f", "m"], count),
    }
    return space.schema.encode(
        pd.DataFrame({f.name: choices[f.name] for f in space.schema.features})
    )


def to_one(x: Tensor) -> Tensor:
    return torch.ones(len(x), dtype=torch.int64)


def check_solution(
    solution: Solution, model: Model, space: ActionSet, x: Tensor, target: Tensor, kappa: float
) -> None:
    """What holds for every answer, verified on decoded rows."""
    found = solution.found
    logits = model(solution.point)
    assert bool((target_margin(logits, target)[found] > kappa - 1e-5).all())
    assert bool((solution.margin[found] > kappa).all())
    assert not space.violations(x, solution.point).any()
    assert torch.equal(bits(solution.point[~found]), bits(x[~found]))
    assert bool(solution.cost[solution.status == Status.NOT_FOUND].isinf().all())
    assert bool((solution.cost[solution.status == Status.NOT_NEEDED] == 0).all())
    assert torch.equal(solution.cost[found], space.cost(x, solution.point)[found])
    frozen = space.immutable[space.feature_of_column]
    assert torch.equal(bits(solution.point[:, frozen]), bits(x[:, frozen]))

    before, after = space.schema.decode(x[found]), space.schema.decode(solution.point[found])
    again = space.schema.encode(after)
    assert bool((target_margin(model(again), target[found]) > kappa - 1e-4).all())
    raw_changed = np.zeros(len(after), dtype=int)
    for feature in space.schema.features:
        moved = (before[feature.name] != after[feature.name]).to_numpy()
        raw_changed += moved
        if space.settings.features[feature.name].kind == "immutable":
            assert not moved.any(), feature.name
        if feature.on_grid or not feature.single:
            columns = slice(feature.start, feature.stop)
            assert torch.equal(bits(again[:, columns]), bits(solution.point[found][:, columns]))
    assert bool((raw_changed <= space.max_features).all())
    assert bool((raw_changed >= 1).all())


# --- faults that users met elsewhere ---


@pytest.mark.parametrize("name", EVERY)
def test_frozen_features_stay_even_with_the_largest_weights(name: str) -> None:
    space = space_of(features={"age": "immutable", "hue": "immutable"})
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": [31] * 100, "hue": ["g"] * 100, "sex": ["f", "m"] * 50})
    frame["pay"], frame["rank"] = rng.normal(1.0, 1.0, 100).round(2), rng.choice(ORDER, 100)
    x = space.schema.encode(frame)
    # One standard deviation of age, or another hue, would flip any row many times over.
    weights = torch.tensor([100.0, 0.8, 0.5, 90.0, -80.0, 70.0, 0.5, -0.5])
    model = linear(weights.numpy(), -float(weights[[0, 4]] @ x[0, [0, 4]]) - 0.5)
    assert int((model(x)[:, 1] < 0).sum()) > 20
    solution = solver_named(name).solve(model, space, x, to_one(x), KAPPA)
    frozen = space.immutable[space.feature_of_column]
    assert frozen.tolist() == [True, False, False, True, True, True, False, False]
    assert bool(solution.found.any())
    assert torch.equal(bits(solution.point[:, frozen]), bits(x[:, frozen]))
    check_solution(solution, model, space, x, to_one(x), KAPPA)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("depth", [0, 1])
def test_a_constant_classifier_is_not_found_in_bounded_time(name: str, depth: int) -> None:
    space = space_of()
    width = space.schema.width
    layers: list[nn.Module] = [nn.Linear(width, 4), nn.ReLU()] if depth else []
    layers.append(nn.Linear(4 if depth else width, 2))
    network = nn.Sequential(*layers).requires_grad_(False)
    with torch.no_grad():
        for layer in layers[::2]:
            layer.weight.zero_()
        layers[-1].bias.copy_(torch.tensor([1.0, 0.0]))
    rows_seen = 0

    def counted(u: Tensor) -> Tensor:
        nonlocal rows_seen
        rows_seen += len(u)
        logits: Tensor = network(u)
        return logits

    x = random_rows(space, 100, 1)
    start = time.perf_counter()
    solution = solver_named(name).solve(counted, space, x, to_one(x), 0.0)
    assert time.perf_counter() - start < 30.0
    assert rows_seen < 1_000_000
    assert set(solution.status.tolist()) == {int(Status.NOT_FOUND)}
    assert torch.equal(bits(solution.point), bits(x))
    assert bool(solution.cost.isinf().all())


@pytest.mark.parametrize("name", EVERY)
def test_accepted_rows_are_left_alone(name: str) -> None:
    space = space_of()
    model = linear([1.0, 1.0, 0.3, 0.0, 0.4, 0.8, 0.2, 0.0], -1.0)
    x = random_rows(space, 300, 2)
    margin = in_blocks(model)(x)[:, 1]
    accepted = margin > 0
    assert 50 < int(accepted.sum()) < 250
    assert bool((accepted & (margin < KAPPA)).any())  # accepted by less than kappa: not needed
    solution = solver_named(name).solve(model, space, x, to_one(x), KAPPA)
    assert torch.equal(solution.status == Status.NOT_NEEDED, accepted)
    assert torch.equal(bits(solution.point[accepted]), bits(x[accepted]))
    assert bool((solution.cost[accepted] == 0).all())
    assert torch.equal(solution.margin[accepted], margin[accepted])
    assert torch.equal(solution.solved, solution.found | accepted)
    assert bool(solution.found.any())
    check_solution(solution, model, space, x, to_one(x), KAPPA)


@pytest.mark.parametrize("name", SOLVERS)
def test_an_unreachable_target_returns_no_iterate(name: str) -> None:
    space = space_of(max_features=1)
    model = linear([0.1, 0.1, 0.1, 0.0, 0.1, 0.2, 0.1, 0.0], -3.0)  # gradient points the way
    x = random_rows(space, 50, 3)
    solution = solver_named(name).solve(model, space, x, to_one(x), 0.0)
    assert set(solution.status.tolist()) == {int(Status.NOT_FOUND)}
    assert torch.equal(bits(solution.point), bits(x))
    assert bool(solution.cost.isinf().all())
    assert bool((solution.margin <= 0).all())


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("target", [0, 1])
def test_validity_is_judged_against_the_target(name: str, target: int) -> None:
    """Either class can be the target: what the rows' labels are plays no part."""
    space = space_of()
    model = linear([1.0, 0.5, 0.3, 0.0, 0.4, 0.8, 0.2, 0.0], -0.5)
    x = random_rows(space, 100, 4)
    targets = torch.full((len(x),), target)
    solution = solver_named(name).solve(model, space, x, targets, KAPPA)
    assert bool(solution.found.any())
    assert bool((model(solution.point[solution.found]).argmax(1) == target).all())
    needed = model(x).argmax(1) != target
    assert torch.equal(solution.status != Status.NOT_NEEDED, needed)


def test_misclassified_rows_are_chosen_by_prediction(
    task: Callable[..., Task], tmp_path: Path
) -> None:
    here = task("german", "logreg")
    solver = make_solver(here.settings.solver)
    directions = teacher_recourse(
        here.settings, here.data, here.teacher, here.space, solver, Cache(tmp_path), Runtime()
    )
    predicted = here.teacher(here.data.test.x).argmax(1)
    assert bool((predicted != here.data.test.y).any())
    for direction, start, target in zip(directions, (0, 1), (1, 0), strict=True):
        assert direction.rows.tolist() == (predicted == start).nonzero()[:, 0].tolist()
        assert set(here.data.test.y[direction.rows].tolist()) == {0, 1}  # labels of both kinds
        assert set(direction.target.tolist()) == {target}
        for kappa, solution in direction.solutions.items():
            assert bool((solution.margin[solution.found] > kappa).all())
            assert bool((here.teacher(solution.point[solution.found]).argmax(1) == target).all())


def test_a_single_swap_is_found_where_it_is_the_optimum() -> None:
    space = space_of()
    # b, g, r: going from b to r gains 2; every other feature would cost far more.
    model = linear([0.1, 0.1, 0.1, 0.0, 0.5, 2.0, 0.0, 0.0], -1.0)
    x = space.schema.encode(
        pd.DataFrame({"age": [28], "pay": [2.0], "rank": ["b"], "hue": ["b"], "sex": ["f"]})
    )
    solution = solver_named("search").solve(model, space, x, to_one(x), KAPPA)
    changed = space.changed(x, solution.point)[0].nonzero()[:, 0].tolist()
    assert changed == [HUE]
    assert space.schema.decode(solution.point)["hue"][0] == "r"
    assert float(solution.cost[0]) == 1.0

    # The accumulator lets small steps add up to a swap; the strict recursion forgets them.
    def by_gradient(accumulate: bool) -> bool:
        _, valid = projected_gradient(
            model, space, x, to_one(x), kappa=0.0, steps=50, step_size=0.1, accumulate=accumulate
        )
        return bool(valid[0])

    assert by_gradient(True)
    assert not by_gradient(False)


@pytest.mark.parametrize("names", [["age", "pay"], ["hue", "sex"], ["rank"]])
@pytest.mark.parametrize("name", EVERY)
def test_tables_of_one_kind_only(name: str, names: list[str]) -> None:
    space = space_of(TRAIN[names])
    model = linear([1.0, *[0.0] * (space.schema.width - 1)], -0.5)
    x = random_rows(space, 40, 5)
    solution = solver_named(name).solve(model, space, x, to_one(x), 0.0)
    check_solution(solution, model, space, x, to_one(x), 0.0)
    if name != "pgd":
        assert bool(solution.found.any())


@pytest.mark.parametrize("name", EVERY)
def test_no_rows_give_no_answers(name: str) -> None:
    space = space_of()
    x = random_rows(space, 3, 0)[:0]
    solution = solver_named(name).solve(linear([1.0] * 8, 0.0), space, x, to_one(x), KAPPA)
    assert [len(part) for part in vars(solution).values()] == [0] * 4
    assert solution.status.dtype == torch.int8


# --- the frame checks what a solver claims ---


class Liar(Solver):
    """Claims that some point is an action."""

    def __init__(self, lie: Callable[[Tensor], Tensor]) -> None:
        super().__init__(None)
        self.lie = lie

    def search(
        self, model: Model, space: ActionSpace, x: Tensor, target: Tensor, kappa: float
    ) -> tuple[Tensor, Tensor]:
        status = torch.full((len(x),), int(Status.FOUND), dtype=torch.int8)
        return self.lie(x), status


def test_a_claim_that_does_not_hold_is_an_error() -> None:
    space = space_of(features={"age": "immutable"})
    model = linear([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], -9.0)
    x = random_rows(space, 5, 6)

    def moved(column: int) -> Callable[[Tensor], Tensor]:
        def lie(rows: Tensor) -> Tensor:
            out = rows.clone()
            out[:, column] += 99.0
            return out

        return lie

    for lie in (moved(AGE), moved(PAY), lambda rows: rows):
        with pytest.raises(RuntimeError, match="Liar returned an action that breaks a constraint"):
            Liar(lie).solve(model, space, x, to_one(x), KAPPA)


def test_search_refuses_other_action_spaces() -> None:
    class Other:
        def origin(self, x: Tensor) -> Tensor:
            return x

        def to_input(self, point: Tensor) -> Tensor:
            return point

    x = torch.zeros(1, 2)
    with pytest.raises(UserError, match="use solver=latent_search"):
        solver_named("search").solve(linear([1.0, 1.0], -1.0), Other(), x, to_one(x), 0.0)  # type: ignore[arg-type]


def test_progress_hears_of_every_row() -> None:
    space = space_of(TRAIN[["pay"]])
    x = random_rows(space, 5000, 0)
    heard: list[int] = []
    solver = solver_named("pgd", "solver.steps=1")
    solver.solve(linear([1.0], 0.0), space, x, to_one(x), 0.0, heard.append)
    assert heard == [2048, 2048, 904]


# --- real data ---


@pytest.mark.parametrize(
    ("name", "data_name", "backbone"),
    [
        ("search", "compas", "mlp2"),
        ("search", "german", "logreg"),
        ("pgd", "compas", "logreg"),
        ("pgd", "german", "mlp2"),
    ],
)
def test_found_actions_hold_in_raw_units(
    task: Callable[..., Task], name: str, data_name: str, backbone: str
) -> None:
    here = task(data_name, backbone)
    x, solver = here.data.test.x[:70], solver_named(name)
    for target, kappa in ((1, KAPPA), (0, 0.5)):
        targets = torch.full((len(x),), target)
        solution = solver.solve(here.teacher, here.space, x, targets, kappa)
        assert bool(solution.found.any())
        check_solution(solution, here.teacher, here.space, x, targets, kappa)


@pytest.mark.parametrize(
    "overrides",
    [
        ("actions.cost=weighted_l2",),
        ("actions.cost=mixed", "actions.gamma=0.5"),
        ("actions.gamma=1.5", "actions.max_features=1"),
        ("actions.grid=false", "actions.bounds={low: 0.1, high: 0.9}"),
        ("actions.features.month=decrease_only", "actions.features.skill_level=increase_only"),
    ],
)
def test_found_actions_hold_in_every_kind_of_set(
    task: Callable[..., Task], overrides: tuple[str, ...]
) -> None:
    here = task("german", "logreg", *overrides)
    x, target = here.rejected(40)
    linear_cost = here.settings.actions.cost == "weighted_l1"
    for name in EVERY if linear_cost else SOLVERS:
        solution = solver_named(name).solve(here.teacher, here.space, x, target, KAPPA)
        assert bool(solution.found.any())
        if here.settings.actions.grid:
            check_solution(solution, here.teacher, here.space, x, target, KAPPA)
        else:
            assert not here.space.violations(x, solution.point).any()
            assert bool((solution.margin[solution.found] > KAPPA).all())


@pytest.mark.parametrize(
    ("name", "data_name", "count"),
    [("search", "compas", 260), ("pgd", "compas", 260)],
)
def test_a_row_s_answer_does_not_depend_on_its_company(
    task: Callable[..., Task], name: str, data_name: str, count: int
) -> None:
    here, solver = task(data_name, "mlp2"), solver_named(name)
    x = here.data.test.x[:count]

    def solve(rows: Tensor) -> Solution:
        targets = torch.ones(len(rows), dtype=torch.int64)
        return solver.solve(here.teacher, here.space, x[rows], targets, KAPPA)

    def taken(solution: Solution, rows: Tensor) -> Solution:
        return Solution(**{part: value[rows] for part, value in vars(solution).items()})

    everything = torch.arange(count)
    whole = solve(everything)
    assert bool(whole.found.any())
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    some = shuffled[: count // 3]
    doubled = torch.cat([everything, everything])[: count + 7]
    alone = [torch.tensor([int(i)]) for i in whole.found.nonzero()[:1, 0]]
    for rows in (shuffled, some, doubled, *alone):
        assert same(solve(rows), taken(whole, rows))
    torch.set_num_threads(2)
    assert same(solve(everything), whole)


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch, task: Callable[..., Task]) -> None:
    here, solver = task("german", "mlp2"), solver_named("search")
    x, target = here.rejected(30)
    whole = solver.solve(here.teacher, here.space, x, target, KAPPA)
    monkeypatch.setattr("cfq_bench.actions.solver.CHUNK", 7)
    assert same(solver.solve(here.teacher, here.space, x, target, KAPPA), whole)


# --- how cheap ---


def least_cost(
    space: ActionSet, x: Tensor, weights: np.ndarray, bias: float, sign: float, kappa: float
) -> float:
    """Enumerate every grid value and category; the numeric column fills what is missing."""
    schema, own = space.schema, x.double().numpy()
    low, high = (end[0].double().numpy() for end in space.row_bounds(x[None]))
    options: list[list[tuple[float, float, bool]]] = []  # (cost, gain, changed) per feature
    pay = None
    for j, feature in enumerate(schema.features):
        w = sign * weights[feature.start : feature.stop]
        here = own[feature.start : feature.stop]
        each = [(0.0, 0.0, False)]
        if space.settings.features[feature.name].kind == "immutable":
            pass
        elif feature.kind == "numeric":
            pay = (w[0], low[j], high[j], here[0])
        elif feature.single:
            for raw in range(-5, 80):
                z = float(np.float32((raw - feature.mean) / feature.scale))
                if low[j] <= z <= high[j] and z != here[0]:
                    each.append((abs(z - here[0]), w[0] * (z - here[0]), True))
        else:
            for category in range(len(w)):
                if here[category] == 0:
                    each.append((1.0, w[category] - w @ here, True))
        options.append(each)
    missing = kappa - sign * (weights @ own + bias)
    best = np.inf
    for plan in itertools.product(*options):
        cost, changed = sum(p[0] for p in plan), sum(p[2] for p in plan)
        left = missing - sum(p[1] for p in plan)
        if left > 1e-12 and pay is not None and pay[0] != 0.0:
            step = left / pay[0]
            if pay[1] <= pay[3] + step <= pay[2]:
                left, cost, changed = 0.0, cost + abs(step), changed + 1
        if left <= 1e-12 and changed <= space.max_features:
            best = min(best, cost)
    return float(best)


@pytest.mark.parametrize("features", [None, {"hue": "immutable", "age": "increase_only"}])
@pytest.mark.parametrize("k", [1, 2, None])
def test_exact_and_search_against_enumeration(
    features: dict[str, Any] | None, k: int | None
) -> None:
    space = space_of(features=features, max_features=k)
    found = feasible = 0
    gaps: list[float] = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        # As the network holds them, so that the enumeration and the network agree.
        weights = rng.normal(0, 1, 8).astype(np.float32).astype(float)
        target = seed % 2
        sign = 1.0 if target == 1 else -1.0
        model = linear(weights, 0.25)
        x = random_rows(space, 12, seed)
        x = x[model(x).argmax(1) != target][:3]
        targets = torch.full((len(x),), target)
        truth = np.array([least_cost(space, r, weights, 0.25, sign, KAPPA) for r in x])
        exact = exact_actions(model, space, x, targets, KAPPA, time_limit_s=10.0)
        np.testing.assert_allclose(exact.bound, truth, atol=5e-5)
        np.testing.assert_allclose(exact.cost, truth, atol=5e-5)
        solution = solver_named("search").solve(model, space, x, targets, KAPPA)
        check_solution(solution, model, space, x, targets, KAPPA)
        ours = solution.cost.double().numpy()
        assert (ours >= truth - 1e-4).all()
        known = np.isfinite(truth)
        feasible, found = feasible + known.sum(), found + np.isfinite(ours[known]).sum()
        solved = known & np.isfinite(ours)
        gaps += (ours[solved] / truth[solved] - 1.0).tolist()
    assert feasible >= 3
    assert found >= 0.9 * feasible
    assert np.mean(gaps) < 0.05


@pytest.mark.parametrize("data_name", ["compas", "german"])
def test_search_is_near_the_exact_optimum_on_logistic_regression(
    task: Callable[..., Task], data_name: str
) -> None:
    here = task(data_name, "logreg")
    x, target = here.rejected(128)
    solution = solver_named("search").solve(here.teacher, here.space, x, target, KAPPA)
    optimal = exact_actions(here.teacher, here.space, x, target, KAPPA, time_limit_s=10.0).bound
    found = solution.found.numpy()
    ours = solution.cost.double().numpy()
    assert np.isfinite(optimal[found]).all()
    assert (ours >= optimal - 1e-4).all()
    assert (np.isfinite(optimal) & ~found).mean() <= 0.02
    assert (ours[found] / optimal[found] - 1.0).mean() < 0.05


@pytest.mark.parametrize("backbone", ["logreg", "mlp2"])
@pytest.mark.parametrize("data_name", ["compas", "german"])
def test_search_is_never_dearer_than_its_own_gradient_path(
    task: Callable[..., Task], data_name: str, backbone: str
) -> None:
    here = task(data_name, backbone)
    x, target = here.rejected(100)
    ours = solver_named("search").solve(here.teacher, here.space, x, target, KAPPA)
    path = solver_named("pgd", "solver.accumulate=true")
    theirs = path.solve(here.teacher, here.space, x, target, KAPPA)
    assert bool(theirs.found.any())
    assert not bool((theirs.found & ~ours.found).any())
    assert bool((ours.cost <= theirs.cost).all())
    strict = solver_named("pgd").solve(here.teacher, here.space, x, target, KAPPA)
    both = strict.found & ours.found
    assert int(ours.found.sum()) >= int(strict.found.sum())
    assert float(ours.cost[both].mean()) <= float(strict.cost[both].mean())


def test_shrinking_keeps_actions_valid_and_makes_none_dearer(task: Callable[..., Task]) -> None:
    here = task("german", "mlp2")
    x = here.data.test.x[:100]
    target = 1 - here.teacher(x).argmax(1)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    point = here.space.project(x, x + 3 * noise)
    valid = target_margin(here.teacher(point), target) > KAPPA
    assert 5 < int(valid.sum()) < 95
    blocked = in_blocks(here.teacher)
    with torch.no_grad():
        small = shrink(blocked, here.space, x, target, point, valid, KAPPA, bisections=14)
    assert torch.equal(small[~valid], point[~valid])
    assert bool((target_margin(blocked(small), target)[valid] > KAPPA).all())
    assert not here.space.violations(x, small).any()
    before, after = here.space.cost(x, point), here.space.cost(x, small)
    assert bool((after <= before + 1e-6).all())
    assert float(after[valid].mean()) < 0.7 * float(before[valid].mean())
    # Without any single change the rest no longer holds: nothing is left over.
    for feature in range(len(here.space.immutable)):
        own = here.space.feature_of_column == feature
        without = torch.where(own, x, small)
        moved = ((small != x) & own).any(1) & valid
        assert bool((target_margin(blocked(without), target)[moved] <= KAPPA).all())


def test_greedy_says_which_of_its_plans_hold(task: Callable[..., Task]) -> None:
    here = task("german", "mlp2")
    x, target = here.rejected(50)
    blocked = in_blocks(here.teacher)
    with torch.no_grad():
        point, valid = greedy_actions(blocked, here.space, x, target, KAPPA, points=13)
    assert bool(valid.any())
    assert bool((target_margin(blocked(point), target)[valid] > KAPPA).all())
    assert not here.space.violations(x, point).any()
    assert torch.equal(bits(point[~valid]), bits(x[~valid]))


def test_exchanges_make_answers_cheaper_and_none_dearer(
    task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = task("german", "mlp2")
    x = here.data.test.x[:150]
    target = 1 - here.teacher(x).argmax(1)
    solver = solver_named("search")
    ours = solver.solve(here.teacher, here.space, x, target, KAPPA)
    monkeypatch.setattr(
        "cfq_bench.actions.search.exchanged",
        lambda model, space, x, target, point, *_: (point, torch.zeros(len(x), dtype=torch.bool)),
    )
    without = solver.solve(here.teacher, here.space, x, target, KAPPA)
    assert torch.equal(ours.status, without.status)
    assert bool((ours.cost <= without.cost).all())
    assert bool((ours.cost < without.cost - 0.01).any())


def test_blocks_change_no_logit(task: Callable[..., Task]) -> None:
    here = task("german", "mlp2")
    x = here.data.test.x
    blocked = in_blocks(here.teacher)
    whole = blocked(x)
    assert whole.shape == (300, 2)
    torch.testing.assert_close(whole, here.teacher(x))
    for i in (0, 17, 255, 256, 299):
        assert torch.equal(bits(blocked(x[[i]])), bits(whole[[i]]))
    assert blocked(x[:0]).shape == (0, 2)


@pytest.mark.parametrize("width", [7, 10, 12, 61])
@pytest.mark.parametrize("hidden", [[], [16, 8], [64, 32]])
def test_a_row_s_logits_do_not_depend_on_its_place(width: int, hidden: list[int]) -> None:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise([width, *hidden]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    blocked = in_blocks(nn.Sequential(*layers, nn.Linear([width, *hidden][-1], 2)))
    x = torch.randn(300, width)
    order = torch.randperm(300)
    assert torch.equal(bits(blocked(x[order])), bits(blocked(x)[order]))
    assert in_blocks(blocked) is blocked


# --- iterates ---


def hill(u: Tensor) -> Tensor:
    """Margin 0.6 - (u - 1)^2 of class 1: large steps jump over the top and come back."""
    margin = 0.6 - (u[:, 0] - 1.0) ** 2
    return torch.stack([torch.zeros_like(margin), margin], dim=1)


def iterates(steps: int, step_size: float) -> list[float]:
    u = [0.0]
    for _ in range(steps):
        margin = 0.6 - (u[-1] - 1.0) ** 2
        slope = -2.0 * (u[-1] - 1.0)
        u.append(u[-1] + step_size * slope / (1.0 + np.exp(margin)))
    return u


def line() -> tuple[ActionSet, Tensor]:
    """One numeric column, standardized already, without bounds that matter."""
    frame = pd.DataFrame({"pay": [-1.0, 1.0]})
    space = space_of(frame, features={"pay": {"kind": "any", "low": -50.0, "high": 50.0}})
    return space, torch.zeros(1, 1)


@pytest.mark.parametrize("accumulate", [False, True])
def test_which_iterate_is_kept(accumulate: bool) -> None:
    space, x = line()
    u = iterates(3, 1.4)
    holds = [0.6 - (v - 1.0) ** 2 > 0.0 for v in u]
    assert holds == [False, True, True, True]
    assert u[2] < u[3] < u[1]  # the second is the cheapest, and neither first nor last
    for keep, expected in (("last", u[3]), ("first", u[1]), ("cheapest", u[2])):
        point, valid = projected_gradient(
            hill,
            space,
            x,
            to_one(x),
            kappa=0.0,
            steps=3,
            step_size=1.4,
            accumulate=accumulate,
            keep=keep,  # type: ignore[arg-type]
        )
        assert float(point) == pytest.approx(expected, abs=1e-5)
        assert bool(valid)


def test_a_last_iterate_that_fails_is_not_called_valid() -> None:
    space, x = line()
    u = iterates(2, 3.2)
    assert [0.6 - (v - 1.0) ** 2 > 0.0 for v in iterates(1, 1.4)] == [False, True]
    assert not 0.6 - (u[2] - 1.0) ** 2 > 0.0
    point, valid = projected_gradient(
        hill, space, x, to_one(x), kappa=0.0, steps=2, step_size=3.2, keep="last"
    )
    assert float(point) == pytest.approx(u[2], abs=1e-4)
    assert not bool(valid)


def test_first_stops_as_soon_as_all_rows_hold() -> None:
    space, x = line()
    calls = 0

    def counted(u: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return hill(u)

    for keep, expected in (("first", 2), ("cheapest", 51), ("last", 51)):
        calls = 0
        projected_gradient(
            counted,
            space,
            x,
            to_one(x),
            kappa=0.0,
            steps=50,
            step_size=1.4,
            keep=keep,  # type: ignore[arg-type]
        )
        assert calls == expected


def test_parameters_receive_no_gradient() -> None:
    space = space_of()
    model = linear([1.0] * 8, -3.0).requires_grad_(True)
    x = random_rows(space, 4, 0)
    projected_gradient(model, space, x, to_one(x), kappa=0.0, steps=2, step_size=0.5)
    assert all(parameter.grad is None for parameter in model.parameters())


# --- the training signal ---


def test_targets() -> None:
    predicted = torch.tensor([0, 1, 0])
    for policy, target, part in (
        ("opposite", [1, 0, 1], [True, True, True]),
        ("favourable", [1, 1, 1], [True, True, True]),
        ("rejected_only", [1, 1, 1], [True, False, True]),
    ):
        chosen, takes_part = choose_targets(predicted, policy)  # type: ignore[arg-type]
        assert (chosen.tolist(), takes_part.tolist()) == (target, part)


@pytest.mark.parametrize("policy", ["opposite", "favourable", "rejected_only"])
@pytest.mark.parametrize("keep", ["last", "first", "cheapest"])
def test_teacher_actions_are_what_the_teacher_says(
    task: Callable[..., Task], policy: Any, keep: Any
) -> None:
    here = task("german", "mlp2")
    x = here.data.train.x[:80]
    points = teacher_actions(here.teacher, here.space, x, policy, steps=5, step_size=1.0, keep=keep)
    predicted = here.teacher(x).argmax(1)
    target, takes_part = choose_targets(predicted, policy)
    assert torch.equal(points.target, target)
    reached = predicted == target  # these rows need no action
    assert torch.equal(bits(points.inputs[reached]), bits(x[reached]))
    assert not here.space.violations(x, points.inputs).any()
    logits = here.teacher(points.inputs)
    torch.testing.assert_close(points.logits, logits)
    assert torch.equal(points.valid, (logits.argmax(1) == target) & takes_part)
    assert bool(points.valid.any())
    some = points.take(torch.tensor([3, 5]))
    assert torch.equal(some.inputs, points.inputs[[3, 5]])
    back = type(points).from_tensors(points.tensors(), torch.device("cpu"))
    assert all(torch.equal(getattr(back, name), t) for name, t in points.tensors().items())


def test_a_pool_holds_actions_at_each_of_its_margins(task: Callable[..., Task]) -> None:
    here = task("german", "mlp2")
    x = here.data.train.x[:60]
    solver = make_solver(here.settings.solver)
    predicted = here.teacher(x).argmax(1)
    pool = recourse_pool(here.teacher, here.space, solver, x, "opposite", kappas=[0.0, 0.5])
    torch.testing.assert_close(pool.logits, here.teacher(pool.inputs))
    margin = target_margin(pool.logits, pool.target)
    assert bool(pool.valid.all())
    assert bool((margin > 0).all())
    # Rows are dealt out in turn: the first half of the pool asked for 0, the second for 0.5.
    for i, kappa in enumerate((0.0, 0.5)):
        rows = x[i::2]
        target = 1 - predicted[i::2]
        solution = solver.solve(here.teacher, here.space, rows, target, kappa)
        part = (
            slice(0, int(solution.found.sum()))
            if i == 0
            else slice(-int(solution.found.sum()), None)
        )
        assert torch.equal(pool.inputs[part], solution.point[solution.found])
        assert bool((margin[part] > kappa).all())
        assert float(margin[part].min()) < kappa + 0.2  # minimal: not far beyond
    favourable = recourse_pool(here.teacher, here.space, solver, x, "rejected_only", kappas=[0.1])
    assert set(favourable.target.tolist()) == {1}
    assert len(favourable.target) <= int((predicted == 0).sum())
