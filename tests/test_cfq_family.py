"""Moved recourse points (noise, neighbours) and the worst group's term."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cfq_bench.actions.outcome import target_margin
from cfq_bench.actions.teacher_actions import RecoursePoints
from cfq_bench.errors import UserError
from cfq_bench.methods.base import Context, fit_method, make_method
from cfq_bench.methods.cfq import CFQ
from cfq_bench.methods.cfq_group import CFQGroup, worst_mean
from cfq_bench.methods.points import neighbours, noisy

MakeContext = Callable[..., Context]


def started(make_context: MakeContext, name: str, *overrides: str) -> CFQ:
    method = make_method(make_context(name, "budget.avg_bits=4.0", *overrides))
    assert isinstance(method, CFQ)
    method.begin(method.phases()[-1])
    return method


def all_points(method: CFQ) -> tuple[RecoursePoints, Tensor]:
    points = method.all_points()
    return points, method.context.actions.origin(method.context.data.train.x[points.rows])


# --- noise ---


@pytest.mark.parametrize("sigma", [0.05, 1.0])
def test_noisy_points_stay_in_the_action_set_and_ask_the_teacher_again(
    sigma: float, make_context: MakeContext
) -> None:
    method = started(make_context, "cfq")
    points, origin = all_points(method)
    space, teacher = method.context.actions, method.context.teacher
    moved = noisy(points, teacher, space, origin, sigma, torch.Generator().manual_seed(1))
    assert not torch.equal(moved.point, points.point)
    assert not bool(space.violations(origin, moved.point).any())
    assert torch.equal(moved.inputs, space.to_input(moved.point))
    assert torch.equal(moved.logits, teacher(moved.inputs))
    assert torch.equal(moved.valid, target_margin(moved.logits, moved.target) > 0)
    assert torch.equal(moved.rows, points.rows)
    assert torch.equal(moved.target, points.target)


def test_noise_of_sigma_0_moves_nothing(make_context: MakeContext) -> None:
    method = started(make_context, "cfq")
    points, origin = all_points(method)
    context = method.context
    moved = noisy(points, context.teacher, context.actions, origin, 0.0, torch.Generator())
    assert torch.equal(moved.point, points.point)
    assert torch.equal(moved.valid, points.valid)


def test_without_noise_or_neighbours_the_run_is_bitwise_the_clean_one(
    make_context: MakeContext,
) -> None:
    fits = []
    for overrides in ([], ["method.noise=0.0", "method.radius=0.5"], ["method.noise=0.2"]):
        context = make_context("cfq", "budget.avg_bits=4.0", *overrides)
        method = make_method(context)
        fit_method(method)
        with torch.no_grad():
            fits.append(method.deployed()(context.data.test.x))
    assert torch.equal(fits[0], fits[1])
    assert not torch.equal(fits[0], fits[2])


# --- neighbours ---


@pytest.mark.parametrize("radius", [0.0, 0.1, 0.5, 2.0])
def test_neighbours_lie_in_the_ball_and_in_the_action_set(
    radius: float, make_context: MakeContext
) -> None:
    method = started(make_context, "cfq")
    points, origin = all_points(method)
    space, teacher = method.context.actions, method.context.teacher
    near = neighbours(points, teacher, space, origin, radius, torch.Generator().manual_seed(2))
    distance = (near.point - points.point).norm(dim=1)
    assert bool((distance <= radius).all())
    assert not bool(space.violations(origin, near.point).any())
    assert torch.equal(near.logits, teacher(near.inputs))
    assert bool((distance > 0).any()) == (radius > 0)


def test_each_point_brings_its_neighbours(make_context: MakeContext) -> None:
    alone = started(make_context, "cfq")
    more = started(make_context, "cfq", "method.neighbours=3", "method.radius=0.5")
    train, rows = alone.context.data.train, torch.arange(16)
    few, many = alone._points_of(train.x[rows], rows), more._points_of(train.x[rows], rows)
    assert len(many.target) == 4 * len(few.target)
    assert torch.equal(many.point[: len(few.target)], few.point)
    assert torch.equal(many.rows, few.rows.repeat(4))


# --- the worst group ---


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 4))
def test_the_worst_mean_is_numpy_s(seed: int, size: int, groups: int) -> None:
    draw = np.random.default_rng(seed)
    each, counts = draw.random(size), draw.integers(0, 2, size)
    group = draw.integers(0, groups, size)
    means = [
        each[(group == g) & (counts == 1)].mean()
        for g in range(groups)
        if ((group == g) & (counts == 1)).any()
    ]
    ours = worst_mean(
        torch.tensor(each), torch.tensor(counts, dtype=torch.float64), torch.tensor(group), groups
    )
    assert float(ours) == pytest.approx(max(means, default=0.0), abs=1e-12)


@pytest.mark.parametrize("valid_only", [True, False])
def test_group_cfq_is_the_task_and_the_worst_group_by_numpy(
    valid_only: bool, make_context: MakeContext
) -> None:
    flag = f"method.valid_only={valid_only}"
    method = started(make_context, "cfq_group", flag, "method.eta=2.0")
    assert isinstance(method, CFQGroup)
    train, rows = method.context.data.train, torch.arange(64)
    x, y = train.x[rows], train.y[rows]
    loss = float(method.objective((x, y, rows)).detach())
    points = method._points_of(x, rows)
    with torch.no_grad():
        logits = method(torch.cat([x, points.inputs])).double()
    logp = torch.log_softmax(logits, 1).numpy()
    task = -logp[np.arange(64), y.numpy()].mean()
    each = -logp[64:][np.arange(len(points.target)), points.target.numpy()]
    first = method.context.settings.data.protected[0]
    names = method.context.data.train_groups[first].to_numpy()[points.rows.numpy()]
    counted = points.valid.numpy() | (not valid_only)
    means = [each[counted & (names == g)].mean() for g in set(names[counted])]
    assert len(means) > 1
    assert loss == pytest.approx(task + 2.0 * max(means), rel=1e-4)


def test_an_unknown_group_is_named(make_context: MakeContext) -> None:
    with pytest.raises(UserError, match="shoe_size"):
        make_method(make_context("cfq_group", "method.group=shoe_size"))


def test_groups_of_train_rows_are_the_raw_ones(make_context: MakeContext) -> None:
    data = make_context("cfq_group").data
    assert len(data.train_groups) == len(data.train)
    assert len(data.test_groups) == len(data.test)
    assert list(data.train_groups.columns) == list(data.test_groups.columns)
