"""Who divides the bits: every YAML in conf/allocator, then HAWQ, HAQ and the sensitivities."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import AllocatorSettings
from cfq_bench.config.loader import group_settings_class, known_names, load_settings
from cfq_bench.config.plugin import load_module
from cfq_bench.config.yaml import read_yaml
from cfq_bench.errors import UserError
from cfq_bench.methods.allocators.base import Allocator, make_allocator
from cfq_bench.methods.allocators.haq import HAQ, Trial, greedy
from cfq_bench.methods.base import Context, fit_method, make_method
from cfq_bench.methods.quantized import QuantizedMethod
from cfq_bench.quantization.functional import mse_step, signed_range
from cfq_bench.quantization.sensitivity import (
    gradient_sensitivity,
    hessian_traces,
    logit_change,
    logit_residual,
    loss_change,
    weight_errors,
)
from tests.support.allocations import allowed_allocations, spent_bits
from tests.test_quantization import CANDIDATES, network_of, some_rows, teacher_of

pytestmark = pytest.mark.slow

MakeContext = Callable[..., Context]
YAMLS = known_names("allocator")
WITHOUT_TRAINING = sorted(set(YAMLS) - {"uniform", "fixed", "gumbel"})


def method_of(context: Context) -> QuantizedMethod:
    method = make_method(context)
    assert isinstance(method, QuantizedMethod)
    return method


def choose(make_context: MakeContext, allocator: str, *overrides: str) -> tuple[list[int], Any]:
    """Bits of an allocator, and the method that asked for them."""
    method = method_of(make_context("lsq", f"budget.allocator={allocator}", *overrides))
    return method.choose_bits(), method


# --- every allocator ---


@pytest.mark.parametrize("name", list(YAMLS))
def test_the_yaml_fills_its_config(name: str) -> None:
    raw = read_yaml(YAMLS[name])
    config = group_settings_class("allocator", raw)
    settings = config.model_validate({"name": name, **raw})
    assert isinstance(settings, AllocatorSettings)
    assert 0 < len(settings.about) < 100
    own = set(config.model_fields) - set(AllocatorSettings.model_fields)
    fields = load_module(raw["module"]).Config.model_json_schema()["properties"]
    assert all("description" in fields[key] for key in own)
    assert own <= set(raw), "numbers live in the YAML: an allocator's own fields have no default"


@pytest.mark.parametrize("name", list(YAMLS))
def test_the_settings_say_who_divides(name: str) -> None:
    bits = ["budget.bits=[3,3,3]"] if name == "fixed" else []
    settings = load_settings(
        "lsq", overrides=[f"budget.allocator={name}", "budget.avg_bits=4", *bits]
    )
    assert settings.allocator.name == name
    assert isinstance(make_allocator(settings), Allocator)


@pytest.mark.parametrize(
    ("method", "budget", "layers", "allocator"),
    [
        ("lsq", 4, "all", "uniform"),
        ("lsq", 3.5, "all", "pool_mse"),
        ("lsq", 4, "first_last_8", "pool_mse"),
        ("cfq", 3.5, "all", "gumbel"),
        ("mixed_hawq", 4, "all", "hawq"),
        ("mixed_haq", 3.5, "all", "haq"),
        ("ptq", 4, "all", "uniform"),
        ("ptq", 3.5, "all", "sensitivity"),
        ("mixed_ptq", 4, "all", "sensitivity"),
        ("cf_ptq", 4, "all", "cf_sensitivity"),
        ("fp32", 3.5, "all", "uniform"),
    ],
)
def test_auto_asks_the_method(method: str, budget: float, layers: str, allocator: str) -> None:
    overrides = [f"budget.avg_bits={budget}", f"quantization.layers={layers}"]
    assert load_settings(method, overrides=overrides).allocator.name == allocator


@pytest.mark.parametrize("name", WITHOUT_TRAINING)
@pytest.mark.parametrize(("blocks", "budget"), [("false", 2.0), ("true", 2.7)])
def test_allocators_use_up_the_budget_and_leave_the_network_as_it_was(
    name: str, blocks: str, budget: float, make_context: MakeContext
) -> None:
    method = method_of(
        make_context(
            "lsq",
            f"budget.allocator={name}",
            f"budget.avg_bits={budget}",
            f"quantization.input_blocks={blocks}",
        )
    )
    network = method.network
    before = {key: value.clone() for key, value in network.state_dict().items()}
    bits = method.choose_bits()
    assert bits == method.choose_bits()
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    most = max(allowed_allocations(network.sizes, network.candidates, budget, 1.0).values())
    assert 0.95 * most - 1e-9 <= spent_bits(network.sizes, bits) <= budget + 1e-9


@pytest.mark.parametrize("name", sorted(set(YAMLS) - {"fixed", "uniform"}))
def test_a_trained_method_takes_any_allocator(name: str, make_context: MakeContext) -> None:
    made = method_of(make_context("cfq_distilled", f"budget.allocator={name}"))
    fit_method(made)
    assert 0.95 * 3.3 <= spent_bits(made.network.sizes, made.network.bits()) <= 3.5


def test_objectives_are_compared_at_the_same_bits(make_context: MakeContext) -> None:
    """An allocator that does not train looks at the teacher alone, not at the method."""
    for name in WITHOUT_TRAINING:
        bits = []
        for method in ("lsq", "cfq_distilled"):
            made = method_of(make_context(method, f"budget.allocator={name}"))
            bits.append(made.choose_bits())
        assert bits[0] == bits[1]


@pytest.mark.parametrize("name", [*WITHOUT_TRAINING, "gumbel"])
def test_one_layer_takes_the_most_bits_that_the_budget_holds(
    name: str, make_context: MakeContext
) -> None:
    made = method_of(make_context("lsq", "backbone=logreg", f"budget.allocator={name}"))
    fit_method(made)
    assert made.network.bits() == [3]


# --- quantization.layers ---

OUTER = "quantization.layers=first_last_8"


@pytest.mark.parametrize(
    ("name", "blocks"),
    [(name, "true") for name in (*WITHOUT_TRAINING, "gumbel", "uniform")] + [("gumbel", "false")],
)
def test_first_and_last_layer_have_8_bits_that_count(
    name: str, blocks: str, make_context: MakeContext
) -> None:
    made = method_of(
        make_context(
            "cfq",
            OUTER,
            "budget.avg_bits=6.8",
            f"budget.allocator={name}",
            f"quantization.input_blocks={blocks}",
            "backbone=mlp4",
            "quantization.activation_bits=tied",
        )
    )
    fit_method(made)
    bits, units = made.network.bits(), made.network.units
    outer = [u for u in units if u.name.startswith("layer1") or u.name == "layer5"]
    assert len(outer) == (3 if blocks == "true" else 2)
    assert all(unit.bits == unit.candidates[0] == 8 for unit in outer)
    assert outer[-1].activation_bits == 8
    assert {unit.bits for unit in units if unit not in outer} <= set(CANDIDATES)
    assert spent_bits(made.network.sizes, bits) <= 6.8
    x = made.context.data.test.x
    assert torch.equal(made.deployed()(x), made(x))
    if name == "uniform":
        inner = {unit.bits for unit in units if unit not in outer}
        assert len(inner) == 1


def test_a_budget_that_cannot_hold_the_outer_layers_is_refused(make_context: MakeContext) -> None:
    with pytest.raises(UserError, match=r"cannot hold the first and the last layer at 8 bits") as e:
        make_method(make_context("lsq", OUTER, "budget.avg_bits=4"))
    assert "\n" not in str(e.value)
    assert "average 5.89" in str(e.value)  # layer1 has most of the weights


def test_fixed_bits_must_leave_the_outer_layers_at_8(make_context: MakeContext) -> None:
    fixed = ("budget.allocator=fixed", "budget.avg_bits=8", OUTER)
    with pytest.raises(UserError, match="be 8 for the first and the last layer"):
        make_method(make_context("lsq", *fixed, "budget.bits=[4,4,4]"))
    made = method_of(make_context("lsq", *fixed, "budget.bits=[8,4,8]"))
    fit_method(made)
    assert made.network.bits() == [8, 4, 8]


# --- HAWQ ---


def labels_of(rows: Tensor) -> Tensor:
    return (rows[:, 0] - rows[:, 1] > 0).long()


def exact_trace(teacher: Backbone, layer: int, columns: slice, x: Tensor, y: Tensor) -> float:
    """From the whole Hessian of one layer's weights."""
    linears = [i for i, module in enumerate(teacher) if isinstance(module, nn.Linear)]
    key = f"{linears[layer]}.weight"
    shape = teacher[linears[layer]].weight.shape

    def loss(weight: Tensor) -> Tensor:
        changed = {key: weight.reshape(shape)}
        return F.cross_entropy(torch.func.functional_call(teacher, changed, (x,)), y)

    flat = teacher[linears[layer]].weight.detach().flatten()
    hessian: Any = torch.autograd.functional.hessian(loss, flat)  # type: ignore[no-untyped-call]
    diagonal: Tensor = hessian.diagonal().reshape(shape)[:, columns]
    return float(diagonal.sum())


