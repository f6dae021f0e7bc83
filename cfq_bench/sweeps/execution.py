"""Runs of a sweep that have no record yet, shared among processes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfq_bench.record.identity import Judge
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from cfq_bench.sweeps.points import Run, Space, Values
from cfq_bench.sweeps.scores import Score, score
from cfq_bench.sweeps.study import add_point, alone, open_study
from cfq_bench.sweeps.workers import POLL_S, claim
from cfq_bench.tracking.mode import Mode

if TYPE_CHECKING:
    from cfq_bench.experiment import Options


@dataclass(frozen=True)
class Place:
    """Where a sweep reads, writes and reports; it can be sent to another process.

    Attributes:
        results_dir: records go to ``runs`` below it, the study to ``sweeps/<name>``.
        cache_dir: teachers and their actions.
        data_dir: raw data files.
        wandb: Weights & Biases mode of the runs.
        device: a torch device.
        accept_stale: take records that other code or other data made.
    """

    results_dir: Path
    cache_dir: Path | None = None
    data_dir: Path | None = None
    wandb: Mode = "auto"
    device: str = "cpu"
    accept_stale: bool = False

    def folder(self, space: Space) -> Path:
        """The folder of the sweep's study."""
        return self.results_dir / "sweeps" / space.sweep.name

    @property
    def store(self) -> RecordStore:
        """The records."""
        return RecordStore(self.results_dir)

    @cached_property
    def judge(self) -> Judge:
        """Tells stale records, by the code and the data at the sweep's start."""
        return Judge(self.data_dir)

    def answer(self, config: Mapping[str, Any]) -> Record | None:
        """The record that answers for a configuration, if there is one."""
        record = self.store.finished(config)
        if record is None or self.accept_stale or self.judge.why_stale(record) is None:
            return record
        return None

    def options(self, space: Space, run: Run) -> "Options":
        """How one run is run; the runs of a sweep on the same rows are a W&B group."""
        from cfq_bench.experiment import Options  # torch, only where something is run

        return Options(
            self.results_dir,
            self.cache_dir,
            self.data_dir,
            self.wandb,
            device=self.device,
            accept_stale=self.accept_stale,
            group=f"{space.study_name()}-{run.split}",
        )


def execute(space: Space, place: Place, run: Run, callbacks: tuple[Any, ...] = ()) -> Record:
    """Run one run, or read its record."""
    settings = space.settings(run)
    record = place.answer(settings.model_dump(mode="json"))
    if record is not None:
        return record
    from cfq_bench import experiment

    options = replace(place.options(space, run), callbacks=callbacks)
    return experiment.run(settings, options)


def answered(space: Space, place: Place, run: Run) -> bool:
    """Whether the run has a record that is no failure, and not stale."""
    return place.answer(space.config(run)) is not None


@dataclass(frozen=True)
class RunJob:
    """Runs to do, in order; each is done once, whoever does it.

    Attributes:
        space: the sweep.
        place: folders.
        runs: the runs.
        points: grid points; each becomes a trial of the study when its runs are there.
        execute: does one run.
        started: a failed or stale record from before is tried again, one from after is not.
    """

    space: Space
    place: Place
    runs: tuple[Run, ...]
    points: tuple[Values, ...] = ()
    execute: Callable[[Space, Place, Run], Record] = execute
    started: float = field(default_factory=time.time)

    def work(self, worker: int, tick: Callable[[], None]) -> None:
        """Do what nobody has done and nobody is doing, until nothing is left."""
        while left := [run for run in self.runs if not self.settled(run)]:
            if not any(self._try(run, tick) for run in left):
                time.sleep(POLL_S)  # others hold all that is left; one may be killed yet
        self.note_points()
        for run in self.runs:
            if answered(self.space, self.place, run):  # whoever claims it anew finds the record
                self._claim(run).unlink(missing_ok=True)

    def settled(self, run: Run) -> bool:
        """Whether the run has a record that will not be replaced."""
        if answered(self.space, self.place, run):
            return True
        path = self.place.store.path(self.space.run_id(run))
        return path.exists() and path.stat().st_mtime >= self.started - 0.1  # file systems round

    def _try(self, run: Run, tick: Callable[[], None]) -> bool:
        with claim(self._claim(run)) as ours:
            if not ours or self.settled(run):
                return ours
            self.execute(self.space, self.place, run)
        self.note_points()
        tick()
        return True

    def _claim(self, run: Run) -> Path:
        return self.place.folder(self.space) / "claims" / f"{self.space.run_id(run)}.lock"

    def note_points(self) -> None:
        """Write the points whose runs are all there into the study."""
        done = [values for values in self.points if all(map(self.settled, self.space.runs(values)))]
        if not done:
            return
        with alone(self.place.folder(self.space)):
            study = open_study(self.space, self.place.folder(self.space))
            for values in done:
                add_point(study, self.space, values, self.score(values))

    def score(self, values: Values) -> Score:
        """A point's score, from its records."""
        records = [self.place.store.read(name) for name in self.space.run_ids(values)]
        return score(self.space.sweep, [record for record in records if record is not None])
