"""Networks for images: batch norm, quantized convolutions, costs, sums, what is stored."""

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional as F

from cfq_bench.actions.layers import read_layers
from cfq_bench.backbones.base import Backbone, make_backbone
from cfq_bench.backbones.batch_norm import fold_batch_norm, running_statistics
from cfq_bench.backbones.graph import Add, non_negative, steps_of, weighted_layers
from cfq_bench.backbones.mlp import MLP
from cfq_bench.certificates.chain import read_chain
from cfq_bench.config.loader import load_settings
from cfq_bench.errors import UserError
from cfq_bench.evaluation.evaluate import deployment_cost
from cfq_bench.methods.fp32 import float_deployment
from cfq_bench.quantization.calibration import Calibration, Moments, calibrate, output_step
from cfq_bench.quantization.deployed import DeployedConv2d
from cfq_bench.quantization.float_pass import float_pass
from cfq_bench.quantization.functional import signed_range
from cfq_bench.quantization.layers import QuantConv2d
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.pruning import Masks, magnitude, masks_of, prunable, sensitivity
from cfq_bench.quantization.sensitivity import (
    gradient_sensitivity,
    hessian_traces,
    logit_change,
    weight_errors,
)
from cfq_bench.quantization.storage import network_from_bytes, network_to_bytes
from tests.support.networks import SHAPE, SMALL, backbone_of, folded_of, images, quantization

pytestmark = pytest.mark.slow

every_backbone = pytest.mark.parametrize("name", SMALL)


def network_of(
    teacher: Backbone, kind: Any = "lsq", ramp: float | None = None, **changes: Any
) -> QuantizedNetwork:
    return QuantizedNetwork(teacher, quantization(**changes), kind, 0, images(30, seed=9), ramp)


