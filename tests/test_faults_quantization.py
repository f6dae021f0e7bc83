"""Faults that users of other quantization libraries met: one test or more for each kind."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.errors import UserError
from cfq_bench.methods.base import Context, Method, fit_method, make_method
from cfq_bench.methods.qat import QATMethod
from cfq_bench.quantization.cost import average_bits
from cfq_bench.quantization.functional import GREATEST_STEP, LEAST_STEP, pact
from cfq_bench.quantization.network import QuantizedNetwork
from tests.test_quantization import (
    CANDIDATES,
    Kind,
    network_of,
    on_their_grid,
    some_rows,
    teacher_of,
)

pytestmark = pytest.mark.slow

MakeContext = Callable[..., Context]


def trained(
    network: QuantizedNetwork,
    x: Tensor,
    y: Tensor,
    steps: int,
    lr: float = 1e-2,
    quantizer_lr: float = 1e-2,
    after_step: Callable[[], None] | None = None,
) -> float:
    """Adam on the cross-entropy, as the methods do it; returns the last loss."""
    quantizers = network.quantizer_parameters()
    special = {id(parameter) for parameter in quantizers}
    weights = [p for p in network.parameters() if id(p) not in special]
    optimizer = torch.optim.Adam(
        [{"params": weights, "lr": lr}, {"params": quantizers, "lr": quantizer_lr}]
    )
    loss = torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        network.clamp_quantizers()
        if after_step is not None:
            after_step()
    return loss.item()


def separable(count: int = 256) -> tuple[Tensor, Tensor]:
    x = some_rows(9, count, seed=2)
    return x, (x[:, 0] + x[:, 4] - x[:, 8] > 0).long()


def all_finite(module: nn.Module) -> bool:
    return all(bool(value.isfinite().all()) for value in module.state_dict().values())


def scales_of(network: QuantizedNetwork) -> Tensor:
    return torch.cat([value.detach().exp().flatten() for value in network.quantizer_parameters()])


# --- a step goes negative or NaN ---


@pytest.mark.parametrize("kind", ["lsq", "pact"])
@pytest.mark.parametrize("quantizer_lr", [1.0, 100.0])
def test_steps_survive_a_huge_learning_rate(kind: Kind, quantizer_lr: float) -> None:
    network = network_of(teacher_of(9, 16, 8, 2), kind, activation_bits="tied")
    network.select_bits([2, 2, 2])
    with torch.no_grad():
        for value in network.quantizer_parameters():
            value.fill_(math.log(1e-3))

    def in_range() -> None:
        scales = scales_of(network)
        assert bool(((scales >= 0.99 * LEAST_STEP) & (scales <= 1.01 * GREATEST_STEP)).all())

    loss = trained(network, *separable(), 30, quantizer_lr=quantizer_lr, after_step=in_range)
    assert math.isfinite(loss)
    assert all_finite(network)


@pytest.mark.parametrize("method", ["lsq", "pact"])
def test_a_fit_at_a_huge_quantizer_rate_stays_finite(
    method: str, make_context: MakeContext
) -> None:
    made = make_method(make_context(method, "training.quantizer_lr=1000.0"))
    fit_method(made)
    assert all_finite(made)
    x = made.context.data.test.x
    assert bool(made.deployed()(x).isfinite().all())


# --- NaN from scratch at W2A2 ---


@pytest.mark.parametrize("kind", ["lsq", "pact"])
@pytest.mark.parametrize("seed", range(3))
def test_two_bits_from_scratch_stay_finite(kind: Kind, seed: int) -> None:
    network = network_of(
        teacher_of(9, 64, 32, 2, seed=seed), kind, candidates=[2], activation_bits=2
    )
    x, y = separable(640)
    for start in range(0, 640, 64):  # one epoch
        assert math.isfinite(trained(network, x[start : start + 64], y[start : start + 64], 1))
    assert all_finite(network)


# --- 0/0 on an all-zero channel or a pruned layer ---


@pytest.mark.parametrize("kind", ["lsq", "pact"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("zeroed", ["row", "layer", "every layer"])
def test_zeros_are_no_division_by_zero(kind: Kind, per_channel: bool, zeroed: str) -> None:
    teacher = teacher_of(9, 16, 8, 2)
    layers = [module for module in teacher if isinstance(module, nn.Linear)]
    for layer in layers if zeroed == "every layer" else layers[1:2]:
        layer.weight.data[slice(0, 1) if zeroed == "row" else slice(None)] = 0.0
        layer.bias.data.zero_()
    network = network_of(teacher, kind, per_channel=per_channel, activation_bits="tied")
    assert bool((scales_of(network) >= 0.99 * LEAST_STEP).all())
    x, y = separable()
    for bits in CANDIDATES:
        network.select_bits([bits] * 3)
        with torch.no_grad():
            assert torch.equal(network.deploy()(x), network(x))
        network.zero_grad()
        F.cross_entropy(network(x), y).backward()
        gradients = [value.grad for value in network.parameters() if value.grad is not None]
        assert all(bool(gradient.isfinite().all()) for gradient in gradients)
        assert math.isfinite(trained(network, x, y, 5))
    assert all_finite(network)


def test_dead_activations_are_no_division_by_zero() -> None:
    teacher = teacher_of(9, 16, 2)
    teacher[0].bias.data.fill_(-1e3)  # no hidden unit ever fires
    for kind in ("lsq", "pact"):
        network = network_of(teacher, kind)
        assert math.isfinite(trained(network, *separable(), 3))
        assert all_finite(network)


# --- pruned weights that come back ---


@pytest.mark.parametrize("bits", CANDIDATES)
def test_a_weight_of_zero_stays_zero(bits: int) -> None:
    teacher = teacher_of(9, 16, 2)
    masks = []
    for layer in (teacher[0], teacher[2]):
        mask = torch.rand(layer.weight.shape, generator=torch.Generator().manual_seed(0)) < 0.5
        layer.weight.data[mask] = 0.0
        masks.append(mask)
    network = network_of(teacher)
    network.select_bits([bits, bits])
    for unit, mask in zip(network.deploy().units, masks, strict=True):
        assert bool((unit.codes[mask] == 0).all())
        assert bool((unit.codes[~mask] != 0).any())


# --- alpha negative, or never moves ---


def test_one_activation_above_alpha_moves_it() -> None:
    log_alpha = torch.tensor(math.log(0.01), requires_grad=True)
    values = torch.tensor([0.001, 0.002, 0.5])  # one above
    pact(values, log_alpha.exp(), 15).sum().backward()
    assert log_alpha.grad is not None
    assert float(log_alpha.grad) == pytest.approx(0.01)  # 1 for alpha, alpha for its logarithm


@pytest.mark.parametrize("threshold_l2", [0.0, 10.0])
def test_a_small_alpha_grows_where_needed_and_never_turns_negative(threshold_l2: float) -> None:
    network = network_of(teacher_of(9, 16, 2), "pact")
    quantizers = [unit.activation for unit in network.units if unit.activation is not None]
    with torch.no_grad():
        for quantizer in quantizers:
            quantizer.log_scale.fill_(math.log(0.01))
    x, y = separable()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    for _ in range(50):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(x), y) + threshold_l2 * network.threshold_penalty()
        loss.backward()
        optimizer.step()
        network.clamp_quantizers()
    for quantizer in quantizers:
        alpha = float(quantizer.log_scale.detach().exp())
        assert alpha > 0
        assert alpha != pytest.approx(0.01, rel=0.05)
        if threshold_l2 == 0.0:
            assert alpha > 0.02


def test_the_penalty_is_on_the_selected_thresholds_alone() -> None:
    network = network_of(teacher_of(9, 16, 8, 2), "pact", activation_bits="tied")
    network.select_bits([2, 4, 8])
    chosen = [unit.activation for unit in network.units[1:]]
    alphas = [
        float(q.log_scale.detach().exp()[i]) for q, i in zip(chosen, (2, 3), strict=True) if q
    ]
    assert network.threshold_penalty().item() == pytest.approx(sum(a * a for a in alphas))
    assert network_of(teacher_of(9, 16, 2), "lsq").threshold_penalty().item() == 0.0


# --- quantizer parameters missing from the optimizer or from state_dict ---

QAT = ["lsq", "pact", "kd_qat", "cfq", "cfq_distilled"]


def groups_in_search(method: Method) -> list[dict[str, Any]]:
    method.begin(method.phases()[0])
    made: Any = method.configure_optimizers()
    groups: list[dict[str, Any]] = made["optimizer"].param_groups
    return groups


@pytest.mark.parametrize("method", QAT)
@pytest.mark.parametrize("activation_bits", ["tied", "8"])
def test_the_optimizer_sees_every_parameter_once_and_decays_none_of_the_quantizers(
    method: str, activation_bits: str, make_context: MakeContext
) -> None:
    context = make_context(
        method, "budget.allocator=gumbel", f"quantization.activation_bits={activation_bits}"
    )
    made = make_method(context)
    assert isinstance(made, QATMethod)
    groups = groups_in_search(made)
    ids = [id(parameter) for group in groups for parameter in group["params"]]
    assert len(ids) == len(set(ids))
    assert set(ids) == {id(parameter) for parameter in made.parameters()}
    network, training = made.network, context.settings.training
    assert network.policy_logits is not None
    rates = {id(p): group["initial_lr"] for group in groups for p in group["params"]}
    assert all(rates[id(p)] == training.quantizer_lr for p in network.quantizer_parameters())
    assert all(rates[id(unit.weight)] == training.lr for unit in network.units)
    assert rates[id(network.policy_logits)] == context.settings.policy.lr
    assert all(group["weight_decay"] == 0 for group in groups)


def test_every_candidate_of_every_unit_has_a_step_and_a_threshold_from_the_start() -> None:
    network = network_of(teacher_of(9, 16, 8, 2), "pact", activation_bits="tied", ramp=1.0)
    state = network.state_dict()
    assert {name for name in state if name.endswith("log_step")} == {
        f"layers.{i}.log_step" for i in (0, 2, 4)
    }
    assert {name for name in state if name.endswith("log_scale")} == {
        f"layers.{i}.activation.log_scale" for i in (2, 4)
    }
    for name, value in state.items():
        if name.endswith(("log_step", "log_scale")):
            assert len(value) == len(CANDIDATES)
    assert state["policy_logits"].shape == (3, 4)
    assert len(network.quantizer_parameters()) == 5


@pytest.mark.parametrize("kind", ["lsq", "pact"])
def test_a_saved_network_comes_back_into_a_fresh_one(kind: Kind) -> None:
    network = network_of(teacher_of(9, 16, 8, 2), kind, activation_bits="tied", input_blocks=True)
    network.select_bits([2, 8, 3, 4])
    x, y = separable()
    trained(network, x, y, 5)
    fresh = network_of(
        teacher_of(9, 16, 8, 2, seed=1), kind, activation_bits="tied", input_blocks=True
    )
    fresh.load_state_dict(network.state_dict(), strict=True)
    assert fresh.bits() == [2, 8, 3, 4]
    with torch.no_grad():
        assert torch.equal(fresh(x), network(x))
        assert torch.equal(fresh.deploy()(x), network(x))


# --- a signed input through a [0, alpha] clip ---


@pytest.mark.parametrize("kind", ["lsq", "pact"])
@pytest.mark.parametrize("blocks", [False, True])
def test_negative_inputs_are_read_by_the_first_layer(kind: Kind, blocks: bool) -> None:
    network = network_of(teacher_of(9, 16, 2), kind, activation_bits=2, input_blocks=blocks)
    first = network.units[: 2 if blocks else 1]
    assert all(unit.activation is None and unit.activation_bits == 32 for unit in first)
    x = -some_rows(9).abs().clamp_max(1.0)
    with torch.no_grad():
        assert not torch.equal(network(x), network(x.clamp_min(0.0)))
        assert not torch.equal(network.deploy()(x), network.deploy()(x.clamp_min(0.0)))
    for model in (network, network.deploy()):
        at = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(model(at)[:, 1].sum(), at)
        assert bool((gradient != 0).any(0).all())


@pytest.mark.parametrize("between", [nn.Tanh, nn.LeakyReLU, None])
def test_a_signed_hidden_activation_is_refused(between: type[nn.Module] | None) -> None:
    teacher = teacher_of(9, 16, 8, 2)
    layers = list(teacher)
    layers[3:4] = [] if between is None else [between()]
    teacher = type(teacher)(None, 9, 2).extend(layers)
    found = "Linear" if between is None else between.__name__
    with pytest.raises(UserError, match=f"layer3 is fed by {found}: only the output of a ReLU"):
        network_of(teacher)


# --- two bits stuck at chance ---


@pytest.mark.parametrize("kind", ["lsq", "pact"])
def test_two_bits_learn_separable_data(kind: Kind) -> None:
    network = network_of(teacher_of(9, 32, 2), kind, candidates=[2], activation_bits=2)
    x, y = separable(512)
    trained(network, x, y, 200)
    with torch.no_grad():
        accuracy = float((network.deploy()(x).argmax(1) == y).float().mean())
    assert accuracy > 0.9
    on_their_grid(network.deploy(), network)


# --- Gumbel noise at evaluation ---


def test_evaluation_is_without_noise(make_context: MakeContext) -> None:
    made = make_method(make_context("cfq", "budget.allocator=gumbel"))
    assert isinstance(made, QATMethod)
    x = made.context.data.test.x
    fit_method(made)
    network = made.network
    assert all(unit.z is None for unit in network.units)
    noise = made.noise.get_state()
    torch.manual_seed(1)
    first, bits = network(x), made.deployment()
    torch.manual_seed(2)
    assert torch.equal(network(x), first)
    assert torch.equal(made.deployed()(x), first)
    assert made.deployment() == bits
    assert torch.equal(made.noise.get_state(), noise)


def test_discretising_a_policy_twice_gives_the_same_bits(make_context: MakeContext) -> None:
    made = make_method(make_context("cfq", "budget.allocator=gumbel", "policy.tail=continue"))
    assert isinstance(made, QATMethod)
    fit_method(made)
    found = made.network.bits()
    for _ in range(3):
        made.begin(made.phases()[1])
        assert made.network.bits() == found


# --- a budget that does not bind, or all layers collapse to two bits ---


@pytest.mark.parametrize(
    ("method", "allocator", "seed"),
    [("cfq", "gumbel", 0), ("lsq", "gumbel", 1), ("lsq", "gumbel", 2), ("cfq", "pool_mse", 1)],
)
def test_the_budget_binds(
    method: str, allocator: str, seed: int, make_context: MakeContext
) -> None:
    context = make_context(
        method, f"seed={seed}", f"budget.allocator={allocator}", "budget.avg_bits=4.0"
    )
    assert context.settings.quantization.candidates == CANDIDATES
    made = make_method(context)
    fit_method(made)
    sizes, bits = (list(made.deployment()[key].values()) for key in ("sizes", "bits_per_layer"))
    assert 0.95 * 4.0 <= average_bits(sizes, bits) <= 4.0
    assert max(bits) > 2


@pytest.mark.parametrize("tail", ["restart", "continue"])
def test_a_policy_that_wants_two_bits_everywhere_is_made_to_spend(
    tail: str, make_context: MakeContext
) -> None:
    """Lambda alone would let all layers collapse; the discretisation must not."""
    context = make_context(
        "cfq",
        "budget.allocator=gumbel",
        "budget.avg_bits=4.0",
        "policy.bit_cost=0.0",
        "policy.lr=1.0e-6",
        f"policy.tail={tail}",
    )
    made = make_method(context)
    assert isinstance(made, QATMethod)
    assert made.network.policy_logits is not None
    made.network.policy_logits.data[:, 0] = 9.0
    fit_method(made)
    sizes, bits = (list(made.deployment()[key].values()) for key in ("sizes", "bits_per_layer"))
    assert 0.9 * 4.0 <= average_bits(sizes, bits) <= 4.0  # policy.slack is 0.1


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        ("[2, 3]", "has 2 values for 3 units: layer1, layer2, layer3"),
        ("[2, 3, 5]", r"must come from quantization.candidates \[2, 3, 4, 8\]"),
        ("[2, 8, 8]", "spend 4.176 average bits, budget.avg_bits allows 3.5"),
    ],
)
def test_fixed_bits_that_do_not_fit_are_refused(
    bits: str, words: str, make_context: MakeContext
) -> None:
    context = make_context("lsq", "budget.allocator=fixed", f"budget.bits={bits}")
    with pytest.raises(UserError, match=words):
        make_method(context)


# --- results that change between runs with one seed ---


@pytest.mark.parametrize("method", ["pact", "cfq"])
def test_one_seed_one_result(method: str, make_context: MakeContext) -> None:
    states = []
    for global_seed in (1, 2):  # global state must not matter
        torch.manual_seed(global_seed)
        made = make_method(make_context(method, "budget.allocator=gumbel"))
        fit_method(made)
        states.append(made.state_dict())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_another_seed_another_result(make_context: MakeContext) -> None:
    made = [make_method(make_context("lsq", f"seed={seed}")) for seed in (0, 1)]
    for method in made:
        fit_method(method)
    first, second = (method.state_dict() for method in made)
    assert not torch.equal(first["network.layers.0.weight"], second["network.layers.0.weight"])
