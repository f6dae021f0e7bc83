"""Settings of CFQ and of the methods that extend it."""

from typing import Annotated, Literal

from pydantic import Field

from cfq_bench.config.base import Fraction, NonNegative, Positive
from cfq_bench.config.qat import QATSettings, Target


class PointSettings(QATSettings):
    """Where a method's recourse points come from."""

    target: Target
    """Which class the actions aim at."""
    source: Literal["cached", "on_the_fly", "pool"]
    """Actions: K steps once before training, K steps in every batch, or minimal-cost ones."""
    steps: Annotated[int, Field(ge=1)]
    """K, projected-gradient steps of cached and on_the_fly (paper: 1 to 3)."""
    step_size: Positive
    """alpha of these steps."""
    early_stop: bool
    """A row stops at its first valid iterate instead of going all K steps."""
    fraction: Annotated[Fraction, Field(gt=0.0)]
    """Share of each batch that carries recourse terms."""
    pool_size: Annotated[int, Field(ge=1)]
    """source=pool: train rows that are solved."""
    pool_kappas: Annotated[list[NonNegative], Field(min_length=1)]
    """source=pool: margins, dealt out to the rows in turn."""
    noise: NonNegative
    """sigma of the Gaussian noise on the actions, anew in every batch, standardized (Table 19)."""
    neighbours: Annotated[int, Field(ge=0)]
    """Further points around each one that carry the same terms (0 in the paper)."""
    radius: NonNegative
    """rho of the ball that the neighbours are drawn from, in standardized units."""


class CFQSettings(PointSettings):
    """Base of the ``Config`` of CFQ and of the methods that extend it."""

    task: NonNegative
    """Weight of the cross-entropy on the labels at x."""
    distill: NonNegative
    """Weight of the KL to the teacher at x (0 in the paper)."""
    eta: NonNegative
    """Weight of L_valid at the recourse points (Section 4.2)."""
    valid: Literal["hard", "soft"]
    """L_valid: hard is the cross-entropy with the target, soft the KL to the teacher there."""
    valid_only: bool
    """Leave out points where the teacher itself does not give the target."""
    beta: NonNegative
    """Weight of L_hinge (Appendix B)."""
    gamma: Positive
    """Margin that L_hinge asks for, in logits."""
    match_direction: NonNegative
    """alpha_1 of L_match: l1 distance of the quantized network's K-step action to the teacher's."""
    match_cost: NonNegative
    """alpha_2 of L_match: difference of their costs."""
