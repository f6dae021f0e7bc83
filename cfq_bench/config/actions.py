"""What a person may do: the settings of action sets."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from cfq_bench.config.base import Fraction, Frozen, Named, Positive

Direction = Literal["immutable", "any", "increase_only", "decrease_only"]
CostName = Literal["weighted_l1", "weighted_l2", "mixed"]


class FeatureAction(Frozen):
    """What a person may do to one feature, for example ``{kind: any, low: 20, high: 60}``."""

    kind: Direction
    low: float | None = None
    """Least reachable raw value; default: the preset's train percentile."""
    high: float | None = None
    """Greatest reachable raw value; default: the preset's train percentile."""
    low_percentile: float | None = None
    """The same as a train percentile of this feature in [0, 1], in place of `low`."""
    high_percentile: float | None = None
    """The same as a train percentile of this feature in [0, 1], in place of `high`."""
    step: Positive | None = None
    """Reachable raw values are multiples of this, in the feature's unit, and the factual itself;
    default: whole numbers of integers and ordinals, any value of numeric features."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _ends(self) -> "FeatureAction":
        for end in ("low", "high"):
            share = getattr(self, f"{end}_percentile")
            if share is None:
                continue
            if not 0.0 <= share <= 1.0:
                raise ValueError(
                    f"{end}_percentile {share:g} is not in [0, 1]: 0.05 is the 5th percentile"
                )
            if getattr(self, end) is not None:
                raise ValueError(
                    f"{end} and {end}_percentile name the same end: give a raw value or a train "
                    "percentile, such as {kind: any, low_percentile: 0.05, high_percentile: 0.9}"
                )
        _refuse_crossed(self.low, self.high, "")
        _refuse_crossed(self.low_percentile, self.high_percentile, "_percentile")
        return self


def _refuse_crossed(low: float | None, high: float | None, suffix: str) -> None:
    if low is not None and high is not None and low > high:
        raise ValueError(f"low{suffix} {low} is above high{suffix} {high}")


class PercentileBounds(Frozen):
    """Default reach of numeric features, as percentiles of the train rows in [0, 1]."""

    low: Fraction
    high: Fraction

    @model_validator(mode="after")
    def _ordered(self) -> "PercentileBounds":
        _refuse_crossed(self.low, self.high, "")
        return self


class ActionSettings(Named):
    """The action set A(x): what may change, how far, how many features, at which cost."""

    max_features: Annotated[int, Field(ge=1)] | None
    """At most this many features change at once (k); null: any number."""
    bounds: PercentileBounds
    gamma: Positive
    """Scale of each actionable interval around the factual (Table 25)."""
    regime: str | None = None
    """Which of Table 25's regimes set `max_features` and `gamma`; null: none did."""
    grid: bool
    """Integers and ordinals stay whole, and features with a step on their multiples; false relaxes
    both (side-by-side studies only)."""
    cost: CostName
    """Cost of an action on standardized columns; a category swap costs 1 under l1."""
    features: dict[str, FeatureAction]


class RegimeSettings(Named):
    """One of Table 25's regimes: how much may change, on top of any action set."""

    max_features: Annotated[int, Field(ge=1)]
    """k; a table with fewer features has all of them."""
    gamma: Positive
    """Scale of each actionable interval around the factual."""
