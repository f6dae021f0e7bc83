"""Points of a sweep's space, and the runs that each stands for."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import Settings
from cfq_bench.errors import UserError
from cfq_bench.files import canonical_json
from cfq_bench.record.identity import begin, made_by
from cfq_bench.record.record import run_id
from cfq_bench.sweeps.settings import SweepSettings

Split = Literal["validation", "test"]
Values = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run of a point. It can be sent to another process, as `Settings` cannot.

    Attributes:
        values: the point, by setting.
        seed: the run's seed.
        split: the rows it is evaluated on.
    """

    values: Values
    seed: int
    split: Split


@dataclass(frozen=True)
class Space:
    """A sweep with the folder that its names are looked up in.

    Attributes:
        sweep: the sweep.
        conf_dir: the user's own folder of YAML files.
        data_dir: the folder of raw files.
    """

    sweep: SweepSettings
    conf_dir: Path | None = None
    data_dir: Path | None = None
    _configs: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    def settings(self, run: Run) -> Settings:
        """The settings of one run.

        Raises:
            UserError: the settings do not allow this point.
        """
        sweep = self.sweep
        overrides = {"method": sweep.method, "data": sweep.data, **sweep.overrides, **run.values}
        lines = [
            f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in overrides.items()
        ]
        lines += [f"seed={run.seed}", f"evaluation.split={run.split}"]
        return load_settings(overrides=lines, conf_dir=self.conf_dir)

    def config(self, run: Run) -> dict[str, Any]:
        """The whole resolved settings of one run, as JSON data."""
        key = canonical_json(run.values)
        if key not in self._configs:  # resolving settings takes 30 ms, and seeds share them
            self._configs[key] = self.settings(run).model_dump(mode="json")
        shared = self._configs[key]
        evaluation = {**shared["evaluation"], "split": run.split}
        return {**shared, "seed": run.seed, "evaluation": evaluation}

    def run_id(self, run: Run) -> str:
        """The name of its record."""
        return run_id(self.config(run))

    def runs(self, values: Values) -> list[Run]:
        """A point's runs on validation rows, one a seed."""
        return [Run(values, seed, "validation") for seed in self.sweep.seeds]

    def test_runs(self, values: Values) -> list[Run]:
        """The chosen point's runs on test rows."""
        return [Run(values, seed, "test") for seed in self.sweep.on_test]

    def run_ids(self, values: Values) -> list[str]:
        """The ids of `runs`: what makes two points the same."""
        return [self.run_id(run) for run in self.runs(values)]

    def grid(self) -> list[Values]:
        """Every combination of the lists, the last key fastest.

        Raises:
            UserError: the settings do not allow one of the points, or two are the same run.
        """
        lists = {key: axis.values or [] for key, axis in self.sweep.space.items()}
        points = [
            dict(zip(lists, combination, strict=True))
            for combination in itertools.product(*lists.values())
        ]
        seen: dict[str, Values] = {}
        for values in points:
            first = seen.setdefault(self.run_ids(values)[0], values)
            if first is not values:
                raise UserError(
                    f"the grid has the same run twice: {text(first)} and {text(values)}"
                )
        return points

    def study_name(self) -> str:
        """The sweep's name and a hash of all that a point's value depends on, code and data too.

        A changed sweep file is another study, beside the old one in the same journal.
        """
        every = self.sweep.model_dump(mode="json", exclude={"trials", "test_seeds", "pruning"})
        digest = hashlib.sha256(canonical_json([every, *self._made_by]).encode()).hexdigest()[:8]
        return f"{self.sweep.name}-{digest}"

    @cached_property
    def _made_by(self) -> tuple[str, dict[str, str] | None]:
        """Code and data, as a point at the ends of all lists and ranges has them.

        Points of other methods or data sets have others: their records say so.
        """
        ends = {
            key: axis.low if axis.values is None else axis.values[0]
            for key, axis in self.sweep.space.items()
        }
        try:
            config = self.config(Run(ends, self.sweep.seeds[0], "validation"))
        except UserError:
            return "", None  # this corner is no point
        made = made_by(config, begin(config), self.data_dir)
        return made.code, made.data


def text(values: Mapping[str, Any]) -> str:
    """A point as overrides.

    >>> text({"method.eta": 0.5, "method.valid": "hard"})
    'method.eta=0.5 method.valid=hard'
    """
    return " ".join(f"{key}={_plain(value)}" for key, value in values.items())


def lines(runs: Iterable[Run]) -> list[str]:
    """Runs as people read them."""
    return [f"{text(run.values)} seed={run.seed}" for run in runs]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value).replace(" ", "")
