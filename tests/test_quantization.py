"""Quantizers do what their papers print, and what is deployed is what was trained."""

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.settings import QuantizationSettings
from cfq_bench.methods.allocators.gumbel import discretise
from cfq_bench.quantization.allocation import fewest_average, least_cost, spend_rest
from cfq_bench.quantization.cost import average_bits, bit_operations
from cfq_bench.quantization.deployed import DeployedLinear, DeployedNetwork, Shipped
from cfq_bench.quantization.float_pass import float_pass
from cfq_bench.quantization.functional import (
    LEAST_STEP,
    gumbel_softmax,
    lsq,
    mse_step,
    pact,
    select,
    signed_range,
    unsigned_levels,
)
from cfq_bench.quantization.layers import ActivationQuantizer, QuantLinear
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.sensitivity import logit_change
from tests.support.allocations import allowed_allocations

CANDIDATES = [2, 3, 4, 8]
Kind = Literal["lsq", "pact"]
finite = st.floats(-50.0, 50.0, width=32)
vectors = st.lists(finite, min_size=1, max_size=20)
steps = st.floats(0.0078125, 4.0, width=32)


# --- an independent implementation ---


def lsq_by_hand(
    value: np.ndarray, step: float, low: int, high: int, upstream: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Value, gradient to the value, gradient to one shared step; element by element."""
    out, to_value, to_step = np.zeros_like(value), np.zeros_like(value), 0.0
    for i, (w, g) in enumerate(zip(value, upstream, strict=True)):
        v = np.float32(w) / np.float32(step)
        if v <= low:
            out[i], residual = np.float32(low) * np.float32(step), float(low)
        elif v >= high:
            out[i], residual = np.float32(high) * np.float32(step), float(high)
        else:
            code = np.rint(v)  # half to even
            out[i], residual = code * np.float32(step), float(code) - float(v)
            to_value[i] = g
        to_step += residual * float(g)
    return out, to_value, to_step


def pact_by_hand(
    value: np.ndarray, alpha: float, levels: int, upstream: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    out, to_value, to_alpha = np.zeros_like(value), np.zeros_like(value), 0.0
    step = np.float32(alpha) / np.float32(levels)
    for i, (a, g) in enumerate(zip(value, upstream, strict=True)):
        clipped = min(max(np.float32(a), np.float32(0.0)), np.float32(alpha))
        out[i] = np.rint(clipped / step) * step
        if a >= np.float32(alpha):
            to_alpha += float(g)
        elif a > 0:
            to_value[i] = g
    return out, to_value, to_alpha


def with_gradients(
    function: Any, value: Tensor, parameter: Tensor, upstream: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    value, parameter = value.clone().requires_grad_(), parameter.clone().requires_grad_()
    out = function(value, parameter, *rest)
    to_value, to_parameter = torch.autograd.grad(out, [value, parameter], upstream)
    return out.detach(), to_value, to_parameter


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("step", [0.25, 0.3])
def test_lsq_is_pytorchs_learnable_fake_quantizer(bits: int, step: float) -> None:
    """PyTorch's own kernel for quantization-aware training, written by others from the same paper.

    It divides by multiplying with 1 / step and lets gradients pass at the clip's ends: values whose
    quotient is near a tie or at an end are left out.
    """
    low, high = signed_range(bits)
    value = torch.randn(4096, generator=torch.Generator().manual_seed(bits)) * step * high
    ratio = value / step
    ends = torch.tensor([low, high])
    near = ((ratio - ratio.floor() - 0.5).abs() < 1e-4) | ((ratio[:, None] - ends).abs() < 0.5).any(
        1
    )
    value = value[~near]
    upstream = torch.randn(value.shape, generator=torch.Generator().manual_seed(1))
    found = []
    for kernel in (
        lambda v, s: lsq(v, s, low, high, 0.125),
        lambda v, s: torch.ops.aten._fake_quantize_learnable_per_tensor_affine(
            v, s, torch.zeros(1), low, high, 0.125
        ),
    ):
        v, s = value.clone().requires_grad_(), torch.tensor([step], requires_grad=True)
        out = kernel(v, s)
        out.backward(upstream)
        assert v.grad is not None
        assert s.grad is not None
        found.append((out.detach(), v.grad, s.grad))
    (ours, our_value, our_step), (theirs, their_value, their_step) = found
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0.0)
    assert torch.equal(our_value, their_value)
    torch.testing.assert_close(our_step, their_step, rtol=1e-4, atol=1e-4)


# --- LSQ ---


@pytest.mark.parametrize("bits", CANDIDATES)
@pytest.mark.parametrize("signed", [True, False])
@given(value=vectors, step=steps, data=st.data())
@settings(max_examples=40, deadline=None)
def test_lsq_is_its_formula(
    bits: int, signed: bool, value: list[float], step: float, data: st.DataObject
) -> None:
    low, high = signed_range(bits) if signed else (0, unsigned_levels(bits))
    upstream = data.draw(st.lists(finite, min_size=len(value), max_size=len(value)))
    v, g = np.array(value, np.float32), np.array(upstream, np.float32)
    out, to_value, to_step = with_gradients(
        lsq, torch.tensor(v), torch.tensor(step), torch.tensor(g), low, high
    )
    expected, expected_value, expected_step = lsq_by_hand(v, step, low, high, g)
    np.testing.assert_array_equal(out.numpy(), expected)
    np.testing.assert_array_equal(to_value.numpy(), expected_value)
    bulk = float(np.abs(g).sum()) * max(-low, high)
    assert float(to_step) == pytest.approx(expected_step, rel=1e-5, abs=1e-6 * bulk + 1e-9)


def test_lsq_on_the_values_that_go_wrong_elsewhere() -> None:
    """Ties, both clips, exactly on a clip, and (q+, q+ + 1/2], at 2 bits: codes -2 to 1."""
    step = torch.tensor(0.5)
    ratio = torch.tensor([0.5, -0.5, -1.5, 1.2, 1.5, 1.0, -2.0, -2.3, 9.0, 0.25])
    out, to_value, to_step = with_gradients(
        lsq, ratio * step, step.expand(10), torch.ones(10), -2, 1
    )
    assert (out / step).tolist() == [0, 0, -2, 1, 1, 1, -2, -2, 1, 0]
    assert to_value.tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0, 1]
    torch.testing.assert_close(
        to_step, torch.tensor([-0.5, 0.5, -0.5, 1.0, 1.0, 1.0, -2.0, -2.0, 1.0, -0.25])
    )


def test_values_are_divided_by_the_step_not_multiplied_by_its_inverse() -> None:
    step = torch.linspace(0.01, 1.0, 100)[:, None]
    value = (torch.arange(100) + 0.5) * step  # ties, up to the rounding of float32
    codes = (lsq(value, step, -128, 127) / step).round()
    expected = np.rint(value.numpy() / step.numpy())
    np.testing.assert_array_equal(codes.numpy(), expected)
    assert not np.array_equal(np.rint(value.numpy() * (1 / step.numpy())), expected)  # it matters


@given(value=vectors, step=steps, bits=st.sampled_from(CANDIDATES))
@settings(max_examples=60, deadline=None)
def test_lsq_is_on_its_grid_and_quantizing_again_changes_nothing(
    value: list[float], step: float, bits: int
) -> None:
    low, high = signed_range(bits)
    s = torch.tensor(step)
    once = lsq(torch.tensor(value), s, low, high)
    codes = (once / s).round()
    assert torch.equal(codes * s, once)
    assert low <= codes.min()
    assert codes.max() <= high
    assert torch.equal(lsq(once, s, low, high), once)


def test_the_gradient_scale_multiplies_the_step_gradient_alone() -> None:
    value, upstream = torch.randn(8), torch.randn(8)
    plain = with_gradients(lsq, value, torch.tensor(0.3), upstream, -4, 3)
    scaled = with_gradients(lsq, value, torch.tensor(0.3), upstream, -4, 3, 0.25)
    assert torch.equal(plain[1], scaled[1])
    torch.testing.assert_close(0.25 * plain[2], scaled[2])


def test_lsq_broadcasts_per_channel_and_over_leading_dimensions() -> None:
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(3, 2, 4, 5, generator=generator)
    step = torch.tensor([0.1, 0.2, 0.4, 0.8]).reshape(1, 1, 4, 1)
    upstream = torch.randn(value.shape, generator=generator)
    out, to_value, to_step = with_gradients(lsq, value, step, upstream, -8, 7)
    assert to_step.shape == step.shape
    for channel in range(4):
        v, g = value[:, :, channel], upstream[:, :, channel]
        expected = lsq_by_hand(
            v.flatten().numpy(), float(step[0, 0, channel, 0]), -8, 7, g.flatten().numpy()
        )
        np.testing.assert_array_equal(out[:, :, channel].flatten().numpy(), expected[0])
        np.testing.assert_array_equal(to_value[:, :, channel].flatten().numpy(), expected[1])
        assert float(to_step[0, 0, channel, 0]) == pytest.approx(expected[2], rel=1e-5, abs=1e-5)


# --- PACT ---


@pytest.mark.parametrize("bits", CANDIDATES)
@given(value=vectors, alpha=steps, data=st.data())
@settings(max_examples=40, deadline=None)
def test_pact_is_its_formula(
    bits: int, value: list[float], alpha: float, data: st.DataObject
) -> None:
    upstream = data.draw(st.lists(finite, min_size=len(value), max_size=len(value)))
    v, g, levels = np.array(value, np.float32), np.array(upstream, np.float32), 2**bits - 1
    out, to_value, to_alpha = with_gradients(
        pact, torch.tensor(v), torch.tensor(alpha), torch.tensor(g), levels
    )
    expected, expected_value, expected_alpha = pact_by_hand(v, alpha, levels, g)
    np.testing.assert_array_equal(out.numpy(), expected)
    np.testing.assert_array_equal(to_value.numpy(), expected_value)
    bulk = float(np.abs(g).sum())
    assert float(to_alpha) == pytest.approx(expected_alpha, rel=1e-5, abs=1e-6 * bulk + 1e-9)


def test_pact_on_ties_and_both_clips() -> None:
    """Two bits, alpha 3: step 1, codes 0 to 3."""
    value = torch.tensor([-1.0, 0.0, 0.5, 1.5, 2.5, 3.0, 3.4, 9.0])
    out, to_value, to_alpha = with_gradients(pact, value, torch.tensor(3.0), torch.ones(8), 3)
    assert out.tolist() == [0, 0, 0, 2, 2, 3, 3, 3]
    assert to_value.tolist() == [0, 0, 1, 1, 1, 0, 0, 0]
    assert to_alpha == 3.0  # at and above alpha, and no rounding residual


def test_pact_broadcasts_over_leading_dimensions() -> None:
    value = torch.randn(2, 3, 4).abs()
    alpha = torch.tensor([0.5, 1.0, 2.0]).reshape(3, 1)
    _, _, to_alpha = with_gradients(pact, value, alpha, torch.ones_like(value), 15)
    assert torch.equal(to_alpha, (value >= alpha).float().sum((0, 2)).reshape(3, 1))


# --- the choice among candidates ---


def test_select_is_the_chosen_one_and_tells_every_candidate_its_worth() -> None:
    generator = torch.Generator().manual_seed(0)
    candidates = torch.randn(4, 3, 5, generator=generator)
    source = candidates[2].clone().requires_grad_()
    z = torch.softmax(torch.randn(4, generator=generator), 0).requires_grad_()
    upstream = torch.randn(3, 5, generator=generator)
    out = select(candidates, source * 1.0, z)
    assert torch.equal(out, candidates[2])
    to_chosen, to_z = torch.autograd.grad(out, [source, z], upstream)
    assert torch.equal(to_chosen, upstream)
    torch.testing.assert_close(to_z, (candidates * upstream).sum((1, 2)))


def test_gumbel_softmax_is_a_distribution_that_depends_on_its_generator_alone() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])
    first = gumbel_softmax(logits, 0.7, torch.Generator().manual_seed(3))
    again = gumbel_softmax(logits, 0.7, torch.Generator().manual_seed(3))
    other = gumbel_softmax(logits, 0.7, torch.Generator().manual_seed(4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert bool((first >= 0).all())
    torch.testing.assert_close(first.sum(1), torch.ones(2))
    shifted = gumbel_softmax(logits + 5.0, 0.7, torch.Generator().manual_seed(3))
    torch.testing.assert_close(first, shifted)


def test_gumbel_argmax_has_the_policy_s_frequencies() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0])
    drawn = gumbel_softmax(logits.expand(20_000, 3), 0.3, torch.Generator().manual_seed(0))
    share = drawn.argmax(1).bincount(minlength=3) / 20_000
    torch.testing.assert_close(share, torch.softmax(logits, 0), atol=0.015, rtol=0.0)


def test_gumbel_softmax_teaches_its_logits_at_every_temperature_used() -> None:
    for tau in (1.0, 0.3):
        logits = torch.zeros(50, 4, requires_grad=True)
        z = gumbel_softmax(logits, tau, torch.Generator().manual_seed(0))
        (gradient,) = torch.autograd.grad((z * torch.arange(4.0)).sum(), logits)
        assert bool(gradient.isfinite().all())
        assert float(gradient.abs().amax(1).median()) > 1e-3


# --- the step to start from ---


def rounding_error(value: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    return ((value / step).clamp(low, high).round() * step - value).square().sum()


@pytest.mark.parametrize("bits", CANDIDATES)
@pytest.mark.parametrize("signed", [True, False])
def test_mse_step_beats_its_neighbours(bits: int, signed: bool) -> None:
    value = torch.randn(40, 30, generator=torch.Generator().manual_seed(bits))
    low, high = signed_range(bits) if signed else (0, unsigned_levels(bits))
    value = value if signed else value.relu()
    step = mse_step(value, low, high)
    assert step.shape == ()
    best = float(rounding_error(value, step, low, high))
    for factor in (0.25, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0, 4.0):
        assert best < float(rounding_error(value, factor * step, low, high))


def test_mse_step_per_row_is_that_of_each_row() -> None:
    value = torch.randn(5, 40, generator=torch.Generator().manual_seed(1)) * torch.logspace(
        -3, 1, 5
    ).reshape(5, 1)
    step = mse_step(value, -8, 7, per_row=True)
    assert step.shape == (5, 1)
    torch.testing.assert_close(step[:, 0], torch.stack([mse_step(row, -8, 7) for row in value]))


def test_an_all_zero_input_gets_the_floor() -> None:
    assert float(mse_step(torch.zeros(3, 4), -2, 1)) == pytest.approx(LEAST_STEP)
    value = torch.tensor([[0.0, 0.0], [1.0, -1.0]])
    step = mse_step(value, -2, 1, per_row=True)
    assert float(step[0, 0]) == pytest.approx(LEAST_STEP)
    assert float(step[1, 0]) > 0.1


# --- networks ---


def teacher_of(*widths: int, seed: int = 0) -> Backbone:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = Backbone(None, widths[0], widths[-1])
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            if i:
                net.append(nn.ReLU())
            net.append(nn.Linear(before, after))
    return net.requires_grad_(False)


def settings_of(**changes: Any) -> QuantizationSettings:
    fields: dict[str, Any] = {
        "candidates": CANDIDATES,
        "activation_bits": 8,
        "input_blocks": False,
        "per_channel": False,
        "layers": "all",
    }
    return QuantizationSettings(**{**fields, **changes})


def network_of(
    teacher: Backbone, kind: Kind = "lsq", ramp: float | None = None, **changes: Any
) -> QuantizedNetwork:
    rows = torch.randn(200, teacher.width, generator=torch.Generator().manual_seed(7))
    return QuantizedNetwork(teacher, settings_of(**changes), kind, 3, rows, ramp)


def some_rows(width: int, count: int = 60, seed: int = 11) -> Tensor:
    return 2.0 * torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def perturbed(network: QuantizedNetwork) -> QuantizedNetwork:
    """As after training: steps, thresholds and weights are no longer where they started."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return network


VARIANTS = list(itertools.product(["lsq", "pact"], ["tied", 8, 2], [False, True], [False, True]))


@pytest.mark.parametrize(("kind", "activation_bits", "blocks", "per_channel"), VARIANTS)
def test_the_deployed_network_is_the_simulated_one(
    kind: Kind, activation_bits: Any, blocks: bool, per_channel: bool
) -> None:
    network = perturbed(
        network_of(
            teacher_of(9, 16, 8, 2),
            kind,
            activation_bits=activation_bits,
            input_blocks=blocks,
            per_channel=per_channel,
        )
    )
    x = some_rows(9)
    choices = ([2, 2, 2, 2], [4, 3, 2, 8], [8, 8, 8, 8], [3, 8, 4, 2])
    for bits in (choice[: len(network.units)] for choice in choices):
        network.select_bits(bits)
        deployed = network.deploy()
        with torch.no_grad():
            assert torch.equal(deployed(x), network(x))
            assert torch.equal(deployed(x[0]), network(x[0]))
        assert [unit.bits for unit in deployed.units] == bits
        on_their_grid(deployed, network)
        same_input_gradient(deployed, network, x)


def on_their_grid(deployed: DeployedNetwork, network: QuantizedNetwork) -> None:
    for code_unit, unit in zip(deployed.units, network.units, strict=True):
        low, high = signed_range(code_unit.bits)
        assert code_unit.codes.dtype == torch.int8
        assert low <= int(code_unit.codes.min())
        assert int(code_unit.codes.max()) <= high
        assert code_unit.step.shape == (unit.weight.shape[0] if unit.per_channel else 1, 1)
        assert bool((code_unit.step > 0).all())
        index = unit.candidates.index(code_unit.bits)
        assert torch.equal(code_unit.weight, unit.quantized_weight(index))
        assert torch.equal(code_unit.weight, code_unit.codes.float() * code_unit.step)
        assert code_unit.activation_bits == unit.activation_bits
        if unit.activation is None:
            assert code_unit.scale is None


def same_input_gradient(deployed: DeployedNetwork, network: QuantizedNetwork, x: Tensor) -> None:
    found = []
    for model in (deployed, network):
        at = x.clone().requires_grad_()
        logits = model(at)
        (gradient,) = torch.autograd.grad(logits[:, 1].sum() - logits[:, 0].sum(), at)
        found.append(gradient)
    assert float(found[1].abs().max()) > 0
    torch.testing.assert_close(found[0], found[1])


def test_with_gradients_the_deployed_logits_stay_the_same_bitwise() -> None:
    for kind in ("lsq", "pact"):
        network = perturbed(network_of(teacher_of(9, 16, 2), kind))
        deployed, x = network.deploy(), some_rows(9)
        with torch.no_grad():
            plain = deployed(x)
        assert torch.equal(deployed(x.clone().requires_grad_()).detach(), plain)


@pytest.mark.parametrize("kind", ["lsq", "pact"])
@pytest.mark.parametrize("bits", CANDIDATES)
def test_deployed_activations_round_exact_ties_as_the_simulation_does(
    kind: Kind, bits: int
) -> None:
    levels, width = unsigned_levels(bits), 2 ** min(bits, 6)
    quantizer = ActivationQuantizer(kind, [bits])
    one = torch.tensor(1.0)
    for step in torch.linspace(0.01, 1.0, 50):
        scale = levels * step if kind == "pact" else step
        values = (torch.arange(width) + 0.5) * step  # ties, up to the rounding of float32
        quantizer.log_scale.data[0] = scale.log()
        scale = quantizer.log_scale.detach()[0].exp()
        unit = DeployedLinear(Shipped("unit", torch.eye(width), None, one, 8, kind, scale, bits))
        with torch.no_grad():
            assert torch.equal(unit(values), quantizer.one(values, 0))


def test_a_deployed_network_has_nothing_to_train_and_no_ties_to_its_source() -> None:
    network = network_of(teacher_of(9, 16, 2))
    deployed, x = network.deploy(), some_rows(9)
    before = deployed(x)
    perturbed(network)
    assert list(deployed.parameters()) == []
    assert not deployed.training
    assert torch.equal(deployed(x), before)


def test_blocks_of_the_first_layer_are_the_layer() -> None:
    teacher = teacher_of(9, 16, 2)
    split = network_of(teacher, input_blocks=True)
    assert [unit.name for unit in split.units] == ["layer1.numeric", "layer1.onehot", "layer2"]
    assert split.sizes == [3 * 16, 6 * 16, 32]
    x = some_rows(9)
    torch.testing.assert_close(float_pass(split, x).logits, teacher(x))
    weight = teacher[0].weight
    assert torch.equal(torch.cat([unit.weight for unit in split.units[:2]], 1), weight)


def test_eight_bits_are_close_to_the_teacher_and_two_are_not() -> None:
    teacher, x = teacher_of(9, 32, 16, 2), 0.5 * some_rows(9)
    errors = []
    for bits in CANDIDATES:
        network = network_of(teacher, activation_bits="tied")
        network.select_bits([bits] * 3)
        with torch.no_grad():
            errors.append(float((network(x) - teacher(x)).square().mean()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.01 * errors[0]


def test_a_fresh_start_forgets_the_search() -> None:
    teacher = teacher_of(9, 16, 8, 2)
    network, rows = network_of(teacher), some_rows(9, 200)
    network.reset(teacher, rows)
    fresh = {name: value.clone() for name, value in network.state_dict().items()}
    perturbed(network).reset(teacher, rows)
    assert all(torch.equal(fresh[name], value) for name, value in network.state_dict().items())


# --- cost and allocations ---


def test_costs_by_hand() -> None:
    assert average_bits([10, 30], [8, 2]) == 3.5
    assert bit_operations([10, 30], [8, 2], [32, 8]) == 10 * 8 * 32 + 30 * 2 * 8


sizes_of_units = st.lists(st.integers(1, 300), min_size=1, max_size=4)
budgets = st.floats(2.0, 8.0)


@given(data=st.data(), budget=budgets, slack=st.floats(0.0, 1.0))
@settings(max_examples=150, deadline=None)
def test_least_cost_is_brute_force(data: st.DataObject, budget: float, slack: float) -> None:
    units = data.draw(st.integers(1, 5))
    sizes = data.draw(st.lists(st.integers(1, 300), min_size=units, max_size=units))
    some = st.sets(st.integers(2, 8), min_size=1, max_size=4).map(sorted)
    candidates = data.draw(st.lists(some, min_size=units, max_size=units))
    costs = [[data.draw(st.floats(-9, 9, width=16)) for _ in row] for row in candidates]
    if fewest_average(sizes, candidates) > budget:
        with pytest.raises(ValueError, match=r"take more than .* average bits"):
            least_cost(costs, sizes, candidates, budget, slack)
        return
    price = {
        (u, b): c for u, row in enumerate(costs) for b, c in zip(candidates[u], row, strict=True)
    }
    allowed = allowed_allocations(sizes, candidates, budget, slack)
    total = {bits: sum(price[u, b] for u, b in enumerate(bits)) for bits in allowed}
    got = tuple(least_cost(costs, sizes, candidates, budget, slack))
    assert got in allowed
    assert total[got] == min(total.values())
    assert allowed[got] == max(allowed[bits] for bits in allowed if total[bits] == total[got])


def test_least_cost_does_not_enumerate() -> None:
    """Sixty layers: 4^60 allocations, seconds at most."""
    sizes = [(7 * u) % 97 + 1 for u in range(60)]
    costs = [[1.0 / b * (u % 5 + 1) for b in CANDIDATES] for u in range(60)]
    bits = least_cost(costs, sizes, [CANDIDATES] * 60, 3.5)
    assert 0.95 * 3.5 <= average_bits(sizes, bits) <= 3.5


@given(sizes=sizes_of_units, budget=budgets, data=st.data())
@settings(max_examples=60, deadline=None)
def test_spend_rest_only_raises_stays_within_and_leaves_no_room(
    sizes: list[int], budget: float, data: st.DataObject
) -> None:
    candidates = [CANDIDATES] * len(sizes)
    every = list(allowed_allocations(sizes, candidates, budget, 1.0))
    start = list(data.draw(st.sampled_from(every)))
    got = spend_rest(start, sizes, candidates, budget)
    assert start is not got
    assert all(new >= old for new, old in zip(got, start, strict=True))
    assert average_bits(sizes, got) <= budget + 1e-6
    for unit, bits in enumerate(got):
        for higher in (b for b in CANDIDATES if b > bits):
            raised = [*got[:unit], higher, *got[unit + 1 :]]
            assert average_bits(sizes, raised) > budget


def with_logits(logits: Sequence[Sequence[float]], teacher: Backbone) -> QuantizedNetwork:
    network = network_of(teacher, ramp=1.0)
    assert network.policy_logits is not None
    network.policy_logits.data = torch.tensor(logits, dtype=torch.float32)
    return network


def test_discretise_follows_the_policy_where_the_budget_allows_it() -> None:
    teacher = teacher_of(10, 10, 10)  # two units of 100 weights
    likes_4_and_2 = [[0.0, 0.0, 5.0, 0.0], [5.0, 0.0, 0.0, 0.0]]
    assert discretise(with_logits(likes_4_and_2, teacher), 3.0, 0.05) == [4, 2]
    assert discretise(with_logits(likes_4_and_2[::-1], teacher), 3.0, 0.05) == [2, 4]
    likes_only_2 = [[9.0, 0.0, 0.0, 0.0]] * 2
    assert average_bits([100, 100], discretise(with_logits(likes_only_2, teacher), 4.0, 0.05)) == 4


@given(
    logits=st.lists(st.lists(finite, min_size=4, max_size=4), min_size=3, max_size=3),
    budget=budgets,
)
@settings(max_examples=15, deadline=None)
def test_whatever_the_policy_the_budget_binds(logits: list[list[float]], budget: float) -> None:
    network = with_logits(logits, teacher_of(9, 16, 8, 2))
    bits = discretise(network, budget, 0.05)
    most = max(allowed_allocations(network.sizes, network.candidates, budget, 1.0).values())
    assert 0.95 * most - 1e-6 <= average_bits(network.sizes, bits) <= budget + 1e-6


def test_expected_bits_and_their_gradient() -> None:
    teacher = teacher_of(10, 20, 10)  # 200 weights each
    network = with_logits([[0.0] * 4, [50.0, 0.0, 0.0, 0.0]], teacher)
    assert float(network.expected_bits().detach()) == pytest.approx((17 / 4 + 2) / 2)
    network.expected_bits().backward()
    assert network.policy_logits is not None
    assert network.policy_logits.grad is not None
    assert bool((network.policy_logits.grad[0] != 0).all())


def pool_mse_by_hand(teacher: Backbone, points: Tensor, budget: float) -> list[int]:
    """Every allocation; each unit's error with all else in float, from plain layers."""
    linears = [module for module in teacher if isinstance(module, nn.Linear)]
    sizes = [linear.weight.numel() for linear in linears]
    error = np.zeros((len(linears), len(CANDIDATES)))
    for unit, linear in enumerate(linears):
        original = linear.weight.data.clone()
        for r, bits in enumerate(CANDIDATES):
            low, high = signed_range(bits)
            step = mse_step(original, low, high)
            linear.weight.data = (original / step).clamp(low, high).round() * step
            moved = teacher(points)
            linear.weight.data = original
            error[unit, r] = float((moved - teacher(points)).square().mean())
    every = {
        choice: average_bits(sizes, [CANDIDATES[r] for r in choice])
        for choice in itertools.product(range(4), repeat=len(sizes))
    }
    most = max(s for s in every.values() if s <= budget + 1e-9)
    used = [c for c, s in every.items() if 0.95 * most - 1e-9 <= s <= budget + 1e-9]
    best = min(used, key=lambda c: error[range(len(c)), c].sum())
    return [CANDIDATES[r] for r in best]


@pytest.mark.parametrize("budget", [2.0, 2.5, 3.0, 3.5, 4.0, 5.3, 8.0])
@pytest.mark.parametrize("widths", [(9, 16, 8, 2), (12, 2), (5, 6, 6, 6, 2)])
def test_pool_mse_is_brute_force_and_the_budget_binds(
    widths: tuple[int, ...], budget: float
) -> None:
    teacher, points = teacher_of(*widths), some_rows(widths[0])
    network = network_of(teacher)
    errors = logit_change(network, teacher, points)
    bits = least_cost(errors, network.sizes, network.candidates, budget)
    assert bits == pool_mse_by_hand(teacher, points, budget)
    most = max(allowed_allocations(network.sizes, network.candidates, budget, 1.0).values())
    assert 0.95 * most - 1e-9 <= average_bits(network.sizes, bits) <= budget + 1e-9


@pytest.mark.parametrize("per_channel", [False, True])
def test_rounded_weights_are_the_quantized_ones_as_constants(per_channel: bool) -> None:
    torch.manual_seed(0)
    unit = QuantLinear("layer1", torch.nn.Linear(40, 8), [2, 3, 4, 8], per_channel, None)
    for index in range(4):
        quantized, rounded = unit.quantized_weight(index), unit.rounded_weight(index)
        assert torch.equal(quantized, rounded)
        assert torch.equal(quantized.signbit(), rounded.signbit())
        assert quantized.requires_grad
        assert not rounded.requires_grad
