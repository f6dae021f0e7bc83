"""Keys of what is computed once and cached: a teacher, and what a solver answers on it."""

from typing import Any

import torch

from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.settings import Settings
from cfq_bench.data.dataset import Dataset


def teacher_key(settings: Settings, data: Dataset, space: ActionSpace) -> dict[str, Any]:
    """Everything that decides a teacher, as JSON data.

    The action set is part of it only where the teacher's objective looks at recourse points.
    """
    key = {
        "data": data.fingerprint,
        "fit": settings.data.fit.model_dump(mode="json", exclude={"epochs"}),
        "backbone": settings.backbone.model_dump(mode="json", exclude={"name"}),
        "teacher": settings.teacher.model_dump(mode="json", exclude={"name"}),
        "seed": settings.seed,
    }
    return {**key, "actions": space.fingerprint} if settings.teacher.uses_actions else key


def recourse_key(
    settings: Settings, data: Dataset, space: ActionSpace, device: torch.device
) -> dict[str, Any]:
    """What every answer of the solver on a teacher depends on, as JSON data."""
    return {
        **teacher_key(settings, data, space),
        "actions": space.fingerprint,
        "solver": settings.solver.model_dump(mode="json", exclude={"name"}),
        "device": device.type,
    }
