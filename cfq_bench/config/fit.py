"""Training length, which tables and images have in common."""

from typing import Annotated

from pydantic import Field

from cfq_bench.config.base import Frozen, NonNegative


class FitSettings(Frozen):
    """Training length, which depends on the data set's size and on nothing else."""

    batch_size: Annotated[int, Field(ge=1)]
    """Rows per optimizer step."""
    teacher_epochs: Annotated[int, Field(ge=1)]
    """Most epochs of the teacher; early stopping may end it sooner."""
    epochs: Annotated[int, Field(ge=1)]
    """Epochs of a quantization method with `epoch_factor` 1."""
    weight_decay: NonNegative
    """L2 of the teacher's weights."""
