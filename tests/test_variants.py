"""Deployment variants share f_q's weight codes and differ from it as far as the settings say."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from cfq_bench.actions.solver import in_blocks
from cfq_bench.backbones.base import Backbone
from cfq_bench.config.settings import QuantizationSettings
from cfq_bench.config.uncertainty import UncertaintySettings
from cfq_bench.quantization.deployed import DeployedLinear, DeployedNetwork, Shipped
from cfq_bench.quantization.functional import lsq, pact, round_to_code
from cfq_bench.quantization.layers import calibrated_scale
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.variants import deployment_variants

pytestmark = pytest.mark.slow

WIDTH = 9


def uncertain(**changes: Any) -> UncertaintySettings:
    """Without any variation but what is named."""
    none = {"band": 0.0, "stochastic_rounding": False, "calibration_rows": 0}
    return UncertaintySettings.model_validate({**none, **changes})


EVERYTHING = uncertain(band=0.05, stochastic_rounding=True, calibration_rows=40)


def rows(count: int = 300, seed: int = 3) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))


def network_of(kind: str = "lsq", **changes: Any) -> DeployedNetwork:
    """A network of three layers after calibration, with biases."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        teacher = Backbone(None, WIDTH, 2)
        for i, (before, after) in enumerate(itertools.pairwise([WIDTH, 16, 8, 2])):
            if i:
                teacher.append(nn.ReLU())
            teacher.append(nn.Linear(before, after))
    made = {"candidates": [2, 3, 4, 8], "activation_bits": 8, "input_blocks": False}
    quantization = QuantizationSettings.model_validate(
        {**made, "per_channel": False, "layers": "all", **changes}
    )
    network = QuantizedNetwork(teacher.requires_grad_(False), quantization, kind, 4, rows())  # type: ignore[arg-type]
    network.select_bits([4, 3, 8, 2][: len(network.units)])
    return network.deploy()


NETWORKS = [
    ("lsq", {}),
    ("pact", {}),
    ("lsq", {"activation_bits": "tied"}),
    ("pact", {"activation_bits": "tied"}),
    ("lsq", {"input_blocks": True}),
    ("pact", {"input_blocks": True, "activation_bits": 2}),
    ("lsq", {"per_channel": True}),
]
every_network = pytest.mark.parametrize(("kind", "changes"), NETWORKS)


def draw(
    network: nn.Module, settings: UncertaintySettings = EVERYTHING, count: int = 4, seed: int = 0
) -> list[Any]:
    return deployment_variants(network, count, settings, rows(), seed)