def perturbed(network: QuantizedNetwork) -> QuantizedNetwork:
    """As after training: nothing is where it started."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return network


# --- backbones ---


def test_resnet18_is_torchvision_s_but_for_the_stem() -> None:
    theirs = torchvision.models.resnet18(num_classes=3)
    theirs.conv1 = nn.Conv2d(2, 64, 3, padding=1, bias=False)
    theirs.maxpool = nn.Identity()
    settings = load_settings(backbone="resnet18").backbone
    from cfq_bench.backbones.resnet18 import ResNet18

    ours = make_backbone(ResNet18, settings, SHAPE, 0, 3)
    # Both list their tensors in the order of the calls.
    ours.load_state_dict(
        dict(zip(ours.state_dict(), theirs.state_dict().values(), strict=True)), strict=True
    )
    x = images(4)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_the_small_cnn_has_tens_of_thousands_of_weights() -> None:
    from cfq_bench.backbones.small_cnn import SmallCNN

    network = make_backbone(
        SmallCNN, load_settings(backbone="small_cnn").backbone, (1, 28, 28), 0, 10
    )
    weights = sum(layer.weight.numel() for layer in weighted_layers(network))
    assert weights == 16 * 9 + 32 * 16 * 9 + 64 * 32 * 9 + 10 * 64 * 3 * 3
    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


@every_backbone
def test_images_are_asked_for_in_one_line(name: str) -> None:
    with pytest.raises(UserError, match=r"reads images .* inputs of shape \(61,\)"):
        backbone_of(name, (61,))


def test_images_that_are_too_small_are_refused() -> None:
    with pytest.raises(UserError, match="images of 12x7 cannot be halved 3 times"):
        backbone_of("small_cnn", (1, 12, 7))


def test_an_mlp_reads_an_image_as_one_row() -> None:
    settings = load_settings(backbone="mlp2").backbone
    network = make_backbone(MLP, settings, SHAPE, 0)
    flat = make_backbone(MLP, settings, network.width, 0)
    assert torch.equal(network(images()), flat(images().flatten(1)))


@pytest.mark.parametrize(
    ("name", "half"), [("small_cnn", [4, 3, 2]), ("resnet18", 4), ("mlp2", [32, 16])]
)
def test_half_a_backbone(name: str, half: Any) -> None:
    settings = load_settings(backbone=name, overrides=SMALL.get(name, [])).backbone.halved()
    assert settings is not None
    assert half in settings.model_dump().values()


# --- batch norm ---


@every_backbone
def test_folding_changes_no_answer_and_leaves_no_norm(name: str) -> None:
    network, x = backbone_of(name), images()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    folded = fold_batch_norm(network)
    torch.testing.assert_close(folded(x), network(x), atol=1e-5, rtol=1e-5)
    assert not torch.equal(folded(x), network.train()(x))  # its own statistics say otherwise
    assert not any(isinstance(part, nn.BatchNorm2d) for part in folded.modules())
    assert not any("running" in key for key in folded.state_dict())
    assert fold_batch_norm(folded) is folded
    network.load_state_dict(before)


def test_a_norm_that_cannot_be_folded_is_refused() -> None:
    network = Backbone(None, SHAPE, 3)
    network.extend([nn.Conv2d(2, 4, 3), nn.ReLU(), nn.BatchNorm2d(4), nn.Flatten()])
    network.append(nn.Linear(4 * 10 * 8, 3))
    with pytest.raises(UserError, match="batch norm 2 cannot be folded"):
        fold_batch_norm(network)


def test_running_statistics_are_kept_while_points_are_looked_at() -> None:
    network = backbone_of("small_cnn").train()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    with running_statistics(network):
        network(images())
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert all(part.training for part in network.modules())
    network(images())
    assert not torch.equal(network.state_dict()["1.running_mean"], before["1.running_mean"])


# --- LSQ and PACT of a convolution, by hand ---


def one_convolution(kind: Any, per_channel: bool = False) -> QuantConv2d:
    """Two channels behind a ReLU, with the weights 0.3 and 1.7, and -0.6 and 9."""
    teacher = Backbone(None, (1, 1, 2), 2)
    teacher.extend([nn.Conv2d(1, 1, 1), nn.ReLU(), nn.Conv2d(1, 2, (1, 2)), nn.ReLU()])
    teacher.extend([nn.Flatten(), nn.Linear(2, 2)])
    network = QuantizedNetwork(
        teacher,
        quantization(candidates=[3], activation_bits=2, per_channel=per_channel),
        kind,
        0,
        torch.rand(8, 1, 1, 2),
    )
    unit = network.units[1]
    assert isinstance(unit, QuantConv2d)
    with torch.no_grad():
        unit.weight.copy_(torch.tensor([[0.3, 1.7], [-0.6, 9.0]]).view(2, 1, 1, 2))
        assert unit.bias is not None
        unit.bias.zero_()
        unit.log_step.fill_(np.log(0.5))
        if per_channel:
            unit.log_step[0, 1] = np.log(2.0)
        assert unit.activation is not None
        unit.activation.log_scale.fill_(np.log(1.0 if kind == "lsq" else 3.0))
    return unit


@pytest.mark.parametrize("kind", ["lsq", "pact"])
def test_a_quantized_convolution_by_hand(kind: str) -> None:
    unit = one_convolution(kind)
    x = torch.tensor([1.2, 8.0]).view(1, 1, 1, 2).requires_grad_()
    # Weights on the grid of 0.5 times -4 .. 3: 0.3 -> 0.5, 1.7 -> 1.5 (clipped), -0.6 -> -0.5,
    # 9 -> 1.5 (clipped). Inputs on 0 .. 3: 1.2 -> 1, 8 -> 3 (clipped).
    answer = unit(x)
    assert answer.flatten().tolist() == pytest.approx([0.5 + 3 * 1.5, -0.5 + 3 * 1.5])
    upstream = torch.tensor([2.0, -1.0])
    answer.flatten().backward(upstream)
    # To the weights straight through inside the clip: the quantized inputs times the upstream.
    assert unit.weight.grad is not None
    assert unit.weight.grad.flatten().tolist() == pytest.approx([2.0 * 1, 0.0, -1.0 * 1, 0.0])
    # To the step: round(v) - v inside, q+ outside, times the gradient, times 1 / sqrt(4 * 3).
    inside = 2.0 * (1 - 0.3 / 0.5) - 1.0 * (-1 + 0.6 / 0.5)
    outside = 2.0 * 3 * 3 - 1.0 * 3 * 3
    wanted = (inside + outside) / np.sqrt(4 * 3) * 0.5  # of the logarithm: times the step
    assert unit.log_step.grad is not None
    assert float(unit.log_step.grad) == pytest.approx(wanted, rel=1e-5)
    # To the inputs: 0 where they are clipped; to their scale: LSQ's residual, PACT's 1[a >= alpha].
    assert x.grad is not None
    assert x.grad.flatten().tolist() == pytest.approx([2.0 * 0.5 + 1.0 * 0.5, 0.0])
    first, second = 2.0 * 0.5 + 0.5, 2.0 * 1.5 - 1.5
    assert unit.activation is not None
    assert unit.activation.log_scale.grad is not None
    residual = (first * (1 - 1.2) + second * 3) / np.sqrt(2 * 3)
    scale = second * 3.0 if kind == "pact" else residual
    assert float(unit.activation.log_scale.grad) == pytest.approx(scale, rel=1e-5)


def test_every_output_channel_has_a_step_of_its_own() -> None:
    unit = one_convolution("lsq", per_channel=True)
    assert unit.log_step.shape == (1, 2, 1, 1, 1)
    # The second channel's grid is that of 2: -0.6 -> 0, 9 -> 6 (clipped).
    assert unit.quantized_weight(0).flatten().tolist() == pytest.approx([0.5, 1.5, 0.0, 6.0])


# --- simulated equals deployed ---

VARIANTS = [
    *itertools.product(["small_cnn"], ["lsq", "pact"], ["tied", 8, 2], [False, True]),
    ("resnet18", "lsq", "tied", True),
    ("resnet18", "pact", 8, False),
    ("resnet18", "lsq", 2, False),
]


@pytest.mark.parametrize(("name", "kind", "activation_bits", "per_channel"), VARIANTS)
def test_what_is_deployed_and_stored_is_what_was_simulated(
    name: str, kind: str, activation_bits: Any, per_channel: bool
) -> None:
    network = perturbed(
        network_of(folded_of(name), kind, activation_bits=activation_bits, per_channel=per_channel)
    ).eval()
    x = images()
    for bits in ([8], [4], [2, 8, 3, 4]):
        bits = list(itertools.islice(itertools.cycle(bits), len(network.units)))
        network.select_bits(bits)
        deployed = network.deploy()
        stored = network_from_bytes(network_to_bytes(deployed), "test")
        with torch.no_grad():
            wanted = network(x)
            assert torch.equal(deployed(x), wanted)
            assert torch.equal(stored(x), wanted)
        assert [unit.bits for unit in deployed.units] == bits
        assert [unit.name for unit in deployed.units] == [unit.name for unit in network.units]
        for code_unit, unit in zip(deployed.units, network.units, strict=True):
            low, high = signed_range(code_unit.bits)
            assert code_unit.codes.dtype == torch.int8
            assert low <= int(code_unit.codes.min())
            assert int(code_unit.codes.max()) <= high
            assert torch.equal(code_unit.weight, code_unit.codes.float() * code_unit.step)
            assert code_unit.step.numel() == (len(unit.weight) if per_channel else 1)
        assert list(deployed.parameters()) == []
        assert not any(isinstance(part, nn.BatchNorm2d) for part in deployed.modules())


@every_backbone
def test_a_float_network_comes_back_bitwise(name: str) -> None:
    teacher, x = folded_of(name), images()
    stored = network_from_bytes(network_to_bytes(teacher), "test")
    assert torch.equal(stored(x), teacher(x))


def test_modules_without_weights_come_back_as_they_were() -> None:
    x = images().abs()
    modules = [
        nn.AvgPool2d(3, 1, 1, count_include_pad=False),
        nn.AvgPool2d(2, divisor_override=3),
        nn.AdaptiveMaxPool2d(2),
        nn.Dropout(0.5),
        nn.Dropout2d(0.5),
    ]
    for module in modules:
        network = nn.Sequential(module, nn.Flatten()).eval()
        stored = network_from_bytes(network_to_bytes(network), "test")
        assert torch.equal(stored(x), network(x)), module


@every_backbone
def test_gradients_reach_the_image_as_in_the_simulation(name: str) -> None:
    network = network_of(folded_of(name)).eval()
    found = []
    for model in (network, network.deploy()):
        x = images(4).requires_grad_()
        (gradient,) = torch.autograd.grad(model(x)[:, 0].sum(), x)
        found.append(gradient)
    assert float(found[0].abs().max()) > 0
    torch.testing.assert_close(found[0], found[1])


@every_backbone
def test_eight_bits_are_close_to_the_teacher_and_two_are_not(name: str) -> None:
    teacher, x = folded_of(name), images()
    network = network_of(teacher, per_channel=True)
    distance = []
    for bits in (8, 2):
        network.select_bits([bits] * len(network.units))
        distance.append(float((network(x) - teacher(x)).abs().mean().detach()))
    assert distance[0] < 0.05 * float(teacher(x).std())
    assert distance[1] > 5 * distance[0]


@every_backbone
def test_the_float_pass_is_the_teacher(name: str) -> None:
    teacher, x = folded_of(name), images()
    torch.testing.assert_close(float_pass(network_of(teacher), x).logits, teacher(x))


def test_a_quantized_copy_folds_what_it_copies() -> None:
    network, x = backbone_of("resnet18"), images()
    torch.testing.assert_close(
        float_pass(network_of(network), x).logits, network(x), atol=1e-5, rtol=1e-5
    )


# --- signs ---


@every_backbone
def test_what_quantizers_read_is_never_negative(name: str) -> None:
    network = network_of(folded_of(name))
    run = float_pass(network, 10.0 * images(50))
    assert network.units[0].activation is None
    assert bool((run.inputs[0] < 0).any())
    for unit, values in zip(network.units[1:], run.inputs[1:], strict=True):
        assert unit.activation is not None
        assert bool((values >= 0).all())
        assert bool((values > 0).any())


def test_a_sum_is_unsigned_where_both_terms_are() -> None:
    steps = steps_of(folded_of("resnet18"))
    known = non_negative(steps)
    sums = [i for i, step in enumerate(steps, 1) if isinstance(step.module, Add)]
    assert len(sums) == 8
    assert not any(known[i] for i in sums)  # of a signed and an unsigned term
    assert all(known[i + 1] for i in sums)  # behind the ReLU


class Residual(nn.Module):
    """x + conv(relu(x)): signed."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(self.relu(x))


