"""A whole sweep on one page: points, choice, test rows, report."""

from collections.abc import Callable
from dataclasses import dataclass

from optuna.trial import FrozenTrial

from cfq_bench.files import ensure_writable, write_atomic
from cfq_bench.record.record import Record
from cfq_bench.sweeps import summary
from cfq_bench.sweeps.execution import Place, RunJob
from cfq_bench.sweeps.points import Run, Space, Values, text
from cfq_bench.sweeps.search import SearchJob, tried
from cfq_bench.sweeps.study import JOURNAL, choose, complete, open_study, values_of
from cfq_bench.sweeps.workers import run_workers

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many pieces of it are done, and how many there are."""


@dataclass(frozen=True)
class Result:
    """How a sweep ended.

    Attributes:
        chosen: the best point, if one keeps every constraint.
        report: Markdown, also in ``<results>/sweeps/<name>/report.md``.
        problems: one line each; empty for a sweep that is complete.
    """

    chosen: Values | None
    report: str
    problems: list[str]


def run_sweep(space: Space, place: Place, workers: int, progress: Progress) -> Result:
    """Run what is missing of a sweep, choose, run the choice on test rows, write the report.

    Raises:
        UserError: bad settings or an unusable folder.
        KeyboardInterrupt: Ctrl-C; the same call goes on where it stopped.
    """
    folder = place.folder(space)
    ensure_writable(folder, "the sweep")
    ended_well = _grid if space.sweep.sampler == "grid" else _search
    problems = ended_well(space, place, workers, progress)
    trials = complete(open_study(space, folder))
    best = choose(space.sweep, trials)
    chosen = None if best is None else values_of(space.sweep, best.params)
    parts = [f"# {space.sweep.name}", summary.choice(space, trials, chosen)]
    if chosen is not None and not problems:
        test = space.test_runs(chosen)
        problems = _run_all(space, place, test, (), workers, "test rows", progress)
        on_both = [_records(space, place, runs) for runs in (space.runs(chosen), test)]
        parts.append(summary.split_table(*on_both))
    parts += [summary.points_table(space, trials, best), *(f"- {line}" for line in problems)]
    parts.append(f"Trials: `optuna-dashboard {folder / JOURNAL}`, study `{space.study_name()}`.")
    report = "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
    write_atomic(folder / "report.md", report.encode())
    return Result(chosen, report, problems)


def _grid(space: Space, place: Place, workers: int, progress: Progress) -> list[str]:
    points = space.grid()
    runs = [run for values in points for run in space.runs(values)]
    return _run_all(space, place, runs, tuple(points), workers, "grid", progress)


def _search(space: Space, place: Place, workers: int, progress: Progress) -> list[str]:
    study, most = open_study(space, place.folder(space)), space.sweep.trials or 0

    def tick() -> None:
        progress("search", tried(study), most)

    run_workers(SearchJob(space, place), workers, tick)
    done = tried(study)
    if done == 0:
        return ["no trial was completed: repeat the command"]
    failed = [trial for trial in study.get_trials(deepcopy=False) if "reason" in trial.user_attrs]
    return [
        *_unfinished(done, most, study.get_trials(deepcopy=False)),
        *(f"trial {trial.number}: {trial.user_attrs['reason']}" for trial in failed),
    ]


def _unfinished(done: int, most: int, trials: list[FrozenTrial]) -> list[str]:
    alive = [trial for trial in trials if not trial.state.is_finished()]
    return [f"{done} of {most} trials are done: repeat the command to go on"] if alive else []


def _run_all(
    space: Space,
    place: Place,
    runs: list[Run],
    points: tuple[Values, ...],
    workers: int,
    what: str,
    progress: Progress,
) -> list[str]:
    """Run what has no record; tell what failed and what is left."""
    job = RunJob(space, place, tuple(runs), points)

    def tick() -> None:
        progress(what, sum(map(job.settled, runs)), len(runs))

    run_workers(job, min(workers, max(1, len(runs))), tick)
    problems = []
    for run in runs:
        record = place.store.read(space.run_id(run))
        where = f"{text(run.values)} seed={run.seed}"
        if record is None:
            problems.append(f"{where}: not run: repeat the command to go on")
        elif record.status != "ok":
            problems.append(f"{where}: {record.status}: {record.reason}")
    return problems


def _records(space: Space, place: Place, runs: list[Run]) -> list[Record]:
    found = [place.store.read(space.run_id(run)) for run in runs]
    return [record for record in found if record is not None and record.status == "ok"]
