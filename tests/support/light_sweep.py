"""Runs and objectives of a sweep that take milliseconds, for processes that import no torch."""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from optuna.trial import Trial

from cfq_bench.record.identity import made_by_code
from cfq_bench.record.record import Record, run_id
from cfq_bench.sweeps.execution import Place
from cfq_bench.sweeps.points import Run, Space, Values
from cfq_bench.sweeps.scores import Score, score
from cfq_bench.sweeps.settings import SweepSettings
from cfq_bench.sweeps.workers import run_workers


def make_space(**changes: object) -> Space:
    """A grid of three etas and two seeds, changed as a YAML file would be."""
    raw: dict[str, object] = {
        "name": "light",
        "method": "cfq",
        "data": "german",
        "space": {"method.eta": [0.5, 1.0, 2.0]},
        "seeds": [0, 1],
    }
    return Space(SweepSettings.model_validate({**raw, **changes}))


def search_space(**changes: object) -> Space:
    raw: dict[str, object] = {
        "sampler": "tpe",
        "trials": 6,
        "startup_trials": 3,
        "space": {"method.eta": {"low": 0.1, "high": 4.0}},
        "seeds": [0],
    }
    return make_space(**{**raw, **changes})


def make_record(space: Space, run: Run, **metrics: float | None) -> Record:
    """A record whose boundary error is (eta - 1)^2 plus a hundredth per seed."""
    config = space.settings(run).model_dump(mode="json")
    error = (config["method"]["eta"] - 1.0) ** 2 + 0.01 * run.seed
    values: dict[str, float | None] = {
        "recourse/boundary_error": error,
        "task/acc": 0.75,
        "task/favourable_drift": 0.0,
        "deploy/avg_bits": config["budget"]["avg_bits"],
        **metrics,
    }
    return Record(
        run_id=run_id(config),
        status="ok",
        config=config,
        metrics=values,
        counts={},
        details={},
        provenance={},
        seconds=0.0,
        made_by=made_by_code(config),
    )


def note(place: Place, line: str) -> None:
    place.results_dir.mkdir(parents=True, exist_ok=True)
    with (place.results_dir / "attempts").open("a") as file:
        file.write(line + "\n")


def attempts(results: Path) -> list[str]:
    return (results / "attempts").read_text().split()


def light_run(space: Space, place: Place, run: Run) -> Record:
    record = make_record(space, run)
    note(place, record.run_id)
    place.store.write(record, None)
    return record


def dying_run(space: Space, place: Place, run: Run) -> Record:
    """The first process that comes to the second seed of eta = 1 is killed."""
    mark = place.results_dir / "died"
    if run.seed == 1 and run.values["method.eta"] == 1.0 and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return light_run(space, place, run)


def light_point(space: Space, place: Place, values: Values, trial: Trial) -> Score:
    note(place, str(trial.number))
    return score(space.sweep, [make_record(space, run) for run in space.runs(values)])


def dying_point(space: Space, place: Place, values: Values, trial: Trial) -> Score:
    """The first process that comes to trial 2 is killed."""
    mark = place.results_dir / "died"
    if trial.number == 2 and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return light_point(space, place, values, trial)


def deadly_point(space: Space, place: Place, values: Values, trial: Trial) -> Score:
    """Trial 1 kills whoever tries it, also in its next attempts."""
    if trial.number == 1 or "replaces" in trial.user_attrs:
        os.kill(os.getpid(), signal.SIGKILL)
    return light_point(space, place, values, trial)


@dataclass(frozen=True)
class HoldJob:
    """Work without end, in a process that says who it is."""

    folder: Path

    def work(self, worker: int, tick: Callable[[], None]) -> None:
        (self.folder / f"{os.getpid()}.pid").write_text("")
        time.sleep(600)


if __name__ == "__main__":
    run_workers(HoldJob(Path(sys.argv[1])), 2, lambda: None)