def logits(network: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        out: Tensor = network(x)
    return out


def units(network: nn.Module) -> list[DeployedLinear]:
    assert isinstance(network, DeployedNetwork)
    return network.units


# --- what varies, and what does not ---


@every_network
def test_codes_bits_and_biases_are_shared_and_f_q_is_left_alone(
    kind: str, changes: dict[str, Any]
) -> None:
    network = network_of(kind, **changes)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    for variant in draw(network):
        assert len(units(variant)) == len(units(network))
        for ours, theirs in zip(units(variant), units(network), strict=True):
            assert torch.equal(ours.codes, theirs.codes)
            assert ours.codes.dtype == torch.int8
            assert (ours.bias is None) == (theirs.bias is None)
            assert ours.bias is None or torch.equal(ours.bias, theirs.bias)
            assert (ours.name, ours.bits, ours.activation_bits, ours.activation) == (
                theirs.name,
                theirs.bits,
                theirs.activation_bits,
                theirs.activation,
            )
            assert ours.step.shape == theirs.step.shape
    after = network.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(unit.offset is None for unit in network.units)


@every_network
def test_factors_are_within_their_band_and_fill_it(kind: str, changes: dict[str, Any]) -> None:
    network, band = network_of(kind, **changes), 0.05
    factors: dict[str, list[Tensor]] = {"step": [], "scale": []}
    for variant in draw(network, uncertain(band=band), count=40):
        for ours, theirs in zip(units(variant), units(network), strict=True):
            factors["step"].append((ours.step / theirs.step).flatten())
            if theirs.scale is not None:
                assert ours.scale is not None
                factors["scale"].append((ours.scale / theirs.scale).flatten())
            assert ours.offset is None
    for values in map(torch.cat, factors.values()):
        assert float((values - 1.0).abs().max()) <= band + 1e-6
        assert float(values.min()) < 1.0 - 0.8 * band
        assert float(values.max()) > 1.0 + 0.8 * band
        assert len(values.unique()) > len(values) // 2  # no two share a draw


def test_channels_with_steps_of_their_own_err_on_their_own() -> None:
    network = network_of(per_channel=True)
    (variant,) = draw(network, uncertain(band=0.05), count=1)
    factors = (units(variant)[0].step / network.units[0].step).flatten()
    assert len(factors) == 16
    assert len(factors.unique()) > 10


@every_network
def test_without_any_source_a_variant_is_f_q_bitwise(kind: str, changes: dict[str, Any]) -> None:
    network, x = network_of(kind, **changes), rows(64, seed=5)
    for variant in draw(network, uncertain()):
        assert torch.equal(logits(variant, x), logits(network, x))


@every_network
@pytest.mark.parametrize(
    "source", [{"band": 0.05}, {"stochastic_rounding": True}, {"calibration_rows": 40}]
)
def test_each_source_alone_changes_the_logits(
    kind: str, changes: dict[str, Any], source: dict[str, Any]
) -> None:
    network, x = network_of(kind, **changes), rows(64, seed=5)
    variants = draw(network, uncertain(**source), count=8)
    moved = [not torch.equal(logits(one, x), logits(network, x)) for one in variants]
    assert any(moved)
    if source != {"calibration_rows": 40}:  # a batch may have the statistic of all rows
        assert all(moved)


def test_a_source_leaves_the_draws_of_the_others_alone() -> None:
    network = network_of()
    whole = draw(network)
    for off in ("band", "stochastic_rounding", "calibration_rows"):
        part = draw(network, EVERYTHING.model_copy(update={off: type(getattr(EVERYTHING, off))(0)}))
        for ours, theirs in zip(whole, part, strict=True):
            for a, b in zip(units(ours), units(theirs), strict=True):
                if off != "band":
                    assert torch.equal(a.step, b.step)
                if off != "stochastic_rounding" and a.offset is not None:
                    assert b.offset is not None
                    assert torch.equal(a.offset, b.offset)


# --- rounding ---


@given(
    ratio=st.lists(st.floats(0.0, 255.0, width=32), min_size=1, max_size=20),
    offset=st.floats(0.0, float(np.nextafter(np.float32(1), np.float32(0))), width=32),
)
@settings(max_examples=200, deadline=None)
def test_rounding_is_to_one_of_the_two_next_codes(ratio: list[float], offset: float) -> None:
    values = torch.tensor(ratio, dtype=torch.float32)
    got = round_to_code(values, torch.tensor(offset, dtype=torch.float32))
    assert bool((got >= values.floor()).all())
    assert bool((got <= values.ceil()).all())


def test_a_whole_number_stays_whatever_the_draw() -> None:
    """In float32, 255 plus the largest draw below 1 is 256."""
    codes = torch.arange(256.0)
    assert torch.equal(round_to_code(codes, torch.tensor(1.0 - 2.0**-24)), codes)


def test_draws_round_up_as_often_as_the_fraction_says() -> None:
    draws = torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    for fraction in (0.1, 0.5, 0.8):
        up = round_to_code(torch.full_like(draws, 3.0 + fraction), draws) == 4.0
        assert float(up.float().mean()) == pytest.approx(fraction, abs=0.015)


@pytest.mark.parametrize("quantize", ["lsq", "pact"])
def test_activations_stay_on_their_grid_next_to_their_value(quantize: str) -> None:
    levels, scale = 15, torch.tensor(0.3)
    values = torch.linspace(-1.0, 8.0, 301)[:, None]
    draws = torch.rand(7, generator=torch.Generator().manual_seed(1))
    step = scale if quantize == "lsq" else scale / levels
    if quantize == "lsq":
        out = lsq(values, scale, 0, levels, offset=draws)
    else:
        out = pact(values, scale, levels, draws)
    codes = out / step
    torch.testing.assert_close(codes, codes.round(), atol=1e-4, rtol=0.0)
    ratio = (values / step).clamp(0, levels)
    assert bool((codes.round() >= (ratio - 1e-4).floor()).all())
    assert bool((codes.round() <= (ratio + 1e-4).ceil()).all())
    assert int(codes.round().max()) == levels


def test_one_layer_by_hand() -> None:
    """Codes (2, -1), step 1/2, input step 1, two bits (codes 0 to 3), draws (0.25, 0.75)."""
    weight = torch.tensor([[1.0, -0.5]])
    step, one = torch.tensor([[0.5]]), torch.tensor(1.0)
    shipped = Shipped("layer1", weight, torch.tensor([0.25]), step, 3, "lsq", one, 2)
    unit = DeployedLinear(shipped)
    x = torch.tensor([[0.5, 0.5], [1.5, 2.2], [0.8, 9.0], [-4.0, 1.3]])
    # Nearest codes, ties to even: (0, 0), (2, 2), (1, 3), (0, 1).
    assert unit(x)[:, 0].tolist() == [0.25, 1.25, -0.25, -0.25]
    unit.offset = torch.tensor([0.25, 0.75])
    # floor(v + U): (0, 1), (1, 2), (1, 3), (0, 2).
    assert unit(x)[:, 0].tolist() == [-0.25, 0.25, -0.25, -0.75]


# --- other calibration rows ---


@pytest.mark.parametrize("kind", ["lsq", "pact"])
def test_scales_move_by_the_statistic_of_a_batch_over_that_of_all_rows(kind: str) -> None:
    """The batch is all rows, or its ratio is that of some batch: checked on the first hidden."""
    network, x = network_of(kind), rows()
    hidden = units(network)[1]
    assert hidden.scale is not None
    same = draw(network, uncertain(calibration_rows=len(x)), count=2)
    for variant in same:
        torch.testing.assert_close(units(variant)[1].scale, hidden.scale, rtol=1e-6, atol=0.0)
    with torch.no_grad():
        inputs = network.layers[1](network.layers[0](x)).double()
    whole = calibrated_scale(inputs, kind, hidden.activation_bits)  # type: ignore[arg-type]
    possible = []  # one row: every possible batch can be listed
    for row in inputs:
        part = calibrated_scale(row[None], kind, hidden.activation_bits)  # type: ignore[arg-type]
        possible.append(float(part / whole))
    for variant in draw(network, uncertain(calibration_rows=1), count=5):
        scale = units(variant)[1].scale
        assert scale is not None
        ratio = float(scale / hidden.scale)
        assert min(abs(ratio / one - 1.0) for one in possible) < 1e-4


def test_larger_batches_move_scales_less() -> None:
    network = network_of("lsq")

    def spread(count: int) -> float:
        variants = draw(network, uncertain(calibration_rows=count), count=20)
        scales = [units(one)[1].scale / network.units[1].scale - 1 for one in variants]  # type: ignore[operator]
        return float(torch.stack(scales).abs().mean())

    assert spread(10) > spread(200) > 0.0


# --- draws ---


@every_network
def test_one_seed_one_set_of_variants(kind: str, changes: dict[str, Any]) -> None:
    network, x = network_of(kind, **changes), rows(64, seed=5)
    torch.manual_seed(1)
    first = [logits(one, x) for one in draw(network)]
    torch.manual_seed(2)
    again = [logits(one, x) for one in draw(network)]
    other = [logits(one, x) for one in draw(network, seed=1)]
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, other))
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(first, 2))


