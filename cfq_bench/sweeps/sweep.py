"""A whole sweep on one page: points, choice, test rows, report."""

from collections.abc import Callable
from dataclasses import dataclass

from optuna.trial import TrialState

from cfq_bench.files import ensure_writable, sweep_leftovers, write_atomic
from cfq_bench.record.record import Record
from cfq_bench.report.markdown import plain
from cfq_bench.sweeps import summary
from cfq_bench.sweeps.execution import Place, RunJob
from cfq_bench.sweeps.points import Run, Space, Values
from cfq_bench.sweeps.points import text as as_text
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
        unfinished: pieces of work that are not done: the same call does them.
        failures: runs that were to work and did not, one line each.
    """

    chosen: Values | None
    report: str
    unfinished: int
    failures: list[str]


@dataclass(frozen=True)
class _Part:
    """How one part ended; `notes` tell of what did not work and was to be reckoned with."""

    unfinished: int
    failures: list[str]
    notes: list[str]


def run_sweep(space: Space, place: Place, workers: int, progress: Progress) -> Result:
    """Run what is missing of a sweep, choose, run the choice on test rows, write the report.

    Raises:
        UserError: bad settings or an unusable folder.
        KeyboardInterrupt: Ctrl-C; the same call goes on where it stopped.
    """
    folder = place.folder(space)
    ensure_writable(folder, "the sweep")
    sweep_leftovers(place.store.runs_dir)
    run_points = _grid if space.sweep.sampler == "grid" else _search
    parts = [run_points(space, place, workers, progress)]
    trials = complete(open_study(space, folder))
    best = choose(space.sweep, trials)
    chosen = None if best is None else values_of(space.sweep, best.params)
    text = [f"# {plain(space.sweep.name)}", summary.choice(space, trials, chosen)]
    if chosen is not None and not parts[0].unfinished:
        test = space.test_runs(chosen)
        parts.append(_run_all(space, place, test, (), workers, "test rows", progress))
        on_both = [_records(space, place, runs) for runs in (space.runs(chosen), test)]
        text.append(summary.split_table(*on_both))
    text.append(summary.points_table(space, trials, best))
    failures = [line for part in parts for line in part.failures]
    notes = [*failures, *(line for part in parts for line in part.notes)]
    text.append("\n".join(f"- {plain(line)}" for line in notes))
    text.append(f"Trials: `optuna-dashboard {folder / JOURNAL}`, study `{space.study_name()}`.")
    report = "\n\n".join(part.rstrip("\n") for part in text if part) + "\n"
    write_atomic(folder / "report.md", report.encode())
    return Result(chosen, report, sum(part.unfinished for part in parts), failures)


def _grid(space: Space, place: Place, workers: int, progress: Progress) -> _Part:
    points = space.grid()
    runs = [run for values in points for run in space.runs(values)]
    return _run_all(space, place, runs, tuple(points), workers, "grid", progress)


def _search(space: Space, place: Place, workers: int, progress: Progress) -> _Part:
    study, most = open_study(space, place.folder(space)), space.sweep.trials or 0

    def tick() -> None:
        progress("search", tried(study), most)

    all_ended = run_workers(SearchJob(space, place), workers, tick)
    trials = study.get_trials(deepcopy=False)
    left_open = any(not trial.state.is_finished() for trial in trials)
    # A space of fewer points than trials ends before its trials do.
    left = most - tried(study) if left_open or not all_ended else 0
    # That a search meets points that do not work is no failure of the search.
    reasons = [(t.number, t.user_attrs["reason"]) for t in trials if "reason" in t.user_attrs]
    notes = [f"trial {number}: {reason}" for number, reason in reasons]
    if pruned := sum(trial.state == TrialState.PRUNED for trial in trials):
        notes.insert(0, f"{pruned} trials were pruned")
    return _Part(max(0, left), [], notes)


def _run_all(
    space: Space,
    place: Place,
    runs: list[Run],
    points: tuple[Values, ...],
    workers: int,
    what: str,
    progress: Progress,
) -> _Part:
    """Run what has no record; tell what failed and what is left."""
    job = RunJob(space, place, tuple(runs), points)

    def tick() -> None:
        progress(what, sum(map(job.settled, runs)), len(runs))

    run_workers(job, min(workers, len(runs)), tick)
    unfinished = 0
    failures: list[str] = []
    notes: list[str] = []
    for run in runs:
        record = place.store.read(space.run_id(run))
        if record is None or not job.settled(run):
            unfinished += 1
        elif record.status != "ok":
            told = failures if record.status == "failed" else notes
            told.append(f"{as_text(run.values)} seed={run.seed}: {record.status}: {record.reason}")
    return _Part(unfinished, failures, notes)


def _records(space: Space, place: Place, runs: list[Run]) -> list[Record]:
    found = [place.store.read(space.run_id(run)) for run in runs]
    return [record for record in found if record is not None and record.status == "ok"]
