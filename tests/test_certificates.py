"""Certificates against everything that may break them: a bound may be loose, never wrong.

Adversaries are members of the set that a certificate is about: random ones, vertices, sign-gradient
ascent, and for one hidden layer the worst member in closed form, which the bound must also reach.
"""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cfq_bench.actions.outcome import target_margin
from cfq_bench.actions.solver import in_blocks
from cfq_bench.certificates import bound as bound_file
from cfq_bench.certificates.bound import lower_margin
from cfq_bench.certificates.chain import Layer, read_chain
from cfq_bench.certificates.deployed import Verdict, backend_margin, verify_boxes
from cfq_bench.certificates.lines import quantized, quantized_lines, relu_lines
from cfq_bench.certificates.lipschitz import logit_perturbation, proved_by_lipschitz
from cfq_bench.certificates.rounding import (
    certified_bits,
    exact_margin,
    grid_step,
    random_rounding,
    rounded_margin,
    rounding_radii,
    stable_under_roundings,
    with_activations,
)
from cfq_bench.errors import UserError
from cfq_bench.quantization.deployed import DeployedLinear, DeployedNetwork, DeployedSplit, Shipped
from cfq_bench.quantization.storage import FloatLinear

pytestmark = pytest.mark.slow

WIDTH, ROWS = 6, 40


