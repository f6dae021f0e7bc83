"""Sensitivities of layers in a record are the gradients' norms, one person at a time."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cfq_bench.evaluation.sensitivities import layer_sensitivities
from cfq_bench.evaluation.teacher_recourse import Direction, teacher_recourse
from cfq_bench.methods.base import Context

KAPPA = 0.1


def directions_of(context: Context) -> list[Direction]:
    return teacher_recourse(
        context.settings,
        context.data,
        context.teacher,
        context.actions,
        context.solver,
        context.cache,
        context.runtime,
    )


@pytest.mark.parametrize("blocks", ["false", "true"])
def test_sensitivities_are_mean_gradient_norms(
    blocks: str, make_context: Callable[..., Context]
) -> None:
    context = make_context("fp32", f"quantization.input_blocks={blocks}", "evaluation.max_rows=12")
    direction = directions_of(context)[0]
    found = layer_sensitivities(
        context.teacher,
        context.settings.quantization,
        context.data,
        context.actions,
        direction,
        KAPPA,
    )
    solution = direction.solutions[KAPPA]
    points, target = solution.point[solution.found], direction.target[solution.found]
    network = copy.deepcopy(context.teacher).requires_grad_()  # the teacher itself is frozen
    last = [module for module in network if isinstance(module, nn.Linear)][-1]
    norms = []
    for point, wanted in zip(points, target, strict=True):
        loss = F.cross_entropy(network(point[None]), wanted[None])
        norms.append(float(torch.autograd.grad(loss, last.weight)[0].abs().sum()))
    assert found[-1]["counterfactual"] == pytest.approx(sum(norms) / len(norms), rel=1e-4)
    assert len(found) == (4 if blocks == "true" else 3)
    assert all(isinstance(line["factual"], float) and line["factual"] > 0 for line in found)


def test_without_recourse_there_is_no_counterfactual_sensitivity(
    make_context: Callable[..., Context],
) -> None:
    context = make_context("fp32", "evaluation.max_rows=4")
    direction = directions_of(context)[0]
    solution = direction.solutions[KAPPA]
    solution.status.fill_(1)
    found = layer_sensitivities(
        context.teacher,
        context.settings.quantization,
        context.data,
        context.actions,
        direction,
        KAPPA,
    )
    assert {line["counterfactual"] for line in found} == {None}
