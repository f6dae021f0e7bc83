"""What a sweep is: a base configuration, a space around it, and what makes a point the best."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from cfq_bench.config.base import Frozen, Named, NonNegative
from cfq_bench.config.explain import explain
from cfq_bench.config.overrides import refuse_label
from cfq_bench.config.yaml import parse_yaml, read_named, read_yaml
from cfq_bench.errors import UserError, unknown_name
from cfq_bench.evaluation.keys import METRICS, metric_info

Number = int | float
Seeds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]

OURS = ("seed", "evaluation.split")
"""Settings that the sweep itself sets in every run."""
WATCHED = ("task/acc", "recourse/vd", "recourse/vd_adverse", "recourse/boundary_error")
"""Metrics that are cheap enough to be taken while a method trains."""


class Axis(Frozen):
    """The values that one setting may take: a list of them, or a range for a search."""

    values: Annotated[list[Any], Field(min_length=1)] | None = None
    """A YAML list in place of the mapping means these."""
    low: Number | None = None
    high: Number | None = None
    """Ends of the range, both included; two whole numbers give whole numbers."""
    log: bool = False
    """Draw evenly in the logarithm."""
    step: Number | None = None
    """Values are low + a multiple of this."""

    @model_validator(mode="before")
    @classmethod
    def _list_means_values(cls, value: object) -> object:
        return {"values": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _list_or_range(self) -> "Axis":
        if self.values is not None:
            if self.model_fields_set != {"values"}:
                raise ValueError("give a list, or low and high, not both")
            texts = [json.dumps(value) for value in self.values]
            for index, value in enumerate(self.values):
                if value in self.values[:index] or texts[index] in texts[:index]:
                    raise ValueError(f"the value {value!r} is given twice")
            return self
        if self.low is None or self.high is None:
            raise ValueError("give a list of values, or low and high")
        if not self.low < self.high:
            raise ValueError(f"low must be less than high, got {self.low:g} and {self.high:g}")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError("log needs low above 0 and takes no step")
        if self.step is not None and self.step <= 0:
            raise ValueError(f"step must be above 0, got {self.step:g}")
        return self


class Bound(Frozen):
    """What a metric must keep to for a point to be chosen."""

    at_least: float | None = None
    at_most: float | None = None
    within: NonNegative | None = None
    """Most distance from 0, in the mean over seeds of the absolute value."""

    @model_validator(mode="after")
    def _not_empty(self) -> "Bound":
        if not self.model_fields_set:
            raise ValueError("give at_least, at_most or within")
        return self


class PruningSettings(Frozen):
    """End a trial that is worse than the median of the earlier ones at the same place."""

    startup_trials: Annotated[int, Field(ge=1)]
    """Trials that run to their end before any is pruned."""
    reports: Annotated[int, Field(ge=1)]
    """Times that the objective is taken within a training, beside its end."""


class SweepSettings(Named):
    """One sweep file. Every run of it is a run of ``cfq-bench run`` with these overrides."""

    method: str
    data: str
    overrides: dict[str, Any] = Field(default_factory=dict)
    """Settings that all points share: ``budget.avg_bits: 3.5``."""
    space: Annotated[dict[str, Axis], Field(min_length=1)]
    """Settings that vary, and the values that they take."""
    sampler: Literal["grid", "tpe"] = "grid"
    """grid: every combination of the lists; tpe: Optuna's search."""
    trials: Annotated[int, Field(ge=1)] | None = None
    """sampler=tpe: points to try; raise it to search on."""
    startup_trials: Annotated[int, Field(ge=1)] = 10
    """sampler=tpe: points drawn at random before the search models what it has seen."""
    seed: Annotated[int, Field(ge=0)] = 0
    """sampler=tpe: what its random draws derive from."""
    pruning: PruningSettings | None = None
    """sampler=tpe with one objective: end hopeless trials early; null: never."""
    objectives: list[str] = Field(default=["recourse/boundary_error"], min_length=1)
    """Metrics to improve, in the direction that is better for each; the first decides."""
    constraints: dict[str, Bound] = Field(default_factory=dict)
    """Metrics and what they must keep to."""
    budget_tolerance: NonNegative | None = 0.05
    """Most relative distance of the deployed bits from budget.avg_bits; null: any."""
    seeds: Seeds
    """A point's value is the mean over runs with these seeds, on their validation rows."""
    test_seeds: Seeds | None = None
    """Seeds of the chosen point on test rows; default: `seeds`."""

    @field_validator("objectives", "seeds", "test_seeds")
    @classmethod
    def _no_repeats(cls, value: list[Any] | None) -> list[Any] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError(f"an entry is given twice: {value}")
        return value

    @model_validator(mode="after")
    def _parts_fit(self) -> "SweepSettings":
        for key in (*self.overrides, *self.space):
            if key in OURS:
                raise ValueError(f"{key} is set by the sweep: use seeds and test_seeds")
        for key in self.space:
            if key in self.overrides:
                raise ValueError(f"{key} is both in space and in overrides: leave out one")
        self._sampler_fits()
        return self

    def _sampler_fits(self) -> None:
        if self.sampler == "grid":
            for key, axis in self.space.items():
                if axis.values is None:
                    raise ValueError(f"space.{key}: a grid needs a list; ranges are for a search")
            if self.trials is not None or self.pruning is not None:
                raise ValueError("trials and pruning are for sampler: tpe")
        elif self.trials is None:
            raise ValueError("sampler: tpe needs trials")
        if self.pruning is not None and (
            len(self.objectives) > 1 or self.objectives[0] not in WATCHED
        ):
            raise ValueError(f"pruning needs one objective, one of {', '.join(WATCHED)}")

    @property
    def directions(self) -> list[Literal["minimize", "maximize"]]:
        """Where each objective is better, in Optuna's words."""
        better = [metric_info(key).higher_is_better for key in self.objectives]
        return ["maximize" if higher else "minimize" for higher in better]

    @property
    def on_test(self) -> list[int]:
        """The seeds of the chosen point on test rows."""
        return self.seeds if self.test_seeds is None else self.test_seeds


