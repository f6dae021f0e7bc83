"""``cfq-bench suite``: the list, the live progress, the last line."""

import time
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from cfq_bench.config.loader import known_names
from cfq_bench.config.suite import SuiteRun, expand, load_suite, select
from cfq_bench.errors import UserError
from cfq_bench.record.identity import ACCEPT, Judge
from cfq_bench.record.store import RecordStore
from cfq_bench.suites import run as suites
from cfq_bench.suites.estimate import Estimates
from cfq_bench.text import visible

_DEFAULT = Path("results")
_EVERY_S = 30.0  # between two lines where there is no terminal


def suite_list(results_dir: Path, conf_dir: Path | None, workers: int) -> str:
    """Every suite with its runs, how many have a record, and the minutes of the others."""
    store = RecordStore(results_dir)
    estimates = Estimates(store)
    stale = Judge().stale(store.all())
    rows = [("suite", "runs", "recorded", "stale", "minutes", "about")]
    for name in known_names("suite", conf_dir):
        suite = load_suite(name, conf_dir)
        runs = expand(suite, conf_dir)
        there = {run.run_id for run in runs if store.path(run.run_id).exists()}
        old = there & stale.keys()
        left = [run for run in runs if run.run_id not in there - old]
        measured = all(estimates.is_measured(run) for run in left)
        minutes = estimates.all(left) / workers / 60
        text = f"{'' if measured else '~'}{minutes:.1f}"
        counts = (str(len(runs)), str(len(there)), str(len(old)))
        rows.append((name, *counts, text, suite.about))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:5], widths[1:], strict=True)),
                row[5],
            ]
        )
        for row in rows
    ]
    note = (
        f"minutes: what is left in {results_dir}, with {workers} "
        f"{'worker' if workers == 1 else 'workers'}; ~ where some of it is a guess"
    )
    return "\n".join([*lines, note])


def chosen(runs: list[SuiteRun], seeds: str | None, only: tuple[str, ...]) -> list[SuiteRun]:
    """The runs that --seeds and --only leave."""
    conditions: dict[str, list[str]] = {}
    if seeds is not None:
        conditions["seed"] = [seed.strip() for seed in seeds.split(",")]
    for text in only:
        axis, separator, value = text.partition("=")
        if not separator:
            raise UserError(f"--only {text!r}: write AXIS=VALUE, such as data=compas")
        conditions.setdefault(axis, []).append(value)
    found = select(runs, conditions)
    if not found:
        raise UserError("no run of the suite fits --seeds and --only together")
    return found


def run_and_report(name: str, runs: list[SuiteRun], options: suites.SuiteOptions) -> int:
    """Run a suite under a bar, or with a line now and then; print the last line.

    Returns:
        The exit code: 0, 1 where a run failed, or 130 after Ctrl-C.
    """
    start = time.perf_counter()
    console = Console(stderr=True)
    with _Report(name, console) as report:
        try:
            state = suites.run_suite(runs, options, report)
        except KeyboardInterrupt:
            report.bar.stop()
            # Counted anew: a run may have been recorded since the last look.
            store = RecordStore(options.results_dir)
            recorded = sum(store.path(run.run_id).exists() for run in runs)
            click.echo(
                f"{name}: interrupted; {recorded} of {_runs(len(runs))} recorded; "
                "the same command goes on",
                err=True,
            )
            return 130
    click.echo(
        f"{name}: {_runs(state.total)}: {state.done} done, {state.failed} failed, "
        f"{state.skipped} skipped; {state.before} were there before{_stale(report, state)}; "
        f"{time.perf_counter() - start:.0f} s; records in {options.results_dir}"
    )
    if state.done > state.before:
        click.echo(_overviews(name, runs, options.results_dir))
    place = "" if options.results_dir == _DEFAULT else f" --results-dir {options.results_dir}"
    follow = (f"compare{place}", f"report {name}{place}", f"dashboard{place}")
    click.echo("next: " + ", ".join(f"`cfq-bench {command}`" for command in follow))
    if state.failed:
        click.echo(f"{_runs(state.failed)} failed: try again with --retry-failed", err=True)
    return 1 if state.failed else 0


def _overviews(name: str, runs: list[SuiteRun], results_dir: Path) -> str:
    """A table of all rows for every setting of the suite."""
    from cfq_bench.aggregate.comparisons import Compared
    from cfq_bench.aggregate.places import arranged
    from cfq_bench.report.cells import overview_table
    from cfq_bench.report.markdown import markdown_table
    from cfq_bench.results.collect import collect

    store = RecordStore(results_dir)
    records = [record for run in runs if (record := store.read(run.run_id)) is not None]
    settings = arranged(collect(name, runs, records).finished)
    tables = [overview_table(Compared(setting, {})) for setting in settings]
    return "\n\n".join(markdown_table(table) for table in tables)


def _stale(report: "_Report", state: suites.Progress) -> str:
    """What became of stale records; empty where there were none."""
    if state.taken:
        return f" ({state.taken} of them stale)"
    return f", {report.stale} more were stale and are replaced" if report.stale else ""


class _Report:
    """A bar on a terminal; elsewhere a line every half minute. Failures at once, on both."""

    def __init__(self, name: str, console: Console) -> None:
        self.name, self.console = name, console
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[words]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task(name, total=None, words="")
        self.told = time.perf_counter()
        self.stale: int | None = None

    def __enter__(self) -> "_Report":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def __call__(self, state: suites.Progress) -> None:
        if self.stale is None:
            self.stale = state.stale
            if state.why_stale is not None:
                count = state.stale + state.taken
                what = "taken" if state.taken else f"run again; {ACCEPT}"
                words = "1 record is" if count == 1 else f"{count} records are"
                click.echo(f"{self.name}: {words} stale: {state.why_stale} ({what})", err=True)
        for run, record in state.news:
            if record.status == "failed":
                places = ", ".join(f"{axis} {value}" for axis, value in run.axes.items())
                line = f"failed: {run.row}, {places} ({run.run_id}): {record.reason}"
                click.echo(visible(line), err=True)
        words = _words(state)
        self.bar.update(
            self.task, total=state.total, completed=state.total - state.left, words=words
        )
        if not self.console.is_terminal and time.perf_counter() - self.told >= _EVERY_S:
            self.told = time.perf_counter()
            click.echo(f"{self.name}: {words}", err=True)


def _words(state: suites.Progress) -> str:
    minutes, seconds = divmod(round(state.left_s), 60)
    stale = f" ({state.stale} stale)" if state.stale else ""
    return (
        f"{state.done} done, {state.failed} failed, {state.skipped} skipped, "
        f"{state.left} left{stale}, about {minutes}:{seconds:02d} to go"
    )


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