class Twice(nn.Module):
    """One convolution in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(F.relu(self.conv(x))))


class Product(nn.Module):
    """x * conv(x)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.conv(x)


class Share(Product):
    """x + conv(x) / 10."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, self.conv(x), alpha=0.1)


class Branch(nn.Module):
    """Looks at its values."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.conv(x) if x.sum() > 0 else x
        return answer


def with_head(*modules: nn.Module, channels: int = 2) -> Backbone:
    network = Backbone(None, SHAPE, 3)
    return network.extend([*modules, nn.Flatten(), nn.Linear(channels * SHAPE[1] * SHAPE[2], 3)])


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ([Residual()], "layer2 is fed by Flatten: only the output of a ReLU"),
        ([nn.Conv2d(2, 2, 3, padding=1), nn.Tanh()], "layer2 is fed by Flatten"),
        ([nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1)], "fed by Conv2d"),
        ([Twice()], "calls its layer 0.conv 2 times"),
        ([Product(), nn.ReLU()], "calls mul outside of its modules"),
        ([Share(), nn.ReLU()], "calls add outside of its modules"),
        ([Branch(), nn.ReLU()], "Backbone cannot be traced"),
        ([nn.Conv2d(2, 2, 3, padding=1, groups=2), nn.ReLU()], "only groups=1"),
        ([nn.Conv2d(2, 2, 3, padding="same"), nn.ReLU()], "a number of zeros as padding"),
    ],
)
def test_networks_that_cannot_be_quantized_are_refused_in_one_line(
    modules: list[nn.Module], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        network_of(with_head(*modules))


def test_a_linear_layer_that_reads_an_image_is_refused() -> None:
    network = Backbone(None, SHAPE, 3)
    network.extend([nn.Conv2d(2, 2, 3, padding=1), nn.ReLU(), nn.Linear(10, 3)])
    with pytest.raises(UserError, match="layer2 is linear and reads values of shape"):
        network_of(network)


def test_functions_between_modules_are_steps() -> None:
    class Functional(Backbone):
        def forward(self, x: Tensor) -> Tensor:
            hidden = F.relu(self[0](x))
            answer: Tensor = self[1](torch.flatten(hidden + hidden, 1))
            return answer

    teacher = Functional(None, SHAPE, 3)
    teacher.extend([nn.Conv2d(2, 2, 3, padding=1), nn.Linear(2 * 12 * 10, 3)])
    network, x = network_of(teacher.requires_grad_(False)), images()
    assert torch.equal(float_pass(network, x).logits, teacher(x))
    with torch.no_grad():
        assert torch.equal(network.deploy()(x), network(x))


# --- costs ---


def test_bit_operations_of_a_cnn_by_hand() -> None:
    teacher = Backbone(None, (2, 9, 7), 3)
    teacher.extend([nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()])
    teacher.append(nn.Linear(4 * 5 * 4, 3))
    first, second = 5 * 4 * (4 * 2 * 9), 4 * 5 * 4 * 3
    network = QuantizedNetwork(
        teacher, quantization(activation_bits=8), "lsq", 0, torch.randn(8, 2, 9, 7)
    )
    network.select_bits([4, 2])
    assert [unit.macs for unit in network.units] == [first, second]
    described = {
        "bits_per_layer": {unit.name: unit.bits for unit in network.units},
        "activation_bits": {unit.name: unit.activation_bits for unit in network.units},
        "sizes": {unit.name: unit.weight.numel() for unit in network.units},
        "macs": {unit.name: unit.macs for unit in network.units},
    }
    cost = deployment_cost(described)
    assert cost["deploy/bops"] == first * 4 * 32 + second * 2 * 8
    assert cost["deploy/avg_bits"] == (72 * 4 + 240 * 2) / 312
    full = deployment_cost(float_deployment(teacher))
    assert full["deploy/bops"] == (first + second) * 32 * 32


@every_backbone
def test_macs_are_what_the_layers_compute(name: str) -> None:
    teacher = folded_of(name)
    seen = []

    def note(layer: nn.Module, args: tuple[Tensor], output: Tensor) -> None:
        weight = layer.weight
        assert isinstance(weight, Tensor)
        seen.append(weight.numel() * output[0].numel() // len(weight))

    handles = [layer.register_forward_hook(note) for layer in weighted_layers(teacher)]
    teacher(images(1))
    for handle in handles:
        handle.remove()
    assert list(float_deployment(teacher)["macs"].values()) == seen
    assert [unit.macs for unit in network_of(folded_of(name)).units] == seen


# --- what allocators ask ---


@every_backbone
def test_gradient_sensitivity_is_that_of_single_images(name: str) -> None:
    teacher, x = folded_of(name), images(7)
    y = torch.arange(7) % 3
    wanted = [0.0] * len(weighted_layers(teacher))
    free = copy.deepcopy(teacher).requires_grad_(True)
    for i in range(len(x)):
        loss = F.cross_entropy(free(x[i : i + 1]), y[i : i + 1])
        weights = [layer.weight for layer in weighted_layers(free)]
        for j, gradient in enumerate(torch.autograd.grad(loss, weights)):
            wanted[j] += float(gradient.abs().sum()) / len(x)
    found = gradient_sensitivity(network_of(teacher), x, y)
    assert found == pytest.approx(wanted, rel=1e-4)


def test_many_images_are_scored_in_parts_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    teacher, x = folded_of("small_cnn"), images(9)
    y, network = torch.arange(9) % 3, network_of(teacher)

    def scores() -> list[Any]:
        generator = torch.Generator().manual_seed(0)
        return [
            gradient_sensitivity(network, x, y),
            logit_change(network, teacher, x)[1],
            hessian_traces(network, x, y, 200, generator),
        ]

    whole = scores()
    monkeypatch.setattr("cfq_bench.quantization.sampling.CHUNK", 4)
    parts = scores()
    for parted, one in zip(parts[:2], whole[:2], strict=True):
        assert parted == pytest.approx(one, rel=1e-4)
    assert parts[2] == pytest.approx(whole[2], rel=0.5)  # other probes


def test_hutchinson_s_trace_is_the_hessian_s() -> None:
    teacher, x = folded_of("small_cnn"), images(6)
    y, network = torch.arange(6) % 3, network_of(teacher)
    unit = network.units[2]

    def loss(weight: Tensor) -> Tensor:
        return F.cross_entropy(float_pass(network, x, {unit: weight}).logits, y)

    hessian = torch.autograd.functional.hessian(loss, unit.weight.detach())
    size = unit.weight.numel()
    exact = float(hessian.reshape(size, size).trace())
    traces = hessian_traces(network, x, y, 300, torch.Generator().manual_seed(0))
    assert exact > 0
    assert traces[2] == pytest.approx(exact, rel=0.15)


@every_backbone
def test_fewer_bits_cost_more_in_every_measure(name: str) -> None:
    teacher, x = folded_of(name), images()
    network = network_of(teacher)
    errors = weight_errors(network, lambda error: error.square().sum())
    change = logit_change(network, teacher, x)
    for row in (*errors, *change):
        assert row[0] > row[-1] >= 0.0


@pytest.mark.parametrize("rule", ["minmax", "percentile", "mse", "output"])
def test_calibration_sets_every_step_and_no_weight(rule: Any) -> None:
    teacher = folded_of("small_cnn")
    network = network_of(teacher, per_channel=True)
    with torch.no_grad():
        for parameter in network.quantizer_parameters():
            parameter.fill_(7.0)
    calibrate(network, images(40), Calibration(rule, 0.99))
    assert all(bool((value < 7.0).all()) for value in network.quantizer_parameters())
    for unit, layer in zip(network.units, weighted_layers(teacher), strict=True):
        assert torch.equal(unit.weight, layer.weight)
    network.select_bits([8] * len(network.units))
    assert float((network(images()) - teacher(images())).abs().max().detach()) < 0.5


def test_a_convolution_s_output_step_is_that_of_its_patches() -> None:
    teacher, x = folded_of("small_cnn"), images(12)
    network = network_of(teacher)
    calibrate(network, x, Calibration("output"))
    unit = network.units[0]
    assert isinstance(unit, QuantConv2d)
    rows = F.unfold(x, 3, padding=1).transpose(1, 2).flatten(0, 1)
    for index, bits in enumerate(unit.candidates):
        weight = unit.weight.detach().flatten(1)
        step = output_step(weight, *signed_range(bits), Moments.of(rows, rows))
        found = unit.log_step.detach()[index].exp()
        assert float(found) == pytest.approx(float(step), rel=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_a_bit_policy_samples_convolutions(name: str) -> None:
    network = network_of(folded_of(name), ramp=1.0, activation_bits="tied")
    network.sample(1.0, torch.Generator().manual_seed(0))
    network(images(4)).sum().backward()
    assert network.policy_logits is not None
    assert network.policy_logits.grad is not None
    assert bool((network.policy_logits.grad != 0).any(1).all())


# --- pruning ---


def test_a_removed_channel_is_as_if_cut_out() -> None:
    network, x = folded_of("small_cnn"), images()
    masks = Masks(network)
    masks.set(masks_of(network, "neurons", magnitude(network, "neurons"), 0.5))
    masks.prune(network)
    kept = [mask.flatten(1).any(1) for mask in list(masks.buffers())[:-1]]
    assert [int(keep.sum()) for keep in kept] == [4, 3, 3]
    layers = weighted_layers(network)
    hidden, alive = x, torch.ones(SHAPE[0], dtype=torch.bool)
    for layer, keep in zip(layers[:-1], kept, strict=True):
        assert layer.bias is not None
        cut = F.conv2d(hidden, layer.weight[keep][:, alive], layer.bias[keep], padding=1)
        hidden, alive = F.max_pool2d(cut.relu(), 2), keep
    head = layers[-1]
    pixels = head.weight.shape[1] // len(alive)
    logits = F.linear(hidden.flatten(1), head.weight[:, alive.repeat_interleave(pixels)], head.bias)
    torch.testing.assert_close(logits, network(x), atol=1e-5, rtol=1e-5)


def test_channels_that_are_summed_are_not_removed() -> None:
    network = folded_of("resnet18")
    layers, free = weighted_layers(network), prunable(network)
    assert len(free) == 8  # the first convolution of every block
    scores = magnitude(network, "neurons")
    assert [len(score) for score in scores] == [len(layers[i].weight) for i in free]
    masks = masks_of(network, "neurons", scores, 0.5)
    for i, mask in enumerate(masks):
        rows, columns = mask.flatten(1).any(1), mask.transpose(0, 1).flatten(1).any(1)
        assert bool(rows.all()) == (i not in free)
        assert bool(columns.all()) == (i - 1 not in free)


@pytest.mark.parametrize("unit", ["weights", "neurons"])
@every_backbone
def test_saliency_is_the_mean_of_w_g_image_by_image(name: str, unit: Any) -> None:
    network, x = folded_of(name), images(5)
    y = torch.arange(5) % 3
    found = sensitivity(network, unit, x, lambda at: F.cross_entropy(at, y, reduction="none"))
    free = copy.deepcopy(network).requires_grad_(True)
    layers = weighted_layers(free)
    chosen = range(len(layers)) if unit == "weights" else prunable(network)
    wanted = [torch.zeros_like(score) for score in found]
    for i in range(len(x)):
        loss = F.cross_entropy(free(x[i : i + 1]), y[i : i + 1])
        parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
        slopes = torch.autograd.grad(loss, [p for p in parameters if p is not None])
        for score, j in zip(wanted, chosen, strict=True):
            product = layers[j].weight.detach() * slopes[2 * j]
            bias = layers[j].bias
            assert bias is not None
            if unit == "neurons":
                product = product.flatten(1).sum(1) + bias.detach() * slopes[2 * j + 1]
            score += product.abs() / len(x)
    for score, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(score, other, atol=1e-6, rtol=1e-3)


# --- readers of weights ---


@every_backbone
def test_certificates_and_exact_solvers_refuse_images(name: str) -> None:
    teacher = folded_of(name)
    deployed = network_of(teacher).deploy()
    assert any(isinstance(unit, DeployedConv2d) for unit in deployed.units)
    for model in (teacher, deployed):
        with pytest.raises(UserError, match="certificates are for linear layers"):
            read_chain(model)
        with pytest.raises(UserError, match="exact solutions need linear layers"):
            read_layers(model, 1000)
