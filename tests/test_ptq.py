"""Post-training quantization: calibration rules, and CF-PTQ's two switches."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from cfq_bench.config.loader import load_settings
from cfq_bench.experiment import Options, run
from cfq_bench.methods.base import Context, NotApplicableError, fit_method, make_method
from cfq_bench.methods.ptq import PTQ
from cfq_bench.quantization.calibration import (
    Calibration,
    Moments,
    Rule,
    calibrate,
    clip_step,
    output_step,
)
from cfq_bench.quantization.functional import (
    LEAST_STEP,
    lsq,
    mse_step,
    signed_range,
    unsigned_levels,
)
from cfq_bench.quantization.layers import QuantLinear
from tests.test_quantization import CANDIDATES, Kind, network_of, some_rows, teacher_of

pytestmark = pytest.mark.slow

MakeContext = Callable[..., Context]
RULES: list[Rule] = ["minmax", "percentile", "mse", "output"]


def fitted(context: Context) -> PTQ:
    method = make_method(context)
    assert isinstance(method, PTQ)
    fit_method(method)
    return method


def steps_of(unit: QuantLinear) -> Tensor:
    return unit.log_step.detach().exp()


# --- steps ---


@given(
    values=st.lists(st.floats(-8, 8, width=16), min_size=2, max_size=30),
    bits=st.sampled_from(CANDIDATES),
)
@settings(max_examples=100, deadline=None)
def test_the_whole_range_is_covered_exactly(values: list[float], bits: int) -> None:
    low, high = signed_range(bits)
    tensor = torch.tensor(values)
    step = float(clip_step(tensor, low, high, 1.0))
    top, bottom = max(values), min(values)
    assert step * high >= top - 1e-5
    assert step * low <= bottom + 1e-5
    if step > 1e-3:  # one of the ends is met
        assert math.isclose(step * high, top, rel_tol=1e-5) or math.isclose(
            step * low, bottom, rel_tol=1e-5
        )
        rounded = lsq(tensor, torch.tensor(step), low, high)
        assert float((rounded - tensor).abs().max()) <= step / 2 + 1e-5


def test_a_percentile_leaves_out_the_tails() -> None:
    values = torch.cat([torch.linspace(-1.0, 1.0, 999), torch.tensor([50.0])])
    whole, most = (float(clip_step(values, -8, 7, share)) for share in (1.0, 0.999))
    assert whole == pytest.approx(50.0 / 7)
    assert most == pytest.approx(1.0 / 7, rel=0.01)
    rows = torch.stack([values, 3.0 * values])
    each = clip_step(rows, -8, 7, 0.999, per_row=True)
    assert each.shape == (2, 1)
    assert each.flatten().tolist() == pytest.approx([most, 3 * most])
    assert float(clip_step(torch.zeros(5), -8, 7, 1.0)) == pytest.approx(LEAST_STEP)


def output_error(w: Tensor, q: Tensor, u: Tensor, u_q: Tensor) -> Tensor:
    """(out,) mean squared error, from the rows themselves."""
    return (u @ w.T - u_q @ q.T).square().mean(0)


@pytest.mark.parametrize("bits", CANDIDATES)
@pytest.mark.parametrize("per_row", [False, True])
def test_the_output_step_has_the_least_output_error(bits: int, per_row: bool) -> None:
    generator = torch.Generator().manual_seed(bits)
    w = torch.randn(6, 5, generator=generator)
    u = torch.randn(300, 5, generator=generator) * torch.tensor([9.0, 1.0, 0.1, 1.0, 0.1])
    u_q = u + 0.05 * torch.randn(300, 5, generator=generator)
    low, high = signed_range(bits)
    reach = max(-low - 0.5, float(high))
    best = torch.full((6, 1) if per_row else (1, 1), torch.inf)
    step = torch.zeros_like(best)
    rows = w if per_row else w.reshape(1, -1)
    for ratio in torch.linspace(0.2, 1.1, 60):
        tried = rows.abs().amax(1, keepdim=True) * float(ratio) / reach
        q = (rows / tried).clamp(low, high).round() * tried
        each = output_error(w, q.reshape(w.shape), u, u_q)[:, None]
        error = each if per_row else each.sum().reshape(1, 1)
        better = error < best
        best, step = torch.where(better, error, best), torch.where(better, tried, step)
    got = output_step(w, low, high, Moments.of(u, u_q), per_row=per_row)
    assert got.shape == ((6, 1) if per_row else ())
    torch.testing.assert_close(got.reshape(step.shape), step)


def test_output_steps_look_at_the_inputs_and_mse_steps_do_not() -> None:
    w = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    u = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    stretched = u * torch.tensor([20.0, 1.0, 1.0, 1.0])
    steps = {float(output_step(w, -2, 1, Moments.of(x, x))) for x in (u, stretched)}
    assert len(steps) == 2
    white = torch.linalg.qr(u).Q  # uncorrelated inputs of one size: all weights count alike
    torch.testing.assert_close(output_step(w, -2, 1, Moments.of(white, white)), mse_step(w, -2, 1))


# --- a whole network ---


@pytest.mark.parametrize("kind", ["lsq", "pact"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("per_channel", "activation_bits"), [(False, 8), (True, "tied")])
def test_calibration_is_its_rule_on_every_unit(
    kind: Kind, rule: Rule, per_channel: bool, activation_bits: Any
) -> None:
    teacher, rows = teacher_of(9, 16, 8, 2), some_rows(9, 100)
    network = network_of(teacher, kind, per_channel=per_channel, activation_bits=activation_bits)
    calibrate(network, rows, Calibration(rule, 0.99))
    read = [nn.Sequential(*list(teacher)[:depth])(rows) for depth in (0, 2, 4)]
    for unit, values in zip(network.units, read, strict=True):
        for i, bits in enumerate(CANDIDATES):
            low, high = signed_range(bits)
            step = steps_of(unit)[i]
            if rule == "mse":
                expected = mse_step(unit.weight, low, high, per_row=per_channel)
                torch.testing.assert_close(step, expected.reshape(step.shape))
            if rule == "minmax":
                assert bool((unit.weight <= step * high + 1e-5).all())
                assert bool((unit.weight >= step * low - 1e-5).all())
        if unit.activation is None:
            continue
        for i, bits in enumerate(unit.activation.bits):
            levels = unsigned_levels(bits)
            scale = float(unit.activation.log_scale[i].detach().exp())
            top = scale if kind == "pact" else scale * levels
            if rule == "minmax":
                assert top == pytest.approx(float(values.max()), rel=1e-5)
            elif rule == "percentile":
                assert 0.0 < top < float(values.max())
            else:
                expected = float(mse_step(values, 0, levels))
                assert top / levels == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_eight_bits_are_close_to_the_teacher(rule: Rule) -> None:
    teacher, rows = teacher_of(9, 16, 8, 2), some_rows(9, 300)
    network = network_of(teacher)
    calibrate(network, rows, Calibration(rule, 0.9999))
    network.select_bits([8, 8, 8])
    with torch.no_grad():
        spread = float(teacher(rows).std())
        assert float((network.deploy()(rows) - teacher(rows)).abs().mean()) < 0.02 * spread


def test_the_output_rule_has_the_least_error_of_each_layer() -> None:
    teacher, rows = teacher_of(9, 16, 8, 2), some_rows(9, 300)
    errors = {}
    for rule in RULES:
        network = network_of(teacher, candidates=[3])
        calibrate(network, rows, Calibration(rule, 0.99))
        unit = network.units[0]
        with torch.no_grad():
            errors[rule] = float((unit(rows) - teacher[0](rows)).square().mean())
    assert errors["output"] == min(errors.values())
    assert len(set(errors.values())) == 4


# --- the methods ---


@pytest.mark.parametrize("name", ["ptq", "mixed_ptq", "cf_ptq"])
@pytest.mark.parametrize("blocks", ["true", "false"])
def test_the_backbone_s_weights_are_the_teacher_s_bitwise(
    name: str, blocks: str, make_context: MakeContext
) -> None:
    context = make_context(name, f"quantization.input_blocks={blocks}")
    method = fitted(context)
    layers = [module for module in context.teacher if isinstance(module, nn.Linear)]
    units = method.network.units
    if blocks == "true":
        assert torch.equal(torch.cat([u.weight for u in units[:2]], 1), layers[0].weight)
        assert units[0].bias is not None
        assert torch.equal(units[0].bias, layers[0].bias)
        units, layers = units[2:], layers[1:]
    for unit, layer in zip(units, layers, strict=True):
        assert torch.equal(unit.weight, layer.weight)
        assert unit.bias is not None
        assert torch.equal(unit.bias, layer.bias)


def test_ptq_with_mse_has_the_steps_that_qat_starts_from(make_context: MakeContext) -> None:
    method = fitted(make_context("ptq", "method.rule=mse", "budget.avg_bits=4"))
    fresh = make_method(make_context("lsq", "budget.avg_bits=4"))
    for unit, other in zip(method.network.units, fresh.network.units, strict=True):
        assert torch.equal(unit.log_step, other.log_step)
        if unit.activation is not None:
            assert torch.equal(unit.activation.log_scale, other.activation.log_scale)


def test_the_two_switches_of_cf_ptq_give_four_configurations(make_context: MakeContext) -> None:
    """The cells of Table 16; at this budget the two allocations differ."""
    seen: dict[tuple[str, str], tuple[list[int], list[Tensor]]] = {}
    for points in ("factual", "augmented"):
        for allocator in ("sensitivity", "cf_sensitivity"):
            method = fitted(
                make_context(
                    "cf_ptq",
                    "budget.avg_bits=3.5",
                    "quantization.input_blocks=true",
                    f"method.points={points}",
                    f"method.mixed_allocator={allocator}",
                )
            )
            steps = [steps_of(unit) for unit in method.network.units]
            seen[points, allocator] = method.network.bits(), steps
    for allocator in ("sensitivity", "cf_sensitivity"):
        factual, augmented = seen["factual", allocator][1], seen["augmented", allocator][1]
        assert not all(torch.equal(a, b) for a, b in zip(factual, augmented, strict=True))
    for points in ("factual", "augmented"):
        one, other = seen[points, "sensitivity"], seen[points, "cf_sensitivity"]
        assert all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))
        assert one[0] != other[0]


def test_mixed_ptq_is_cf_ptq_with_both_switches_off(make_context: MakeContext) -> None:
    off = ("method.points=factual", "method.mixed_allocator=sensitivity")
    x = make_context("cf_ptq").data.test.x
    one, other = fitted(make_context("mixed_ptq")), fitted(make_context("cf_ptq", *off))
    assert one.network.bits() == other.network.bits()
    assert torch.equal(one.deployed()(x), other.deployed()(x))


def test_calibration_reads_train_rows_and_their_recourse_points_alone(
    make_context: MakeContext,
) -> None:
    method = make_method(make_context("cf_ptq", "method.pool_size=50"))
    assert isinstance(method, PTQ)
    points, train = method._points(), method.context.data.train
    assert torch.equal(points[: len(train)], train.x)
    pool = method.context.recourse_pool("opposite", 50, [0.0, 0.5]).inputs
    assert torch.equal(points[len(train) :], pool)
    assert len(pool) > 0


@pytest.mark.parametrize("name", ["ptq", "mixed_ptq", "cf_ptq"])
def test_a_policy_that_trains_is_not_for_ptq(name: str, make_context: MakeContext) -> None:
    with pytest.raises(NotApplicableError, match="gumbel learns its bits in training"):
        make_method(make_context(name, "budget.allocator=gumbel"))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("budget", [2.0, 3.5, 8.0])
def test_every_rule_and_budget_gives_finite_logits(
    rule: str, budget: float, make_context: MakeContext
) -> None:
    method = fitted(
        make_context(
            "cf_ptq",
            f"method.rule={rule}",
            f"budget.avg_bits={budget}",
            "quantization.per_channel=true",
            "quantization.activation_bits=tied",
        )
    )
    x = method.context.data.test.x
    assert bool(method.deployed()(x).isfinite().all())
    assert torch.equal(method.deployed()(x), method(x))
    if budget == 8.0:
        assert method.network.bits() == [8, 8, 8]


@pytest.mark.parametrize("name", ["cf_ptq"])
def test_a_run_on_compas_is_finite(
    name: str, tmp_path: Path, cache_dir: Path, short_overrides: list[str]
) -> None:
    settings = load_settings(name, "compas", overrides=[*short_overrides, "data.fit.epochs=1"])
    record = run(settings, Options(tmp_path, cache_dir, wandb="disabled"))
    assert (record.status, record.reason) == ("ok", None)
    for key in ("vd", "vd_adverse", "boundary_error"):
        value = record.metrics[f"recourse/{key}"]
        assert value is not None
        assert 0.0 <= value <= 1.0
    average = record.metrics["deploy/avg_bits"]
    assert average is not None
    assert 0.95 * 3.4 <= average <= 3.5
