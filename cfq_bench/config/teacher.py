"""Settings that the teachers trained at recourse points share."""

from typing import Annotated, ClassVar

from pydantic import Field

from cfq_bench.config.base import NonNegative, Positive, TeacherSettings
from cfq_bench.config.qat import Target


class RecourseTeacherSettings(TeacherSettings):
    """Base of the ``Config`` of teacher objectives that look at recourse points (paper, E.1)."""

    uses_actions: ClassVar[bool] = True

    lr: Positive
    """Adam learning rate, cosine to 0 over `data.fit.teacher_epochs`."""
    weight: NonNegative
    """Weight of the term at the recourse points."""
    target: Target
    """Which class the actions aim at, as for CFQ."""
    steps: Annotated[int, Field(ge=1)]
    """K, projected-gradient steps to a recourse point, in every batch (CFQ's: 3)."""
    step_size: Positive
    """alpha of these steps."""
