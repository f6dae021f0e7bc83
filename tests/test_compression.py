"""Pruned networks and smaller students: what is removed stays removed, and bits count what is."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.backbones.graph import weighted_layers
from cfq_bench.errors import UserError
from cfq_bench.evaluation.evaluate import deployment_cost
from cfq_bench.methods.base import Context, Method, NotApplicableError, fit_method, make_method
from cfq_bench.methods.stages import Pruned, Student
from cfq_bench.quantization.deployed import DeployedNetwork
from cfq_bench.quantization.pruning import magnitude, masks_of, sensitivity

pytestmark = pytest.mark.slow

MakeContext = Callable[..., Context]
PRUNING = [
    ("prune_quant", "method.prune=neurons", "method.criterion=magnitude"),
    ("prune_quant", "method.prune=weights", "method.criterion=sensitivity"),
    ("cfq_prune", "method.prune=neurons", "method.saliency=recourse"),
    ("cfq_prune", "method.prune=weights", "method.saliency=both"),
]


def fitted(context: Context) -> Method:
    method = make_method(context)
    fit_method(method)
    return method


# --- scores and masks ---


def test_magnitude_is_the_size_of_a_weight_and_of_a_neuron_s_row(make_context: MakeContext) -> None:
    teacher = make_context("fp32").teacher
    weights = [layer.weight.detach().numpy() for layer in weighted_layers(teacher)]
    for score, weight in zip(magnitude(teacher, "weights"), weights, strict=True):
        np.testing.assert_array_equal(score.numpy(), np.abs(weight))
    rows = magnitude(teacher, "neurons")
    assert len(rows) == len(weights) - 1
    for score, weight in zip(rows, weights, strict=False):
        np.testing.assert_allclose(score.numpy(), np.sqrt((weight**2).sum(1)), rtol=1e-5)


@pytest.mark.parametrize("unit", ["weights", "neurons"])
def test_sensitivity_is_the_mean_of_w_g_row_by_row(unit: str, make_context: MakeContext) -> None:
    context = make_context("fp32")
    network, train = context.teacher, context.data.train
    x, y = train.x[:12], train.y[:12]
    scores = sensitivity(
        network, unit, x, lambda logits: F.cross_entropy(logits, y, reduction="none")
    )
    layers = weighted_layers(network)
    parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
    wanted = [torch.zeros_like(score) for score in scores]
    for i in range(len(x)):  # an independent way: one row at a time, by autograd on parameters
        for parameter in parameters:
            parameter.requires_grad_(True)
        loss = F.cross_entropy(network(x[i : i + 1]), y[i : i + 1])
        slopes = torch.autograd.grad(loss, parameters)
        for j in range(len(scores)):
            product = layers[j].weight.detach() * slopes[2 * j]
            if unit == "neurons":
                product = product.sum(1) + layers[j].bias.detach() * slopes[2 * j + 1]
            wanted[j] += product.abs() / len(x)
    for score, other in zip(scores, wanted, strict=True):
        torch.testing.assert_close(score, other, atol=1e-6, rtol=1e-3)
    for parameter in parameters:
        parameter.requires_grad_(False)
        parameter.grad = None


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.999])
def test_the_lowest_scores_go_and_a_neuron_takes_its_column_with_it(
    fraction: float, make_context: MakeContext
) -> None:
    network = make_context("fp32").teacher
    scores = magnitude(network, "neurons")
    masks = masks_of(network, "neurons", scores, fraction)
    for i, score in enumerate(scores):
        values = score.numpy()
        count = min(round(fraction * len(values)), len(values) - 1)
        gone = set(np.argsort(values, kind="stable")[:count].tolist())
        keep = np.array([j not in gone for j in range(len(values))])
        np.testing.assert_array_equal(masks[i].any(1).numpy(), keep)
        np.testing.assert_array_equal(masks[i + 1].any(0).numpy(), keep)
    assert bool(masks[0].any(0).all())  # no input is removed
    assert bool(masks[-1].any(1).all())  # and no class


# --- what stays removed ---


@pytest.mark.parametrize("case", PRUNING, ids=" ".join)
@pytest.mark.parametrize("more", [[], ["quantization.input_blocks=true"]], ids=["whole", "blocks"])
def test_pruned_weights_have_code_0_in_what_is_deployed(
    case: tuple[str, ...], more: list[str], make_context: MakeContext
) -> None:
    method = fitted(make_context(case[0], *case[1:], *more, "budget.avg_bits=3.5"))
    assert isinstance(method, Pruned)
    deployed = method.deployed()
    assert isinstance(deployed, DeployedNetwork)
    removed, total = 0, 0
    pairs = zip(deployed.units, method.masks.of_units(method.network), strict=True)
    for unit, (quantized, keep) in pairs:
        assert unit.name == quantized.name
        assert not bool(unit.codes[~keep].any())
        assert not bool(quantized.weight[~keep].any())
        removed, total = removed + int((~keep).sum()), total + keep.numel()
    cost = deployment_cost(method.deployment())
    assert cost["deploy/sparsity"] == pytest.approx(removed / total)
    assert cost["deploy/sparsity"] > 0.4
    assert cost["deploy/avg_bits"] <= 3.5 + 1e-6


def test_only_whole_neurons_save_operations(make_context: MakeContext) -> None:
    neurons = make_method(make_context("prune_quant", "budget.avg_bits=4.0"))
    single = make_method(make_context("prune_quant", "method.prune=weights", "budget.avg_bits=4.0"))
    dense = make_method(make_context("lsq", "budget.avg_bits=4.0"))
    for method in (neurons, single, dense):
        method.begin(method.phases()[0])
        method.begin(method.phases()[-1])
    bops = [deployment_cost(one.deployment())["deploy/bops"] for one in (neurons, single, dense)]
    assert bops[0] < bops[1] == bops[2]
    assert deployment_cost(dense.deployment())["deploy/sparsity"] == 0.0


def test_a_removed_neuron_has_no_effect(make_context: MakeContext) -> None:
    """The pruned float network answers as one from which the neurons are really cut out."""
    method = make_method(make_context("prune_quant", "budget.avg_bits=4.0"))
    assert isinstance(method, Pruned)
    method.begin(method.phases()[0])
    layers = weighted_layers(method.origin)
    hidden: Tensor = method.context.data.test.x
    alive = torch.ones(hidden.shape[1], dtype=torch.bool)
    masks = list(method.masks.buffers())
    with torch.no_grad():
        wanted = method.origin(hidden)
        for i, layer in enumerate(layers):
            stay = masks[i].any(1)
            hidden = F.linear(hidden[:, alive], layer.weight[stay][:, alive], layer.bias[stay])
            hidden = hidden.relu() if i + 1 < len(layers) else hidden
            alive = torch.ones(int(stay.sum()), dtype=torch.bool)
            if i + 1 < len(layers):
                layers[i + 1].weight = torch.nn.Parameter(layers[i + 1].weight[:, stay])
    torch.testing.assert_close(hidden, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["prune_quant", "cfq_prune"])
def test_a_linear_backbone_has_no_neurons_to_prune(name: str, make_context: MakeContext) -> None:
    with pytest.raises(NotApplicableError, match="no hidden units"):
        make_method(make_context(name, "backbone=logreg"))


# --- students ---


@pytest.mark.parametrize("name", ["kd_quant", "cfq_student"])
def test_the_student_is_smaller_and_its_bits_are_counted(
    name: str, make_context: MakeContext
) -> None:
    method = fitted(make_context(name, "method.student_hidden=[9, 5]", "budget.avg_bits=4.0"))
    assert isinstance(method, Student)
    width = method.context.teacher.width
    sizes = list(method.deployment()["sizes"].values())
    assert sizes == [width * 9, 9 * 5, 5 * 2]
    assert deployment_cost(method.deployment())["deploy/avg_bits"] == 4.0
    deployed = method.deployed()
    assert isinstance(deployed, DeployedNetwork)
    assert [unit.codes.numel() for unit in deployed.units] == sizes


def test_half_of_the_teacher_s_units_unless_said_otherwise(make_context: MakeContext) -> None:
    method = make_method(make_context("kd_quant"))
    assert isinstance(method, Student)
    hidden = [layer.out_features for layer in weighted_layers(method.context.teacher)[:-1]]
    own = [layer.out_features for layer in weighted_layers(method.origin)[:-1]]
    assert own == [units // 2 for units in hidden]


def test_a_student_as_large_as_the_teacher_is_refused(make_context: MakeContext) -> None:
    with pytest.raises(UserError, match="a student is smaller"):
        make_method(make_context("kd_quant", "method.student_hidden=[64, 32]"))


def test_kd_quant_is_softened_kl_by_numpy(make_context: MakeContext) -> None:
    context = make_context("kd_quant", "method.temperature=3.0")
    method = make_method(context)
    assert isinstance(method, Student)
    method.begin(method.phases()[0])
    x, rows = context.data.train.x[:20], torch.arange(20)
    with torch.no_grad():
        ours, theirs = method.origin(x).double().numpy(), context.teacher(x).double().numpy()
    p, q = (np.exp(z / 3) / np.exp(z / 3).sum(1, keepdims=True) for z in (theirs, ours))
    wanted = 9.0 * (p * (np.log(p) - np.log(q))).sum(1).mean()
    loss = method.objective((x, context.data.train.y[:20], rows))
    assert float(loss.detach()) == pytest.approx(wanted, rel=1e-3, abs=1e-5)


def test_the_float_stage_trains_the_student_and_leaves_the_teacher(
    make_context: MakeContext,
) -> None:
    context = make_context("kd_quant")
    before = [p.clone() for p in context.teacher.parameters()]
    method = make_method(context)
    assert isinstance(method, Student)
    first, last = method.phases()
    assert (first.name, last.name) == ("float", "tune")
    fresh = [p.detach().clone() for p in method.origin.parameters()]
    fit_method(method)
    assert any(
        not torch.equal(a, b) for a, b in zip(fresh, method.origin.parameters(), strict=True)
    )
    assert all(torch.equal(a, b) for a, b in zip(before, context.teacher.parameters(), strict=True))
