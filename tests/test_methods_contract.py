"""What every method owes, on every YAML in conf/method; then what each setting of CFQ does."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cfq_bench.actions.outcome import target_margin
from cfq_bench.actions.pgd import projected_gradient
from cfq_bench.config.base import MethodSettings
from cfq_bench.config.loader import group_settings_class, known_names, load_settings
from cfq_bench.config.plugin import config_class, load_class, load_module
from cfq_bench.config.yaml import read_yaml
from cfq_bench.experiment import Options, run
from cfq_bench.methods.base import Context, Method, fit_method, make_method
from cfq_bench.methods.cfq import CFQ
from cfq_bench.methods.matching import unrolled_action
from cfq_bench.methods.qat import QATMethod
from cfq_bench.quantization.cost import average_bits
from cfq_bench.quantization.deployed import DeployedNetwork
from cfq_bench.quantization.functional import signed_range
from cfq_bench.quantization.storage import network_from_bytes, network_to_bytes
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from tests.support.waiting import run_python

MakeContext = Callable[..., Context]
Run = Callable[..., Record]

YAMLS = known_names("method")
every_method = pytest.mark.parametrize("name", list(YAMLS))
GUMBEL = "budget.allocator=gumbel"
STUDENTS = {"kd_quant", "cfq_student"}
NO_ROWS = {
    f"margin/failure_{side}{estimate}"
    for side in ("inside", "outside")
    for estimate in ("", "_q95")
}
"""Metrics that 20 rows may leave undefined: all of them may lie on one side of the safe set."""
ALIKE = {"ft32", "mixed_ptq", "pact", "kd_qat", "mixed_hawq", "kd_quant", "cfq_group", "cfq_prune"}
"""Methods whose whole run is another one's but for the fit; a new method's is its own."""
UNTRAINED = {"fp32", "ptq", "mixed_ptq", "cf_ptq"}


@dataclass(frozen=True)
class Fitted:
    """A method that was fitted once, and how teacher and method were before."""

    method: Method
    teacher: dict[str, Tensor]
    start: dict[str, Tensor]


FitOnce = Callable[[str], Fitted]


@pytest.fixture(scope="module")
def fit_once(make_context: MakeContext) -> FitOnce:
    """The fit of a method that all its tests look at: (method)."""

    @cache
    def fit(name: str) -> Fitted:
        context = make_context(name, *longer(name))
        teacher = copy_of(context.teacher.state_dict())
        method = make_method(context)
        start = copy_of(dict(method.named_parameters()))
        fit_method(method)
        return Fitted(method, teacher, start)

    return fit


def longer(name: str) -> list[str]:
    """Two epochs make no student of a network that begins with random weights."""
    return ["data.fit.epochs=15"] if name in STUDENTS else []


def copy_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key: value.detach().clone() for key, value in tensors.items()}


@pytest.fixture
def short_run(tmp_path: Path, cache_dir: Path, short_overrides: list[str]) -> Run:
    """Run a method on German Credit; every call runs anew: (method, *overrides)."""

    def start(method: str, *overrides: str) -> Record:
        settings = load_settings(method, "german", overrides=[*short_overrides, *overrides])
        options = Options(tmp_path / "results", cache_dir, wandb="disabled", force=True)
        return run(settings, options)

    return start


def fitted(context: Context) -> Method:
    method = make_method(context)
    fit_method(method)
    return method


def logits_of(network: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        logits: Tensor = network(x)
    return logits


# --- the YAML and the class ---


def test_there_are_methods() -> None:
    trained = {"cfq", "cfq_distilled", "ft32", "kd_qat", "lsq", "mixed_haq", "mixed_hawq", "pact"}
    assert trained | UNTRAINED <= set(YAMLS)


@every_method
def test_the_yaml_fills_its_config(name: str) -> None:
    raw = read_yaml(YAMLS[name])
    config = group_settings_class("method", raw)
    settings = config.model_validate({"name": name, **raw})
    assert isinstance(settings, MethodSettings)
    assert settings.name == name
    assert 0 < len(settings.about) < 100
    shared = MethodSettings.model_fields
    own = {key for key in config.model_fields if key not in shared}
    assert own <= set(raw), "numbers live in the YAML: a method's own fields have no default"
    assert all(config.model_fields[key].is_required() for key in own)
    assert set(raw) <= set(config.model_fields)


@every_method
def test_the_config_read_alone_is_the_imported_one(name: str) -> None:
    module = load_settings(name, "german").method.module
    alone, imported = config_class(module), load_module(module).Config
    assert alone is not None
    fields = imported.model_json_schema()["properties"]
    assert all("description" in field for field in fields.values())
    assert without_words(alone.model_json_schema()) == without_words(imported.model_json_schema())
    assert issubclass(load_class(module, Method), Method)


def without_words(schema: Any) -> Any:
    """A schema without its docstrings: pydantic finds no source of a class that is read alone."""
    if isinstance(schema, dict):
        return {key: without_words(value) for key, value in schema.items() if key != "description"}
    return [without_words(value) for value in schema] if isinstance(schema, list) else schema


def test_settings_of_every_method_are_read_without_torch() -> None:
    code = (
        "import sys; from cfq_bench.config.loader import known_names, load_settings\n"
        "for name in known_names('method'): load_settings(name, 'german')\n"
        "heavy = {'torch', 'lightning', 'pandas', 'sklearn', 'wandb'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    run_python(code)


# --- the run ---


@every_method
def test_a_second_fit_gives_the_same_network(
    name: str, fit_once: FitOnce, make_context: MakeContext
) -> None:
    first = fit_once(name).method
    torch.manual_seed(1)  # global state must not matter
    second = fitted(make_context(name, *longer(name)))
    x = first.context.data.test.x
    assert torch.equal(logits_of(second.deployed(), x), logits_of(first.deployed(), x))
    assert second.deployment() == first.deployment()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in YAMLS if name not in ALIKE])
def test_a_short_run_gives_a_whole_record_and_the_same_network_again(
    name: str, short_run: Run, fit_once: FitOnce, tmp_path: Path
) -> None:
    first = short_run(name, *longer(name))
    assert (first.status, first.reason) == ("ok", None)
    undefined = {key for key, value in first.metrics.items() if value is None}
    without_rows = {key for key in undefined if first.counts.get(key) == 0}
    assert without_rows <= NO_ROWS
    # The solver's gap is known for linear teachers alone.
    assert undefined - without_rows == {"solver/gap_mean", "solver/gap_p90"}
    assert all(math.isfinite(value) for value in first.metrics.values() if value is not None)
    assert first.counts["recourse/vd"] > 0
    method = fit_once(name).method
    stored = network_from_bytes(RecordStore(tmp_path / "results").read_network(first.run_id), "")
    x = method.context.data.test.x
    assert torch.equal(logits_of(stored, x), logits_of(method.deployed(), x))
    assert list(first.details["deploy/bits_per_layer"]) == list(
        first.details["deploy/activation_bits"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cfq", "fp32"])
def test_a_linear_backbone_has_a_known_solver_gap(name: str, short_run: Run) -> None:
    record = short_run(name, "backbone=logreg")
    assert record.status == "ok", record.reason
    assert record.metrics["solver/gap_mean"] is not None


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("cfq", [GUMBEL, "budget.avg_bits=3.5", "quantization.activation_bits=tied"]),
        ("pact", [GUMBEL, "budget.avg_bits=3.5", "quantization.input_blocks=true"]),
        ("pact", ["budget.allocator=pool_mse", "quantization.per_channel=true"]),
        ("cfq", ["budget.avg_bits=2.0"]),
        ("pact", ["budget.avg_bits=2.0"]),
        ("cfq", ["budget.avg_bits=8.0", "quantization.candidates=[8]"]),
        ("cfq", ["backbone=mlp4"]),
    ],
)
def test_quantization_settings_are_deployed(
    name: str, overrides: list[str], make_context: MakeContext
) -> None:
    method = fitted(make_context(name, *overrides))
    claim, budget = method.deployment(), method.context.settings.budget.avg_bits
    average = average_bits(list(claim["sizes"].values()), list(claim["bits_per_layer"].values()))
    assert 0.9 * budget <= average <= budget + 1e-6
    x = method.context.data.test.x
    assert bool(logits_of(method.deployed(), x).isfinite().all())
    assert torch.equal(logits_of(method.deployed(), x), logits_of(method, x))


@every_method
def test_the_deployed_network_has_the_claimed_bits(name: str, fit_once: FitOnce) -> None:
    method = fit_once(name).method
    network, claim = method.deployed(), method.deployment()
    names = list(claim["bits_per_layer"])
    assert names == list(claim["sizes"]) == list(claim["activation_bits"])
    if not isinstance(network, DeployedNetwork):
        linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
        assert all(parameter.dtype == torch.float32 for parameter in network.parameters())
        assert set(claim["bits_per_layer"].values()) == {32}
        assert list(claim["sizes"].values()) == [linear.weight.numel() for linear in linears]
        return
    assert [unit.name for unit in network.units] == names
    for unit in network.units:
        low, high = signed_range(claim["bits_per_layer"][unit.name])
        assert unit.codes.dtype == torch.int8
        assert low <= int(unit.codes.min())
        assert int(unit.codes.max()) <= high
        assert torch.equal(unit.codes.float() * unit.step, unit.weight)
        assert len(unit.weight.unique()) <= high - low + 1
        assert unit.weight.numel() == claim["sizes"][unit.name]
        assert unit.activation_bits == claim["activation_bits"][unit.name]
    x = method.context.data.test.x
    assert torch.equal(logits_of(network, x), logits_of(method, x))
    assert average_bits(list(claim["sizes"].values()), list(claim["bits_per_layer"].values())) <= (
        method.context.settings.budget.avg_bits
    )


@every_method
def test_a_saved_method_comes_back_into_a_fresh_one(
    name: str, fit_once: FitOnce, tmp_path: Path
) -> None:
    method = fit_once(name).method
    context = method.context
    torch.save(method.state_dict(), tmp_path / "method.pt")
    fresh = make_method(context)
    fresh.load_state_dict(torch.load(tmp_path / "method.pt", weights_only=True), strict=True)
    x = context.data.test.x
    assert torch.equal(logits_of(fresh.deployed(), x), logits_of(method.deployed(), x))
    assert fresh.deployment() == method.deployment()
    assert not any(key.startswith("context") for key in method.state_dict())


@pytest.mark.parametrize("name", ["ptq", "lsq", "prune_quant", "kd_quant", "cfq"])
def test_a_stored_network_with_input_blocks_gives_the_same_logits(
    name: str, make_context: MakeContext
) -> None:
    method = fitted(make_context(name, "quantization.input_blocks=true"))
    network, x = method.deployed(), method.context.data.test.x
    again = network_from_bytes(network_to_bytes(network), "test")
    assert torch.equal(logits_of(again, x), logits_of(network, x))


@every_method
def test_the_teacher_is_left_alone(name: str, fit_once: FitOnce) -> None:
    once = fit_once(name)
    teacher, before = once.method.context.teacher, once.teacher
    logits_of(once.method.deployed(), once.method.context.data.test.x)
    after = teacher.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[key], before[key]) for key in before)
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    assert not teacher.training


@every_method
def test_training_changes_the_weights_of_methods_that_train(name: str, fit_once: FitOnce) -> None:
    once = fit_once(name)
    trains = bool(once.method.phases())
    assert trains == (name not in UNTRAINED)
    for key, value in once.method.named_parameters():
        if key.endswith(("weight", "bias")):
            assert torch.equal(value, once.start[key]) != trains


@every_method
def test_evaluating_twice_gives_the_same_logits(name: str, fit_once: FitOnce) -> None:
    method = fit_once(name).method
    x, network = method.context.data.test.x, method.deployed()
    assert not network.training
    torch.manual_seed(1)
    first = logits_of(network, x)
    torch.manual_seed(2)
    assert torch.equal(logits_of(network, x), first)
    assert torch.equal(logits_of(method.deployed(), x), first)
    torch.testing.assert_close(logits_of(network, x[:7]), first[:7])


@every_method
def test_the_deployed_network_has_an_input_gradient(name: str, fit_once: FitOnce) -> None:
    """Solvers need one."""
    method = fit_once(name).method
    x = method.context.data.test.x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(method.deployed()(x)[:, 1].sum(), x)
    assert bool(gradient.isfinite().all())
    assert float(gradient.abs().max()) > 0


@every_method
def test_quantizer_parameters_have_no_weight_decay(name: str, make_context: MakeContext) -> None:
    method = make_method(make_context(name))
    for phase in method.phases():
        method.begin(phase)
        made: Any = method.configure_optimizers()
        groups = made["optimizer"].param_groups
        assert all(group["weight_decay"] == 0 for group in groups)
        if isinstance(method, QATMethod) and phase.name != "float":
            trained = {id(parameter) for group in groups for parameter in group["params"]}
            assert {id(value) for value in method.network.quantizer_parameters()} <= trained


@every_method
def test_the_method_s_length_is_epochs_times_its_factor(
    name: str, make_context: MakeContext
) -> None:
    context = make_context(name)
    phases = make_method(context).phases()
    fit = context.settings.data.fit
    one = len(context.data.train) // fit.batch_size
    expected = fit.epochs * one * context.settings.method.epoch_factor
    assert sum(phase.steps for phase in phases) == (round(expected) if phases else 0)


# --- the bit policy ---


@pytest.mark.parametrize("tail", ["restart", "continue"])
def test_cfq_searches_bits_and_then_trains_at_them(tail: str, make_context: MakeContext) -> None:
    context = make_context("cfq", GUMBEL, "budget.avg_bits=3.5", f"policy.tail={tail}")
    method = make_method(context)
    assert isinstance(method, CFQ)
    search, tune = method.phases()
    assert (search.name, tune.name) == ("search", "tune")
    assert (tune.offset == 0) == (tail == "restart")
    assert method.network.policy_logits is not None
    start = method.network.policy_logits.detach().clone()
    fit_method(method)
    assert not torch.equal(method.network.policy_logits.detach(), start)
    bits = list(method.deployment()["bits_per_layer"].values())
    assert set(bits) <= {2, 3, 4, 8}
    assert 0.95 * 3.4 < average_bits(method.network.sizes, bits) <= 3.5


def test_auto_is_uniform_where_the_budget_is_a_candidate(make_context: MakeContext) -> None:
    assert make_method(
        make_context("cfq", "budget.avg_bits=4.0")
    ).deployment()  # described untrained
    for budget, allocator in (("4.0", "uniform"), ("3.5", "gumbel")):
        method = make_method(make_context("cfq", f"budget.avg_bits={budget}"))
        assert isinstance(method, QATMethod)
        assert method.context.settings.allocator.name == allocator
    method = fitted(make_context("cfq", "budget.avg_bits=4.0"))
    assert set(method.deployment()["bits_per_layer"].values()) == {4}


# --- CFQ's settings ---


def cfq(make_context: MakeContext, *overrides: str) -> CFQ:
    method = make_method(make_context("cfq", "budget.avg_bits=4.0", *overrides))
    assert isinstance(method, CFQ)
    return method


def started(make_context: MakeContext, *overrides: str) -> CFQ:
    method = cfq(make_context, *overrides)
    method.begin(method.phases()[-1])
    return method


def batch_of(method: CFQ, rows: Iterable[int]) -> tuple[Tensor, Tensor, Tensor]:
    index, train = torch.tensor(list(rows)), method.context.data.train
    return train.x[index], train.y[index], index


def loss_of(method: CFQ, rows: Iterable[int] = range(64)) -> float:
    return method.objective(batch_of(method, rows)).item()


@pytest.fixture(scope="module")
def usual(make_context: MakeContext) -> Method:
    """CFQ as its YAML has it."""
    return fitted(make_context("cfq", GUMBEL, "budget.avg_bits=3.5"))


@pytest.mark.parametrize(
    "overrides",
    [
        ["method.source=on_the_fly"],
        ["method.source=cached", "method.early_stop=true"],
        ["method.source=pool", "method.pool_size=100"],
        ["method.match_direction=0.5"],
        ["method.match_cost=0.5", "method.eta=0.0"],
        ["method.beta=1.0", "method.fraction=0.25"],
        ["method.target=favourable", "method.valid=soft"],
        ["method.target=rejected_only", "method.valid_only=false"],
        ["method.target=rejected_only", "method.source=pool"],
        ["method.distill=1.0", "method.task=0.0"],
    ],
    ids=" ".join,
)
def test_each_setting_of_cfq_runs_and_changes_the_result(
    overrides: list[str], make_context: MakeContext, usual: Method
) -> None:
    other = fitted(make_context("cfq", GUMBEL, "budget.avg_bits=3.5", *overrides))
    x = usual.context.data.test.x
    usual_logits, logits = logits_of(usual.deployed(), x), logits_of(other.deployed(), x)
    assert bool(logits.isfinite().all())
    # The same points in another place: only what is computed when differs.
    same_points = overrides == ["method.source=on_the_fly"]
    assert torch.allclose(logits, usual_logits, atol=1e-4) == same_points


def test_cached_points_are_those_on_the_fly(make_context: MakeContext) -> None:
    cached = started(make_context, "method.source=cached")
    live = started(make_context, "method.source=on_the_fly")
    x, _, rows = batch_of(cached, [5, 3, 250, 17, 594])
    kept, made = cached._points_of(x, rows), live._points_of(x, rows)
    assert torch.equal(kept.inputs, made.inputs)
    assert torch.equal(kept.target, made.target)
    assert torch.equal(kept.valid, made.valid)
    torch.testing.assert_close(kept.logits, made.logits)


def test_points_are_the_teacher_s_actions(make_context: MakeContext) -> None:
    method = started(make_context)
    space, teacher = method.context.actions, method.context.teacher
    points, x = method.points, method.context.data.train.x
    assert points is not None
    assert not bool(space.violations(x, points.inputs).any())
    assert torch.equal(points.target, 1 - teacher(x).argmax(1))
    assert torch.equal(points.logits, teacher(points.inputs))
    assert torch.equal(points.valid, target_margin(points.logits, points.target) > 0)
    assert 0.1 < float(points.valid.float().mean()) <= 1.0


def test_the_pool_holds_solved_points_of_train_rows_and_is_drawn_from(
    make_context: MakeContext,
) -> None:
    method = started(make_context, "method.source=pool", "method.pool_size=50")
    points = method.points
    assert points is not None
    assert 0 < len(points.target) <= 50
    assert bool(points.valid.all())
    margin = target_margin(points.logits, points.target)
    assert bool((margin > 0).all())
    assert float(margin.median()) < 1.0  # minimal actions stay near the boundary
    x, _, rows = batch_of(method, range(40))
    drawn = method._points_of(x, rows)
    assert drawn.inputs.shape == x.shape
    known = {tuple(point) for point in points.inputs.tolist()}
    assert {tuple(point) for point in drawn.inputs.tolist()} <= known


def test_pool_kappas_are_margins_dealt_out_in_turn(make_context: MakeContext) -> None:
    method = started(
        make_context, "method.source=pool", "method.pool_size=60", "method.pool_kappas=[1.0]"
    )
    assert method.points is not None
    assert bool((target_margin(method.points.logits, method.points.target) >= 1.0 - 1e-4).all())


def test_early_stop_stops_at_the_first_valid_iterate(make_context: MakeContext) -> None:
    overrides = ["method.step_size=1.0", "method.steps=8"]
    whole = started(make_context, *overrides)
    early = started(make_context, *overrides, "method.early_stop=true")
    assert whole.points is not None
    assert early.points is not None
    context, x = whole.context, whole.context.data.train.x
    target = whole.points.target
    first = torch.full((len(x),), -1)
    expected = torch.zeros_like(x)
    for steps in range(1, 9):  # the K-th iterate, for every K
        point, valid = projected_gradient(
            context.teacher,
            context.actions,
            x,
            target,
            kappa=0.0,
            steps=steps,
            step_size=1.0,
            keep="last",
        )
        new = valid & (first < 0)
        first[new], expected[new] = steps, point[new]
    stops_early = (first > 0) & (first < 8)
    assert bool(stops_early.any())
    assert torch.equal(early.points.inputs[first > 0], expected[first > 0])
    assert torch.equal(early.points.valid, first > 0)
    space = context.actions
    cost = [
        space.cost(x, method.points.inputs)[stops_early].mean()
        for method in (early, whole)
        if method.points
    ]
    assert cost[0] < cost[1]


def test_the_loss_is_the_formula(make_context: MakeContext) -> None:
    """task CE + eta L_valid (hard) + beta L_hinge, by plain loops over the rows."""
    method = started(
        make_context, "method.task=0.7", "method.eta=0.3", "method.beta=0.2", "method.gamma=0.9"
    )
    x, y, rows = batch_of(method, range(50))
    assert method.points is not None
    points = method.points.take(rows)
    at_x, at_point = (torch.log_softmax(logits_of(method, at), 1) for at in (x, points.inputs))
    task = -sum(float(at_x[i, y[i]]) for i in range(50)) / 50
    counted = [i for i in range(50) if points.valid[i]]
    assert 0 < len(counted) < 50
    total = 0.0
    for i in counted:
        wanted, other = (float(at_point[i, c]) for c in (points.target[i], 1 - points.target[i]))
        total += -0.3 * wanted + 0.2 * max(0.0, 0.9 - (wanted - other))
    assert loss_of(method, range(50)) == pytest.approx(0.7 * task + total / len(counted), rel=1e-4)


def test_soft_valid_is_the_kl_to_the_teacher_at_the_point(make_context: MakeContext) -> None:
    method = started(
        make_context, "method.valid=soft", "method.task=0.0", "method.valid_only=false"
    )
    assert method.points is not None
    points = method.points.take(torch.arange(64))
    teacher = torch.log_softmax(points.logits, 1)
    student = torch.log_softmax(logits_of(method, points.inputs), 1)
    expected = (teacher.exp() * (teacher - student)).sum(1).mean()
    assert loss_of(method) == pytest.approx(float(expected), rel=1e-4, abs=1e-6)


def test_hard_and_soft_differ_and_ask_for_other_logits(make_context: MakeContext) -> None:
    losses = {
        valid: loss_of(started(make_context, f"method.valid={valid}", "method.task=0.0"))
        for valid in ("hard", "soft")
    }
    assert losses["soft"] < losses["hard"]  # a network fresh from the teacher is close to it


def test_distill_is_the_kl_to_the_teacher_at_the_row(make_context: MakeContext) -> None:
    method = started(make_context, "method.distill=2.0", "method.task=0.0", "method.eta=0.0")
    x, _, rows = batch_of(method, range(64))
    teacher = torch.log_softmax(method.context.teacher_logits[rows], 1)
    student = torch.log_softmax(logits_of(method, x), 1)
    expected = 2.0 * (teacher.exp() * (teacher - student)).sum(1).mean()
    assert loss_of(method) == pytest.approx(float(expected), rel=1e-4, abs=1e-6)


def test_the_fraction_of_a_batch_carries_points(make_context: MakeContext) -> None:
    for source in ("cached", "on_the_fly", "pool"):
        method = started(
            make_context, "method.fraction=0.25", f"method.source={source}", "method.pool_size=50"
        )
        x, _, rows = batch_of(method, range(64))
        assert len(method._points_of(x, rows).target) == 16


@pytest.mark.parametrize("source", ["cached", "on_the_fly"])
@pytest.mark.parametrize("valid_only", ["true", "false"])
def test_rejected_only_leaves_accepted_rows_out(
    source: str, valid_only: str, make_context: MakeContext
) -> None:
    method = started(
        make_context,
        "method.target=rejected_only",
        f"method.source={source}",
        f"method.valid_only={valid_only}",
        "method.task=0.0",
    )
    predicted = method.context.teacher_logits.argmax(1)
    accepted, rejected = (torch.nonzero(predicted == c)[:20, 0].tolist() for c in (1, 0))
    x, _, rows = batch_of(method, [*accepted, *rejected])
    points = method._points_of(x, rows)
    assert len(points.target) == len(rejected)
    assert bool((points.target == 1).all())
    assert loss_of(method, [*accepted, *rejected]) == pytest.approx(loss_of(method, rejected))
    assert loss_of(method, accepted) == 0.0


def test_rejected_only_solves_rejected_rows_alone(make_context: MakeContext) -> None:
    size, names = 200, ("rejected_only", "favourable", "opposite")
    targets = {}
    for target in names:
        method = started(
            make_context,
            "method.source=pool",
            f"method.pool_size={size}",
            f"method.target={target}",
        )
        assert method.points is not None
        targets[target] = method.points.target
    assert set(targets["rejected_only"].tolist()) == {1}
    assert set(targets["opposite"].tolist()) == {0, 1}
    assert len(targets["rejected_only"]) == int((targets["opposite"] == 1).sum())


def test_favourable_aims_every_row_at_class_1(make_context: MakeContext) -> None:
    method = started(make_context, "method.target=favourable")
    assert method.points is not None
    assert bool((method.points.target == 1).all())
    assert len(method.points.target) == len(method.context.data.train)


def test_valid_only_leaves_out_points_that_fail_on_the_teacher(make_context: MakeContext) -> None:
    some = started(make_context, "method.task=0.0")
    every = started(make_context, "method.task=0.0", "method.valid_only=false")
    assert some.points is not None
    valid = some.points.valid
    good, bad = (torch.nonzero(valid == v)[:10, 0].tolist() for v in (True, False))
    assert loss_of(some, [*good, *bad]) == pytest.approx(loss_of(some, good), rel=1e-5)
    assert loss_of(some, bad) == 0.0
    assert loss_of(every, bad) > 0.0
    mean = (loss_of(every, good) + loss_of(every, bad)) / 2
    assert loss_of(every, [*good, *bad]) == pytest.approx(mean, rel=1e-4)


def test_eta_scales_the_recourse_term(make_context: MakeContext) -> None:
    one, three = (
        loss_of(started(make_context, "method.task=0.0", f"method.eta={eta}"))
        for eta in ("1.0", "3.0")
    )
    assert three == pytest.approx(3 * one, rel=1e-5)


def test_the_hinge_asks_for_gamma(make_context: MakeContext) -> None:
    def hinge(gamma: str) -> float:
        return loss_of(
            started(
                make_context,
                "method.task=0.0",
                "method.eta=0.0",
                "method.beta=1.0",
                f"method.gamma={gamma}",
            )
        )

    small, large = hinge("1.0e-6"), hinge("2.0")
    assert 0 <= small < large <= 2.0 + small


# --- L_match ---


def test_the_unrolled_action_of_the_teacher_is_its_action(make_context: MakeContext) -> None:
    method = started(make_context, "method.step_size=2.0")
    assert method.points is not None
    context, x = method.context, method.context.data.train.x
    ours = unrolled_action(context.teacher, context.actions, x, method.points.target, 3, 2.0)
    expected, _ = projected_gradient(
        context.teacher,
        context.actions,
        x,
        method.points.target,
        kappa=0.0,
        steps=3,
        step_size=2.0,
        keep="last",
    )
    assert torch.equal(ours.detach(), expected)
    assert torch.equal(expected, method.points.inputs)


@pytest.mark.parametrize("eta", ["0.0", "1.0"])
@pytest.mark.parametrize("key", ["match_direction", "match_cost"])
def test_matching_adds_a_term_that_trains_the_weights(
    key: str, eta: str, make_context: MakeContext
) -> None:
    plain = started(make_context, f"method.eta={eta}", "budget.avg_bits=2.0")
    with_match = started(
        make_context, f"method.eta={eta}", f"method.{key}=1.0", "budget.avg_bits=2.0"
    )
    assert loss_of(with_match) > loss_of(plain)
    x, _, _ = batch_of(with_match, range(64))
    with_match._match(x).backward()
    for unit in with_match.network.units:
        assert unit.weight.grad is not None
        assert float(unit.weight.grad.abs().max()) > 0


def test_matching_is_measured_in_the_action_s_own_units(make_context: MakeContext) -> None:
    method = started(
        make_context, "method.match_direction=0.5", "method.match_cost=2.0", "budget.avg_bits=2.0"
    )
    space = method.context.actions
    x, _, rows = batch_of(method, range(30))
    assert method.points is not None
    theirs, target = method.points.inputs[rows], method.points.target[rows]
    config = method.config
    ours = unrolled_action(method, space, x, target, config.steps, config.step_size).detach()
    total = 0.0
    for i in range(30):
        row, a, b = x[i : i + 1], ours[i : i + 1], theirs[i : i + 1]
        moved = (space.scaled_action(row, a) - space.scaled_action(row, b)).abs().sum()
        total += 0.5 * float(moved) + 2.0 * abs(float(space.cost(row, a) - space.cost(row, b)))
    assert float(method._match(x).detach()) == pytest.approx(total / 30, rel=1e-4)


def test_rejected_only_matches_rejected_rows_alone(make_context: MakeContext) -> None:
    method = started(
        make_context,
        "method.match_direction=1.0",
        "method.target=rejected_only",
        "budget.avg_bits=2.0",
    )
    predicted = method.context.teacher_logits.argmax(1)
    accepted, rejected = (torch.nonzero(predicted == c)[:20, 0].tolist() for c in (1, 0))
    both, alone = (batch_of(method, rows)[0] for rows in ([*accepted, *rejected], rejected))
    assert float(method._match(both).detach()) == pytest.approx(
        float(method._match(alone).detach()), rel=1e-4
    )
    assert float(method._match(batch_of(method, accepted)[0]).detach()) == 0.0