@pytest.mark.parametrize("blocks", [False, True])
def test_hutchinson_s_traces_are_the_exact_ones(blocks: bool) -> None:
    teacher, x = teacher_of(9, 8, 6, 2), some_rows(9, 100)
    y, network = labels_of(x), network_of(teacher, input_blocks=blocks)
    first = [(0, slice(0, 3)), (0, slice(3, 9))] if blocks else [(0, slice(0, 9))]
    where = [*first, (1, slice(None)), (2, slice(None))]
    exact = [exact_trace(teacher, layer, columns, x, y) for layer, columns in where]
    got = hessian_traces(network, x, y, 800, torch.Generator().manual_seed(0))
    assert got == pytest.approx(exact, rel=0.05)
    assert min(exact) > 0
    assert max(exact) > 1.2 * min(exact)
    again = hessian_traces(network, x, y, 5, torch.Generator().manual_seed(3))
    assert again == hessian_traces(network, x, y, 5, torch.Generator().manual_seed(3))
    assert all(parameter.grad is None for parameter in network.parameters())


def test_hawq_is_its_formula(make_context: MakeContext) -> None:
    bits, method = choose(make_context, "hawq", "budget.avg_bits=2.7", "allocator.probes=3")
    teacher, train = method.context.teacher, method.context.data.train
    generator = torch.Generator().manual_seed(0)
    traces = hessian_traces(method.network, train.x, train.y, 400, generator)
    price = {}
    for unit, linear in enumerate(m for m in teacher if isinstance(m, nn.Linear)):
        for b in CANDIDATES:
            low, high = signed_range(b)
            step = mse_step(linear.weight, low, high)
            error = (linear.weight / step).clamp(low, high).round() * step - linear.weight
            average = traces[unit] / linear.weight.numel()
            price[unit, b] = average * float(error.square().sum())
    allowed = allowed_allocations(method.network.sizes, [CANDIDATES] * 3, 2.7, 0.05)
    best = min(allowed, key=lambda bits: sum(price[u, b] for u, b in enumerate(bits)))
    assert tuple(bits) == best


