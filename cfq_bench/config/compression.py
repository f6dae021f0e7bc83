"""Settings of methods that compress the network before they quantize it."""

from typing import Annotated, Literal

from pydantic import Field

from cfq_bench.config.base import Positive
from cfq_bench.config.qat import QATSettings


class FloatStageSettings(QATSettings):
    """A float network of the method's own, trained first and quantized then."""

    float_share: Annotated[float, Field(ge=0.0, lt=1.0)]
    """Share of the optimizer steps that train the float network; the rest trains the quantized."""
    float_lr: Positive
    """Adam learning rate of these steps, cosine to 0."""


class PruneSettings(FloatStageSettings):
    """A pruned copy of the teacher."""

    prune: Literal["neurons", "weights"]
    """neurons: whole hidden units (structured); weights: single weights of every layer."""
    prune_fraction: Annotated[float, Field(gt=0.0, lt=1.0)]
    """Share of each layer's hidden units or weights that is removed; one unit always stays."""


class StudentSettings(FloatStageSettings):
    """A smaller network of the teacher's kind."""

    student_hidden: list[Annotated[int, Field(ge=1)]] | None
    """Units of each hidden layer of the student, an MLP; null: half of the teacher's units or
    channels."""