def test_drawing_touches_no_global_generator() -> None:
    network = network_of()
    before = torch.get_rng_state()
    draw(network)
    assert torch.equal(torch.get_rng_state(), before)


def test_more_variants_keep_the_first() -> None:
    network, x = network_of(), rows(64, seed=5)
    few, many = draw(network, count=2), draw(network, count=5)
    assert len(many) == 5
    assert all(torch.equal(logits(a, x), logits(b, x)) for a, b in zip(few, many, strict=False))


@every_network
def test_a_variant_is_a_function(kind: str, changes: dict[str, Any]) -> None:
    """The same row has the same logits in any company and at every call."""
    x = rows(64, seed=5)
    for variant in draw(network_of(kind, **changes), count=2):
        call = in_blocks(variant)
        with torch.no_grad():
            whole = call(x)
            assert torch.equal(call(x), whole)
            assert torch.equal(call(x.flip(0)).flip(0), whole)
            assert torch.equal(call(x[7:8]), whole[7:8])


@every_network
def test_gradients_flow_to_the_input_alone(kind: str, changes: dict[str, Any]) -> None:
    x = rows(64, seed=5)
    for variant in draw(network_of(kind, **changes), count=2):
        at = x.clone().requires_grad_()
        out = variant(at)
        assert torch.equal(out.detach(), logits(variant, x))
        (gradient,) = torch.autograd.grad(out[:, 1].sum(), at)
        assert bool(gradient.isfinite().all())
        assert bool((gradient != 0).any(dim=1).float().mean() > 0.5)
        assert not list(variant.parameters())


@pytest.mark.parametrize("levels", [3, 255])
def test_straight_through_gradients_do_not_depend_on_the_draw(levels: int) -> None:
    """Inside the clipping range each value passes its gradient, outside nothing passes."""
    values = torch.tensor([-0.5, 0.3, 0.9, 40.0])
    for quantize in (
        lambda v, offset: lsq(v, torch.tensor(1.0 / levels), 0, levels, offset=offset),
        lambda v, offset: pact(v, torch.tensor(1.0), levels, offset),
    ):
        for offset in (None, torch.tensor(0.0), torch.tensor(0.9)):
            at = values.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(quantize(at, offset).sum(), at)
            assert gradient.tolist() == [0.0, 1.0, 1.0, 0.0]


def test_a_model_without_a_quantizer_is_its_own_variant() -> None:
    model = nn.Linear(WIDTH, 2)
    assert draw(model, count=5) == [model]