def load_sweep(path: Path, overrides: Iterable[str] = ()) -> SweepSettings:
    """Read a sweep file.

    Args:
        path: the YAML file; its stem names the sweep.
        overrides: ``key=value`` lines that win over the file's own overrides.

    Raises:
        UserError: an unknown key or metric, a wrong type, parts that do not fit.
    """
    raw = read_yaml(path)
    if {"parameters", "command"} & set(raw):
        raise UserError(f"{path} is a W&B sweep: launch it with --wandb")
    try:
        sweep = SweepSettings.model_validate(read_named(path, path.stem))
        if overrides := list(overrides):
            merged = {**sweep.overrides, **dict(_parsed(text) for text in overrides)}
            changed = {**sweep.model_dump(exclude_unset=True), "overrides": merged}
            sweep = SweepSettings.model_validate(changed)
    except ValidationError as error:
        raise explain(error, SweepSettings, "", str(path), ()) from None
    for name in (*sweep.overrides, *sweep.space):
        refuse_label(tuple(name.split(".")))
    for key in sweep.objectives:
        _refuse_unknown(key, path)
        if metric_info(key).higher_is_better is None:
            raise UserError(
                f"{path}: neither direction of {key} is better: constrain it (within: 0.01)"
            )
    for key in sweep.constraints:
        _refuse_unknown(key, path)
    return sweep


def _parsed(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise UserError(f"{text!r} is not an override: write key=value, such as data=german")
    return key.strip(), parse_yaml(value, f"the override {text!r}")


def _refuse_unknown(key: str, path: Path) -> None:
    if key.split("@")[0] not in METRICS:
        raise unknown_name("metric", key, METRICS, f"in {path}")
