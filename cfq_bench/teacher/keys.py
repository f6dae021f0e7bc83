"""Keys of what is computed once and cached: a teacher, and what a solver answers on it."""

from typing import Any

import torch

from cfq_bench.actions.space import ActionSpace
from cfq_bench.codebase import entry_code
from cfq_bench.config.settings import Settings
from cfq_bench.data.dataset import Dataset

TRAINING = "cfq_bench.teacher.fit"
ACTIONS = "cfq_bench.actions.make"
"""Modules where the computing of a teacher, and of what it may look at, begins."""


def teacher_key(settings: Settings, data: Dataset, space: ActionSpace) -> dict[str, Any]:
    """Everything that decides a teacher, as JSON data.

    The action set is part of it only where the teacher's objective looks at recourse points.
    """
    backbone, teacher = settings.backbone.module, settings.teacher.module
    roots = (TRAINING, ACTIONS) if settings.teacher.uses_actions else (TRAINING,)
    key = {
        "code": entry_code(roots, backbone, teacher),
        "data": data.fingerprint,
        "fit": settings.data.fit.model_dump(mode="json", exclude={"epochs"}),
        "backbone": settings.backbone.model_dump(mode="json", exclude={"name"}),
        "teacher": settings.teacher.model_dump(mode="json", exclude={"name"}),
        "seed": settings.seed,
    }
    return {**key, "actions": space.fingerprint} if settings.teacher.uses_actions else key


def recourse_key(
    settings: Settings, data: Dataset, space: ActionSpace, device: torch.device, module: str
) -> dict[str, Any]:
    """What every answer of the solver on a teacher depends on, as JSON data.

    Args:
        settings: of the run.
        data: what the teacher was trained on.
        space: the action space.
        device: where the solver computes.
        module: the module that asks it.
    """
    plugins = (settings.backbone.module, settings.teacher.module, settings.solver.module)
    return {
        **teacher_key(settings, data, space),
        "code": entry_code((TRAINING, ACTIONS, module), *plugins),
        "actions": space.fingerprint,
        "solver": settings.solver.model_dump(mode="json", exclude={"name"}),
        "device": device.type,
    }