# --- HAQ ---


class NeedsItsFirstLayer:
    """A network whose first layer needs more bits than the others, and rows that it labels."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        teacher = teacher_of(8, 24, 24, 24, 2)
        layers = [module for module in teacher if isinstance(module, nn.Linear)]
        with torch.no_grad():
            layers[0].weight[:, 0] *= 60.0  # a column that takes the whole range of few bits
        self.x = some_rows(8, 400, seed=5) * torch.tensor([0.05] + [1.0] * 7)
        with torch.no_grad():
            self.y = teacher(self.x).argmax(1)
        self.network = network_of(teacher)

    def trial(self, budget: float) -> Trial:
        return Trial(self.network, self.x, self.y, budget)


def haq_of(*overrides: str, seed: int = 0) -> HAQ:
    settings = load_settings(
        "mixed_haq", "german", overrides=[f"seed={seed}", "budget.avg_bits=3.5", *overrides]
    )
    allocator = make_allocator(settings)
    assert isinstance(allocator, HAQ)
    return allocator


def test_haq_learns_to_do_better_than_at_random() -> None:
    gains = []
    for seed in range(3):
        task, haq = NeedsItsFirstLayer(), haq_of(seed=seed)
        tries = haq.tries(task.trial(4.5))
        reward = [done.accuracy for done in tries]
        warmup = haq.config.warmup
        gains.append(np.mean(reward[-20:]) - np.mean(reward[:warmup]))
        sizes = task.network.sizes
        assert all(0.95 * 4.4 <= spent_bits(sizes, done.bits) <= 4.5 for done in tries)
        assert len({tuple(done.bits) for done in tries[:warmup]}) > 3
    assert min(gains) > 0.0
    assert np.mean(gains) > 0.02


def test_haq_depends_on_its_seed_alone() -> None:
    runs = []
    for global_seed, seed in ((1, 0), (2, 0), (1, 1)):
        task = NeedsItsFirstLayer()
        torch.manual_seed(global_seed)
        tries = haq_of("allocator.episodes=40", seed=seed).tries(task.trial(4.5))
        runs.append([done.bits for done in tries])
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_greedy_finds_the_layer_that_needs_bits() -> None:
    task = NeedsItsFirstLayer()
    trial = task.trial(4.5)
    bits = greedy(trial)
    assert 0.95 * 4.4 <= spent_bits(task.network.sizes, bits) <= 4.5
    assert bits[0] == 8
    assert trial.run(bits).accuracy > trial.run(trial.wall([2.0, 8.0, 8.0, 8.0])).accuracy


def test_the_wall_is_the_nearest_allocation_within_the_budget() -> None:
    trial = NeedsItsFirstLayer().trial(4.5)
    allowed = allowed_allocations(trial.sizes, trial.candidates, 4.5, 0.05)
    for proposed in ([8.0, 2.2, 3.4, 8.0], [2.0] * 4, [8.0] * 4, [4.4, 4.4, 4.6, 5.0]):
        bits = trial.wall(proposed)
        least = min(
            sum(abs(b - p) for b, p in zip(bits, proposed, strict=True)) for bits in allowed
        )
        near = {
            bits
            for bits in allowed
            if sum(abs(b - p) for b, p in zip(bits, proposed, strict=True)) < least + 1e-9
        }
        # What the nearest leaves of the budget is spent.
        assert any(all(b >= n for b, n in zip(bits, other, strict=True)) for other in near)
        assert spent_bits(trial.sizes, bits) <= 4.5
        assert trial.wall([float(b) for b in bits]) == bits


def test_haq_s_greedy_search_is_a_setting(make_context: MakeContext) -> None:
    bits, method = choose(make_context, "haq", "allocator.search=greedy")
    rows = method.allocator._rows(method.context)
    assert bits == greedy(Trial(method.network, *rows, 3.5))
    train = {tuple(row) for row in method.context.data.train.x.tolist()}
    assert {tuple(row) for row in rows[0].tolist()} <= train


# --- sensitivities ---


@pytest.mark.parametrize("blocks", [False, True])
def test_the_gradient_sensitivity_is_the_paper_s_sum_over_rows(blocks: bool) -> None:
    teacher, x = teacher_of(9, 8, 6, 2), some_rows(9, 30)
    y, network = labels_of(x), network_of(teacher, input_blocks=blocks)
    totals = np.zeros(4 if blocks else 3)
    for row in range(len(x)):
        loss = F.cross_entropy(teacher(x[row : row + 1]), y[row : row + 1])
        weights = [module.weight for module in teacher if isinstance(module, nn.Linear)]
        for parameter in weights:
            parameter.requires_grad_()
        loss = F.cross_entropy(teacher(x[row : row + 1]), y[row : row + 1])
        first, *others = torch.autograd.grad(loss, weights)
        parts = [first[:, :3], first[:, 3:]] if blocks else [first]
        totals += [float(part.abs().sum()) for part in [*parts, *others]]
    assert gradient_sensitivity(network, x, y) == pytest.approx(totals / len(x), rel=1e-4)


def test_loss_change_and_weight_errors_by_hand() -> None:
    teacher, x = teacher_of(9, 16, 2), some_rows(9)
    y, network = labels_of(x), network_of(teacher)
    layer: Any = teacher[2]
    before, original = float(F.cross_entropy(teacher(x), y)), layer.weight.data.clone()
    low, high = signed_range(2)
    step = mse_step(original, low, high)
    layer.weight.data = (original / step).clamp(low, high).round() * step
    grown = float(F.cross_entropy(teacher(x), y)) - before
    moved = float((layer.weight.data - original).abs().max())
    layer.weight.data = original
    assert loss_change(network, x, y)[1][0] == pytest.approx(grown, abs=1e-6)
    errors = weight_errors(network, lambda error: error.abs().max())
    assert errors[1][0] == pytest.approx(moved)
    assert all(row == sorted(row, reverse=True) for row in errors)


@pytest.mark.parametrize("outputs", [2, 3])
def test_the_residual_is_the_least_squares_error(outputs: int) -> None:
    teacher, x = teacher_of(9, 16, outputs), some_rows(9, 60)
    network = network_of(teacher)
    layer: Any = teacher[0]
    original = layer.weight.data.clone()
    wanted = (teacher(x)[:, 1:] - teacher(x)[:, :1]).detach().double().numpy()
    low, high = signed_range(2)
    step = mse_step(original, low, high)
    layer.weight.data = (original / step).clamp(low, high).round() * step
    moved = (teacher(x)[:, 1:] - teacher(x)[:, :1]).detach().double().numpy()
    layer.weight.data = original
    left = []
    for column in range(outputs - 1):
        line = np.polynomial.Polynomial.fit(moved[:, column], wanted[:, column], 1)
        left.append(np.mean((line(moved[:, column]) - wanted[:, column]) ** 2))
    assert logit_residual(network, teacher, x)[0][0] == pytest.approx(np.mean(left), rel=1e-4)
    assert np.mean(left) < np.mean((moved - wanted) ** 2)


def test_what_training_takes_away_at_once_costs_no_bits() -> None:
    """Weights of one size in steps that do not divide them: another gain, and nothing else."""
    teacher, x = teacher_of(4, 8, 2), some_rows(4, 50)
    layer: Any = teacher[2]
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0], [-1.0]]).expand(2, 8))
    network = network_of(teacher)
    network.units[1].set_step(0, torch.tensor(0.8))
    assert logit_change(network, teacher, x)[1][0] > 1e-3
    assert logit_residual(network, teacher, x)[1][0] == pytest.approx(0.0, abs=1e-9)


def test_a_network_that_answers_the_same_everywhere_explains_nothing() -> None:
    teacher, x = teacher_of(4, 8, 2), some_rows(4, 50)
    network = network_of(teacher)
    blind: Any = copy.deepcopy(teacher)
    with torch.no_grad():
        network.units[0].weight.zero_()
    found = logit_residual(network, blind, x)
    wanted = blind(x)[:, 1] - blind(x)[:, 0]
    assert found[1][3] == pytest.approx(float(wanted.var(unbiased=False)), rel=1e-4)


def test_sensitivities_look_at_their_own_points(make_context: MakeContext) -> None:
    costs = {}
    for name in ("sensitivity", "cf_sensitivity"):
        for measure in ("gradient", "logit_change", "logit_residual", "loss_change"):
            _, method = choose(make_context, name, f"allocator.measure={measure}")
            allocator = method.allocator
            costs[name, measure] = allocator.costs(method.network, method.origin, method.context)
    _, method = choose(make_context, "pool_mse")
    pool = method.allocator.costs(method.network, method.origin, method.context)
    assert pool == costs["cf_sensitivity", "logit_change"]
    _, method = choose(make_context, "pool_residual")
    left = method.allocator.costs(method.network, method.origin, method.context)
    assert left == costs["cf_sensitivity", "logit_residual"]
    assert len({str(cost) for cost in costs.values()}) == 8
