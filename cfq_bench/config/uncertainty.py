"""Settings of U(f_q), the networks that a deployment of f_q may turn out to be (paper, E.2)."""

from typing import Annotated

from pydantic import Field

from cfq_bench.config.base import Frozen


class UncertaintySettings(Frozen):
    """What differs between two deployments of the same weight codes."""

    band: Annotated[float, Field(ge=0.0, lt=1.0)]
    """Every weight step, activation step and threshold is multiplied by a factor in 1 ± this."""
    stochastic_rounding: bool
    """Activations are rounded by a draw per hidden unit instead of to the nearest code."""
    calibration_rows: Annotated[int, Field(ge=0)]
    """Train rows in the other batch on which activations are calibrated; 0: the same batch."""