def made(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def float_network(seed: int, hidden: list[int]) -> nn.Sequential:
    generator, layers = made(seed), []
    for fan, out in itertools.pairwise([WIDTH, *hidden, 2]):
        linear = nn.Linear(fan, out)
        linear.weight.data = torch.randn(out, fan, generator=generator) / fan**0.5
        linear.bias.data = 0.3 * torch.randn(out, generator=generator)
        layers += [linear, nn.ReLU()]
    network = nn.Sequential(*layers[:-1])
    center(network, network[-1].bias)
    return network


@torch.no_grad()
def center(network: nn.Module, last_bias: Any) -> None:
    """Shift the boundary so that half of all points are on either side."""
    logits = network(torch.randn(600, WIDTH, generator=made(99)))
    margin = logits[:, 1] - logits[:, 0]
    last_bias[1] -= margin.median() + 0.01  # off the plateau that the median itself may lie on


def unit(
    name: str, linear: nn.Linear, bits: int, per_channel: bool, activation: Any, act_bits: int
) -> DeployedLinear:
    step = grid_step(linear.weight.detach(), bits, per_channel=per_channel)
    step = step if per_channel else step[0, 0]
    scale = {None: None, "lsq": torch.tensor(2.3 / (2**act_bits - 1)), "pact": torch.tensor(1.7)}
    bias = linear.bias
    shipped = Shipped(
        name, linear.weight, bias, step, bits, activation, scale[activation], act_bits
    )
    return DeployedLinear(shipped)


def deployed(
    seed: int,
    hidden: list[int],
    *,
    bits: int = 4,
    act_bits: int = 4,
    activation: str = "lsq",
    per_channel: bool = False,
    split: bool = False,
) -> DeployedNetwork:
    linears = [m for m in float_network(seed, hidden) if isinstance(m, nn.Linear)]
    layers: list[nn.Module] = []
    for i, linear in enumerate(linears):
        if i == 0 and split:
            parts = [nn.Linear(2, linear.out_features), nn.Linear(WIDTH - 2, linear.out_features)]
            parts[1].bias = None  # type: ignore[assignment]
            for part, weight in zip(parts, linear.weight.split([2, WIDTH - 2], 1), strict=True):
                part.weight.data = weight.detach().clone()
            blocks = [unit("b", part, bits, per_channel, None, 32) for part in parts]
            layers += [DeployedSplit(blocks, [2, WIDTH - 2]), nn.ReLU()]
        else:
            kind = activation if i else None
            layers += [unit("l", linear, bits, per_channel, kind, act_bits), nn.ReLU()]
    network = DeployedNetwork(layers[:-1])
    center(network, network.units[-1].bias)
    return network


KINDS: list[dict[str, Any]] = [
    {"hidden": [8]},
    {"hidden": [8], "activation": "pact", "per_channel": True},
    {"hidden": [8, 5], "split": True, "bits": 3, "act_bits": 3},
    {"hidden": [8, 5], "activation": "pact", "bits": 8, "act_bits": 8, "per_channel": True},
    {"hidden": [7, 6, 5], "act_bits": 2, "split": True},
    {"hidden": [7, 6, 5], "act_bits": 8, "bits": 8},
]
kinds = pytest.mark.parametrize("kind", KINDS, ids=str)


def rows_near_the_boundary(network: Any, seed: int, count: int = ROWS) -> tuple[Tensor, Tensor]:
    """Points with small margins and less small ones, and the class that they have."""
    x = torch.randn(600, WIDTH, generator=made(seed))
    with torch.no_grad():
        logits = network(x)
    order = (logits[:, 1] - logits[:, 0]).abs().argsort()[:: 200 // count][:count]
    return x[order], logits[order].argmax(1)


# --- reading networks ---


@kinds
def test_layers_give_what_the_network_gives(kind: dict[str, Any]) -> None:
    network = deployed(1, **kind)
    x = torch.randn(200, WIDTH, generator=made(2))
    target = torch.arange(200) % 2
    with torch.no_grad():
        expected = target_margin(network(x), target)
    got = exact_margin(read_chain(in_blocks(network)), x.double(), target)
    torch.testing.assert_close(got.float(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (nn.Linear(3, 2), "a Linear"),
        (lambda x: x, "a function"),
        (nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2)), "a Tanh at place 1"),
        (nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), "a Linear at place 1"),
        (nn.Sequential(nn.Linear(3, 3)), "two logits"),
        (nn.Sequential(nn.Linear(3, 2), nn.ReLU()), "two logits"),
        (nn.Sequential(nn.ReLU(), nn.Linear(3, 2)), "a ReLU at place 0"),
    ],
)
def test_other_networks_are_refused_by_name(network: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_chain(network)


def test_quantized_inputs_are_refused() -> None:
    layers = deployed(0, [4]).layers
    with pytest.raises(UserError, match="inputs are quantized"):
        read_chain(DeployedNetwork([layers[2]]))


# --- lines ---


@pytest.mark.parametrize("slopes", ["flat", "steep", "adaptive"])
@pytest.mark.parametrize("levels", [0, 1, 3, 15, 255])
def test_lines_bound_the_activation(slopes: Any, levels: int) -> None:
    generator = made(levels)
    low = 3 * torch.randn(4000, 1, dtype=torch.float64, generator=generator)
    width = 4 * torch.rand(4000, 1, dtype=torch.float64, generator=generator) ** 3
    low[:200] = 0.0
    width[100:300] = 0.0  # points are intervals too
    high = low + width
    high[300:400] = 0.0
    low = torch.minimum(low, high)
    step = 2.0 / max(levels, 1)
    if levels:
        lines = quantized_lines(low, high, step, levels, slopes)
    else:
        lines = relu_lines(low, high, slopes)
    z = low + (high - low) * torch.linspace(0, 1, 101, dtype=torch.float64)
    value = quantized(z, step, levels) if levels else z.clamp_min(0)
    assert bool((lines.lower_slope * z + lines.lower_offset <= value + 1e-12).all())
    assert bool((lines.upper_slope * z + lines.upper_offset >= value - 1e-12).all())


# --- backends ---


def backend(
    layers: list[Layer], x: Tensor, target: Tensor, lsb: float, generator: torch.Generator
) -> Tensor:
    """Margins on a backend with extreme errors; the last hidden layer's are the worst of all."""
    sign = torch.where(target == 1, 1.0, -1.0).double()[:, None]
    weight = sign * (layers[-1].weight[1] - layers[-1].weight[0])
    v = x.double()
    for layer, following in itertools.pairwise(layers):
        z = v @ layer.weight.T + layer.bias
        reach = lsb * float(following.step or 0.0)
        if following is layers[-1]:
            ends = torch.stack([z - reach, z + reach])
            h = quantized(ends, float(following.step or 1.0), following.levels)
            v = torch.where(weight * h[0] < weight * h[1], h[0], h[1])
        else:
            error = torch.rand(z.shape, generator=generator, dtype=torch.float64) * 2 - 1
            vertex = torch.rand(len(z), 1, generator=generator) < 0.7
            z = z + reach * torch.where(vertex, error.sign(), error)
            v = quantized(z, float(following.step or 1.0), following.levels)
    return (weight * v).sum(1) + sign[:, 0] * (layers[-1].bias[1] - layers[-1].bias[0])


@kinds
@pytest.mark.parametrize("lsb", [0.0, 0.01, 0.2, 1.0])
def test_no_backend_is_below_its_certificate(kind: dict[str, Any], lsb: float) -> None:
    network = deployed(3, **kind)
    layers = read_chain(network)
    x, target = rows_near_the_boundary(network, 4)
    certified = backend_margin(layers, x, target, lsb)
    generator = made(5)
    worst = torch.full((ROWS,), torch.inf, dtype=torch.float64)
    for _ in range(300):
        worst = torch.minimum(worst, backend(layers, x, target, lsb, generator))
    assert bool((certified <= worst).all())
    if len(layers) == 2:  # the adversary is the worst backend there is
        assert float((worst - certified).max()) < 1e-4
    assert bool((backend_margin(layers, x, target, 2 * lsb + 0.01) <= certified + 1e-12).all())


def test_a_unit_that_may_round_both_ways_is_counted_at_its_worst() -> None:
    # z = 0.49 + x is rounded to 0 or 1; the margin is 0.6 - h.
    layers = [
        Layer(torch.ones(1, 1).double(), torch.tensor([0.49]).double()),
        Layer(torch.tensor([[0.0], [-1.0]]).double(), torch.tensor([0.0, 0.6]).double(), 1.0, 3),
    ]
    x, target = torch.zeros(1, 1), torch.ones(1, dtype=torch.int64)
    assert float(backend_margin(layers, x, target, 0.005)) == pytest.approx(0.6, abs=1e-5)
    assert float(backend_margin(layers, x, target, 0.02)) == pytest.approx(-0.4, abs=1e-5)


# --- float32 ---


def shuffled(network: nn.Module, x: Tensor, generator: torch.Generator) -> Tensor:
    """Logits in float32 with the terms of every sum in another order, one after the other."""
    v, layers = x, read_chain(network)
    for i, layer in enumerate(layers):
        weight = layer.weight.float()
        if i:
            v = v.clamp_min(0.0)
            if layer.step is not None:
                step = torch.tensor(layer.step).float()
                v = (v / step).clamp(0, layer.levels).round() * step
        terms = torch.cat(
            [v[:, None] * weight, layer.bias.float().expand(len(v), -1)[..., None]], 2
        )
        total = torch.zeros(terms.shape[:2])
        for j in torch.randperm(terms.shape[2], generator=generator).tolist():
            total = total + terms[:, :, j]
        v = total
    return v


def balanced(seed: int, kind: dict[str, Any]) -> tuple[DeployedNetwork, Tensor]:
    """A network and a row whose margin is a few float32 units from 0."""
    network = deployed(seed, **kind)
    x = 5 * torch.randn(1, WIDTH, generator=made(seed + 1000))
    last = network.units[-1]
    assert last.bias is not None
    layers = read_chain(network)
    margin = exact_margin(layers, x.double(), torch.ones(1))
    nudge = torch.randn(1, generator=made(seed)) * 3e-7
    last.bias[1] = float(layers[-1].bias[1] - margin) + float(nudge)
    return network, x


def test_what_is_certified_holds_in_float32_however_its_sums_are_ordered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken_without, certified = 0, 0
    for seed in range(120):
        network, x = balanced(seed, KINDS[seed % len(KINDS)])
        layers = read_chain(network)
        with torch.no_grad():
            runs = [network(x), network(x.expand(7, -1))[3:4], in_blocks(network)(x)]
        runs += [shuffled(network, x, made(i)) for i in range(10)]
        for cls in (0, 1):
            target = torch.tensor([cls])
            actual = torch.cat([target_margin(run, target) for run in runs]).double()
            proved = backend_margin(layers, x, target, 0.0)
            assert float(proved) < float(actual.min()) or float(actual.min()) > 1e-5
            certified += int(proved > 0)
            if proved > 0:
                assert bool((actual > 0).all())
            with monkeypatch.context() as patch:
                patch.setattr(bound_file, "UNIT", 0.0)
                naive = backend_margin(layers, x, target, 0.0)
            broken_without += int(naive > 0 and bool((actual <= 0).any()))
    assert broken_without > 0  # the rows are hard enough: float64 alone would be wrong on some


# --- boxes ---


@kinds
def test_boxes_are_verified_or_refuted_by_a_point_in_them(kind: dict[str, Any]) -> None:
    network = deployed(6, **kind)
    layers, generator = read_chain(network), made(8)
    x, target = rows_near_the_boundary(network, 7)
    moved = torch.rand(ROWS, WIDTH, generator=generator) < 0.3
    radius = 0.05
    answer = verify_boxes(network, layers, x, target, moved, radius)
    inside = (answer.witness.double() - x.double()).abs() <= radius * moved.double()
    assert bool(inside.all())
    with torch.no_grad():
        at_witness = target_margin(in_blocks(network)(answer.witness), target)
    refuted, verified = answer.verdict == Verdict.REFUTED, answer.verdict == Verdict.VERIFIED
    assert bool((at_witness[refuted] <= 0).all())
    for attempt in range(300):
        share = torch.rand(ROWS, WIDTH, generator=generator) * 2 - 1
        share = share.sign() if attempt % 3 == 0 else share
        near = x + 0.99999 * radius * share * moved
        with torch.no_grad():
            margin = target_margin(network(near), target)
        assert bool((margin[verified] > 0).all())
    assert int(verified.sum()) > 0


def test_boxes_of_one_column_are_decided_as_a_dense_grid_decides() -> None:
    network = deployed(9, [8, 5], act_bits=4)
    x, target = rows_near_the_boundary(network, 10, 200)
    moved = torch.zeros(200, WIDTH, dtype=torch.bool)
    moved[:, 4] = True
    answer = verify_boxes(network, read_chain(network), x, target, moved, 0.2)
    worst = torch.full((200,), torch.inf)
    for shift in np.linspace(-0.2, 0.2, 2001):
        near = x.clone()
        near[:, 4] += float(shift) * 0.999999
        with torch.no_grad():
            worst = torch.minimum(worst, target_margin(network(near), target))
    verified, refuted = answer.verdict == Verdict.VERIFIED, answer.verdict == Verdict.REFUTED
    assert bool((worst[verified] > 0).all())
    assert int(verified.sum()) > 20
    assert int(refuted.sum()) > 20
    assert float((verified | refuted).double().mean()) > 0.95


def test_a_box_that_reaches_over_the_boundary_by_a_hair_is_refuted_at_its_corner() -> None:
    network = nn.Sequential(nn.Linear(2, 2))
    network[0].weight.data = torch.tensor([[0.0, 0.0], [1.0, -1.0]])
    network[0].bias.data = torch.tensor([0.0, 0.0])
    layers, target = read_chain(network), torch.ones(3, dtype=torch.int64)
    x = torch.tensor([[0.0999, 0.0], [0.1001, 0.0], [-0.1, 0.0]])
    both = torch.ones(3, 2, dtype=torch.bool)
    answer = verify_boxes(network, layers, x, target, both, 0.05)
    assert answer.verdict.tolist() == [Verdict.REFUTED, Verdict.VERIFIED, Verdict.REFUTED]
    torch.testing.assert_close(answer.witness[0], torch.tensor([0.0499, 0.05]))
    assert torch.equal(answer.witness[2], x[2])  # the point itself fails
    neither = torch.zeros(3, 2, dtype=torch.bool)
    verdict = verify_boxes(network, layers, x, target, neither, 0.05).verdict
    assert verdict.tolist() == [Verdict.VERIFIED, Verdict.VERIFIED, Verdict.REFUTED]


def test_no_narrow_gap_is_missed_wherever_it_lies_in_the_box() -> None:
    """margin = |x - c| - 0.001: it fails within 0.001 of c alone."""
    for center in torch.linspace(-0.99, 0.99, 67).tolist():
        layers = [
            Layer(torch.tensor([[1.0], [-1.0]]).double(), torch.tensor([-center, center]).double()),
            Layer(
                torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double(),
                torch.tensor([0.0, -0.001]).double(),
            ),
        ]

        def model(x: Tensor, center: float = center) -> Tensor:
            return torch.cat([torch.zeros_like(x), (x - center).abs() - 0.001], dim=1)

        one, moved = torch.ones(1, dtype=torch.int64), torch.ones(1, 1, dtype=torch.bool)
        x = torch.zeros(1, 1) if abs(center) > 0.01 else torch.full((1, 1), 0.1)
        answer = verify_boxes(model, layers, x, one, moved, 1.0)
        assert answer.verdict.tolist() == [Verdict.REFUTED], center
        assert abs(float(answer.witness) - center) <= 0.001001


def test_boxes_out_of_reach_are_undecided_and_a_batch_changes_nothing() -> None:
    network = deployed(11, [7, 6, 5], bits=8)
    x, target = rows_near_the_boundary(network, 12)
    every = torch.ones(ROWS, WIDTH, dtype=torch.bool)
    layers = read_chain(network)
    one_pass = verify_boxes(network, layers, x, target, every, 0.1, most_boxes=1).verdict
    more = verify_boxes(network, layers, x, target, every, 0.1).verdict
    assert bool((one_pass == Verdict.UNDECIDED).any())
    decided = one_pass != Verdict.UNDECIDED
    assert torch.equal(one_pass[decided], more[decided])
    alone = [
        int(verify_boxes(network, layers, x[i : i + 1], target[i : i + 1], every[:1], 0.1).verdict)
        for i in range(ROWS)
    ]
    assert alone == more.tolist()
    none = verify_boxes(network, layers, x[:0], target[:0], every[:0], 0.1)
    assert none.verdict.shape == (0,)


# --- teachers rounded to b bits ---


def vertex_ascent(
    layers: list[Layer], radii: list[Tensor], x: Tensor, target: Tensor, generator: torch.Generator
) -> Tensor:
    """Least margin (1,) of one row over weights that gradients push to the ends of their radii."""
    ends = [r.expand_as(layer.weight) for layer, r in zip(layers, radii, strict=True)]
    signs = [torch.randn(r.shape, generator=generator, dtype=torch.float64).sign() for r in ends]
    best = torch.full((1,), torch.inf, dtype=torch.float64)
    for _ in range(12):
        errors = [(s * r).requires_grad_(True) for s, r in zip(signs, ends, strict=True)]
        member = [replace(at, weight=at.weight + e) for at, e in zip(layers, errors, strict=True)]
        margin = exact_margin(member, x.double(), target)
        best = torch.minimum(best, margin.detach())
        grads = torch.autograd.grad(margin.sum(), errors, allow_unused=True)
        signs = [
            s if g is None else torch.where(g == 0, s, -g.sign())
            for s, g in zip(signs, grads, strict=True)
        ]
    return best


@pytest.mark.parametrize("hidden", [[], [8], [8, 5], [7, 6, 5]], ids=str)
@pytest.mark.parametrize(("per_channel", "roundings"), [(False, "any"), (True, "nearest")])
def test_no_rounding_is_below_its_certificate(
    hidden: list[int], per_channel: bool, roundings: Any
) -> None:
    network = float_network(13, hidden)
    layers, generator = read_chain(network), made(14)
    x, target = rows_near_the_boundary(network, 15, 20)
    for bits, activations in ((8, False), (5, False), (5, True)):
        thresholds = [2.0] * len(hidden) if activations else None
        certified = rounded_margin(
            layers, x, target, bits, per_channel=per_channel, roundings=roundings,
            thresholds=thresholds,
        )  # fmt: skip
        base = with_activations(layers, bits, thresholds) if thresholds else layers
        radii = rounding_radii(layers, bits, per_channel=per_channel, roundings=roundings)
        members = [random_member(base, radii, generator) for _ in range(200)]
        members.append(to_nearest(base, layers, bits, per_channel))
        if roundings == "any":
            members += [
                random_rounding(base, bits, per_channel=per_channel, generator=generator)
                for _ in range(100)
            ]
        for member in members:
            assert bool((certified <= exact_margin(member, x.double(), target)).all())
        for i in range(len(x) if not activations else 0):
            worst = vertex_ascent(base, radii, x[i : i + 1], target[i : i + 1], generator)
            assert float(certified[i]) <= float(worst)


def random_member(
    layers: list[Layer], radii: list[Tensor], generator: torch.Generator
) -> list[Layer]:
    """Weights anywhere in their radii, most of them at an end."""
    out = []
    for layer, radius in zip(layers, radii, strict=True):
        error = torch.rand(layer.weight.shape, generator=generator, dtype=torch.float64) * 2 - 1
        if torch.rand(1, generator=generator) < 0.7:
            error = error.sign()
        out.append(replace(layer, weight=layer.weight + radius * error))
    return out


def to_nearest(base: list[Layer], layers: list[Layer], bits: int, per_channel: bool) -> list[Layer]:
    """The rounding that everyone uses, its weights float32 numbers as they are deployed."""
    out = []
    for quantized_layer, layer in zip(base, layers, strict=True):
        step = grid_step(layer.weight.float(), bits, per_channel=per_channel)
        weight = (layer.weight.float() / step).round() * step
        out.append(replace(quantized_layer, weight=weight.double()))
    return out


@pytest.mark.parametrize("per_channel", [False, True])
def test_with_one_hidden_layer_the_bound_is_the_worst_rounding(per_channel: bool) -> None:
    """Closed form in numpy: the units are independent, and each takes its worse end."""
    network = float_network(16, [8])
    layers = read_chain(network)
    x, target = rows_near_the_boundary(network, 17)
    first, last = (layer.weight.numpy() for layer in layers)
    step = [np.abs(w).max(1 if per_channel else None, keepdims=True) / 31 for w in (first, last)]
    radius = [np.broadcast_to(s / 2, (len(w), 1)) for s, w in zip(step, (first, last), strict=True)]
    expected = []
    for row, cls in zip(x.double().numpy(), target.tolist(), strict=True):
        sign = 1 if cls == 1 else -1
        a = sign * (last[1] - last[0]) - radius[1].sum()
        z = first @ row + layers[0].bias.numpy()
        reach = radius[0][:, 0] * np.abs(row).sum()
        ends = np.maximum([z - reach, z + reach], 0)
        bias = layers[1].bias.numpy()
        expected.append(np.minimum(a * ends[0], a * ends[1]).sum() + sign * (bias[1] - bias[0]))
    certified = rounded_margin(layers, x, target, 6, per_channel=per_channel).numpy()
    assert (certified <= expected).all()
    np.testing.assert_allclose(certified, expected, atol=5e-5)


def test_the_fewest_certified_bits_are_where_the_bound_stops_being_positive() -> None:
    network = float_network(18, [8, 5])
    layers = read_chain(network)
    x = torch.randn(60, WIDTH, generator=made(19))
    with torch.no_grad():
        target = network(x).argmax(1)
    for roundings in ("nearest", "any"):
        kept: dict[str, Any] = {"per_channel": True, "roundings": roundings}
        bits = certified_bits(layers, x, target, **kept)
        assert set(bits.tolist()) <= set(range(2, 12))
        for i, fewest in enumerate(bits.tolist()):
            row = (x[i : i + 1], target[i : i + 1])
            if fewest <= 10:
                assert float(rounded_margin(layers, *row, fewest, **kept)) > 0
            if fewest > 2:
                assert float(rounded_margin(layers, *row, fewest - 1, **kept)) <= 0
    nearest = certified_bits(layers, x, target, per_channel=True)
    assert bool((nearest <= bits).all())
    assert bool((nearest < bits).any())
    wrong = certified_bits(layers, x, 1 - target, per_channel=True)
    assert wrong.tolist() == [11] * 60


def test_random_roundings_are_neighbours_on_the_grid_and_fair() -> None:
    layers = read_chain(float_network(20, [8]))
    step = grid_step(layers[0].weight, 4, per_channel=True)
    total = torch.zeros_like(layers[0].weight)
    generator = made(21)
    for _ in range(2000):
        weight = random_rounding(layers, 4, per_channel=True, generator=generator)[0].weight
        code = weight / step
        assert bool((code - code.round()).abs().max() < 1e-9)
        assert bool(((weight - layers[0].weight).abs() <= step * (1 + 1e-12)).all())
        assert float(code.abs().max()) <= 7 + 1e-9
        total += weight
    torch.testing.assert_close(total / 2000, layers[0].weight, atol=0.02, rtol=0.0)


def test_the_attack_breaks_what_it_can_and_no_certified_point() -> None:
    network = float_network(22, [8, 5])
    layers = read_chain(network)
    x = torch.randn(300, WIDTH, generator=made(23))
    with torch.no_grad():
        target = network(x).argmax(1)

    def stable(bits: int) -> Tensor:
        return stable_under_roundings(
            layers, x, target, bits, per_channel=True, members=100, generator=made(24)
        )

    assert float(stable(3).double().mean()) < float(stable(8).double().mean())
    assert torch.equal(stable(4), stable(4))
    for bits in (4, 6, 8):
        proved = rounded_margin(layers, x, target, bits, per_channel=True, roundings="any") > 0
        assert bool(stable(bits)[proved].all())


# --- the paper's bound ---


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_printed_bound_holds_and_is_looser(per_channel: bool) -> None:
    network = float_network(25, [8, 5])
    layers = read_chain(network)
    x = torch.randn(300, WIDTH, generator=made(26))
    with torch.no_grad():
        target = network(x).argmax(1)
    margin = exact_margin(layers, x.double(), target)
    epsilon = logit_perturbation(layers, x, 7, per_channel=per_channel)
    proved = proved_by_lipschitz(layers, x, margin, 7, per_channel=per_channel)
    assert torch.equal(proved, margin > 2 * epsilon)
    generator = made(27)
    radii = [grid_step(layer.weight, 7, per_channel=per_channel) / 2 for layer in layers]
    for _ in range(200):
        moved = exact_margin(random_member(layers, radii, generator), x.double(), target)
        assert bool(((moved - margin).abs() <= 2 * epsilon).all())
    ours = rounded_margin(layers, x, target, 7, per_channel=per_channel) > 0
    assert int(ours.sum()) > int(proved.sum()) > 0
    assert bool(ours[proved].all())


def test_the_printed_bound_of_two_layers_by_hand() -> None:
    # |z| = 5 and 6; steps 2/3 and 1/3 at 3 bits; |dW| <= sqrt(out in) step / 2; |W_2| = 1.
    layers = [
        Layer(torch.tensor([[2.0, 0.0]]).double(), torch.zeros(1).double()),
        Layer(torch.tensor([[1.0], [0.0]]).double(), torch.zeros(2).double()),
    ]
    first = 2**0.5 / 3 * 5
    expected = 1.0 * first + 2**0.5 / 6 * (6 + first)
    got = logit_perturbation(layers, torch.tensor([[3.0, 4.0]]), 3, per_channel=False)
    assert float(got) == pytest.approx(expected)


def test_a_float_layer_read_from_a_record_is_read_as_a_linear_layer() -> None:
    network = float_network(28, [4])
    stored = DeployedNetwork(
        [FloatLinear(m.weight, m.bias) if isinstance(m, nn.Linear) else m for m in network]
    )
    for one, other in zip(read_chain(network), read_chain(stored), strict=True):
        assert torch.equal(one.weight, other.weight)
        assert torch.equal(one.bias, other.bias)
        assert one.step is None
        assert other.step is None


def test_numbers_that_break_down_are_never_certified() -> None:
    layers = read_chain(float_network(29, [8, 5]))
    x = torch.randn(3, WIDTH)
    x[0, 0], x[1, 1] = torch.nan, torch.inf
    margin = lower_margin(layers, x.double(), x.double(), torch.ones(3)).margin
    assert not bool((margin[:2] > 0).any())
    assert bool(margin[2].isfinite())
