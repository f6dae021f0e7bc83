"""Recourse points of a model that is still being trained."""

import torch
from torch import Tensor

from cfq_bench.actions.outcome import Model
from cfq_bench.actions.space import ActionSpace
from cfq_bench.actions.teacher_actions import RecoursePoints, choose_targets, teacher_actions
from cfq_bench.config.teacher import RecourseTeacherSettings


def present_points(
    model: Model, space: ActionSpace, x: Tensor, config: RecourseTeacherSettings
) -> RecoursePoints:
    """K-step actions on the model as it is now, without gradient to its parameters.

    Args:
        model: inputs to logits.
        space: the action space.
        x: (B, ...) factual inputs.
        config: target policy, K and alpha.

    Returns:
        One point for each row that the target policy wants an action for.
    """
    with torch.no_grad():
        predicted = model(x).argmax(1)
    _, takes_part = choose_targets(predicted, config.target)
    return teacher_actions(
        model,
        space,
        x[takes_part],
        config.target,
        steps=config.steps,
        step_size=config.step_size,
        keep="last",
    )
