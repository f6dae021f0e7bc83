"""Teachers trained at their own recourse points, and the keys that they are cached under."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.actions.outcome import target_margin
from cfq_bench.backbones.base import Backbone
from cfq_bench.config.loader import load_settings
from cfq_bench.methods.base import Context
from cfq_bench.teacher.base import TeacherContext
from cfq_bench.teacher.fit import _fresh
from cfq_bench.teacher.keys import recourse_key, teacher_key
from cfq_bench.teacher.points import present_points
from cfq_bench.teacher.r_consistency import RConsistency, disagreement
from cfq_bench.teacher.r_margin import RMargin, hinge

pytestmark = pytest.mark.slow

MakeContext = Callable[..., Context]
Batch = tuple[Tensor, Tensor, Tensor]

BRIEF = "data.fit.teacher_epochs=2"
"""For what does not ask how good a teacher is."""


def teacher_context(context: Context) -> TeacherContext:
    settings, data = context.settings, context.data

    def sibling(number: int) -> Backbone:
        return _fresh(settings, data, number)

    return TeacherContext(_fresh(settings, data), context.actions, sibling, 0.0, 10)


def batch(context: Context, size: int = 64) -> Batch:
    train = context.data.train
    return train.x[:size], train.y[:size], torch.arange(size)


def mean_margin(context: Context) -> float:
    """Of the teacher at its own K-step recourse points, over all train rows."""
    config: Any = load_settings("fp32", "german", overrides=["teacher=r_margin"]).teacher
    points = present_points(context.teacher, context.actions, context.data.train.x, config)
    return float(target_margin(points.logits, points.target).mean())


# --- R-Margin ---


def test_the_hinge_by_hand() -> None:
    # gamma 1: shortfalls 0.75, 0, 3, and 0 exactly at gamma.
    margin = torch.tensor([0.25, 2.0, -2.0, 1.0])
    assert float(hinge(margin, 1.0)) == pytest.approx((0.75 + 0.0 + 3.0 + 0.0) / 4)
    assert float(hinge(torch.zeros(0), 1.0)) == 0.0


@pytest.mark.parametrize("valid_only", [False, True])
def test_r_margin_is_its_formula(valid_only: bool, make_context: MakeContext) -> None:
    context = make_context(
        "fp32", "teacher=r_margin", f"teacher.valid_only={valid_only}", "teacher.weight=3.0"
    )
    objective = RMargin(context.settings.teacher, teacher_context(context))
    objective.network.load_state_dict(context.teacher.state_dict())
    x, y, rows = batch(context)
    points = present_points(objective, context.actions, x, context.settings.teacher)
    margin = target_margin(context.teacher(points.inputs), points.target).numpy()
    if valid_only:
        margin = margin[margin > 0]
    gamma = context.settings.teacher.gamma
    wanted = F.cross_entropy(context.teacher(x), y) + 3.0 * np.maximum(0, gamma - margin).mean()
    assert float(objective.loss((x, y, rows)).detach()) == pytest.approx(float(wanted), rel=1e-5)


def test_points_lie_in_the_action_set_and_follow_the_model(make_context: MakeContext) -> None:
    context = make_context("fp32", "teacher=r_margin")
    own = teacher_context(context).network
    x, config = context.data.train.x[:64], context.settings.teacher
    now = present_points(own, context.actions, x, config)
    later = present_points(context.teacher, context.actions, x, config)
    assert not bool(context.actions.violations(x[now.rows], now.point).any())
    assert not torch.equal(now.point, later.point)
    assert not now.point.requires_grad


def test_r_margin_raises_the_margin_at_recourse_points(make_context: MakeContext) -> None:
    length = "data.fit.teacher_epochs=40"
    none = make_context("fp32", "teacher=r_margin", "teacher.weight=0.0", length)
    some = make_context("fp32", "teacher=r_margin", length)
    assert mean_margin(some) > mean_margin(none) + 0.3


# --- R-Consistency ---


def test_disagreement_is_the_mean_variance_of_the_logits() -> None:
    logits = torch.randn((4, 7, 2), generator=torch.Generator().manual_seed(0))
    assert float(disagreement(logits)) == pytest.approx(logits.numpy().var(axis=0).mean(), rel=1e-5)
    assert float(disagreement(torch.zeros((3, 0, 2)))) == 0.0


def test_identical_members_do_not_disagree(make_context: MakeContext) -> None:
    context = make_context("fp32", "teacher=r_consistency", "teacher.weight=100.0", BRIEF)
    objective = RConsistency(context.settings.teacher, teacher_context(context))
    x, y, rows = batch(context)
    apart = float(objective.loss((x, y, rows)).detach())
    for member in objective.members():
        member.load_state_dict(context.teacher.state_dict())
    alike = float(objective.loss((x, y, rows)).detach())
    assert alike == pytest.approx(float(F.cross_entropy(context.teacher(x), y)), abs=1e-5)
    assert apart > alike


def test_members_differ_and_the_teacher_is_the_first(make_context: MakeContext) -> None:
    context = make_context("fp32", "teacher=r_consistency", BRIEF)
    inner = teacher_context(context)
    members = RConsistency(context.settings.teacher, inner).members()
    assert len(members) == context.settings.teacher.members
    assert members[0] is inner.network
    first = [next(member.parameters()) for member in members]
    assert not any(torch.equal(first[0], other) for other in first[1:])


def test_the_distilled_teacher_is_no_member_and_is_near_the_average(
    make_context: MakeContext,
) -> None:
    context = make_context("fp32", "teacher=r_consistency", "teacher.deploy=distilled", BRIEF)
    inner = teacher_context(context)
    objective = RConsistency(context.settings.teacher, inner)
    assert all(member is not inner.network for member in objective.members())
    assert len(objective.members()) == context.settings.teacher.members
    x, y, rows = batch(context)
    then = objective.then()
    assert then is not None
    apart = float(then.loss((x, y, rows)).detach())
    assert apart > 0.0
    for member in objective.members():
        member.load_state_dict(inner.network.state_dict())
    assert float(then.loss((x, y, rows)).detach()) == pytest.approx(0.0, abs=1e-6)
    assert then.then() is None


# --- keys ---


def changed_keys() -> Iterator[tuple[str, bool]]:
    yield "standard", False
    yield "r_margin", True
    yield "r_consistency", True


@pytest.mark.parametrize(("name", "depends"), list(changed_keys()))
def test_a_teacher_s_key_names_the_action_set_where_it_matters(
    name: str, depends: bool, make_context: MakeContext
) -> None:
    paper = make_context("fp32", f"teacher={name}", BRIEF)
    strict = make_context("fp32", f"teacher={name}", "actions=german/strict", BRIEF)
    keys = [teacher_key(one.settings, one.data, one.actions) for one in (paper, strict)]
    assert (keys[0] != keys[1]) == depends
    answers = [
        recourse_key(
            one.settings, one.data, one.actions, torch.device("cpu"), "cfq_bench.methods.base"
        )
        for one in (paper, strict)
    ]
    assert answers[0] != answers[1]


def test_the_standard_teacher_s_key_holds_what_it_depends_on(make_context: MakeContext) -> None:
    context = make_context("fp32")
    key = teacher_key(context.settings, context.data, context.actions)
    assert set(key) == {"code", "data", "fit", "backbone", "teacher", "seed"}
    assert "lr" in key["teacher"]
