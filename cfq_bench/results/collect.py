"""What a report is made from: a suite's runs beside their records."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cfq_bench.config.suite import SuiteRun
from cfq_bench.record.record import Record
from cfq_bench.results.differences import changes
from cfq_bench.statistics.seeds import compared_seeds

Cell = tuple[tuple[str, str], ...]
MEASURED = ("split", "kappa", "shift")
"""Settings of the evaluation in which the rows of one table never differ."""


@dataclass(frozen=True)
class Result:
    """One finished run in its place in a suite.

    Attributes:
        run: where it stands: its row's label, its axes, its settings.
        record: what it measured.
        compared: whether its seed is among those that its row is shown on.
    """

    run: SuiteRun
    record: Record
    compared: bool = True

    @property
    def row(self) -> str:
        """Label of its row in tables."""
        return self.run.row

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.run.settings.seed

    @property
    def cell(self) -> Cell:
        """Its place on every axis but the seed, in the suite's order."""
        return tuple(pair for pair in self.run.axes.items() if pair[0] != "seed")

    def value(self, metric: str) -> float | None:
        """A metric by its key, such as ``recourse/vd``; None where it is undefined."""
        return self.record.metrics.get(metric)


@dataclass(frozen=True)
class Results:
    """A suite's results.

    Attributes:
        suite: its name.
        finished: runs with a record that is ``ok``, in the suite's order.
        skipped: runs whose record says why the method cannot do the task.
        failed: runs whose record is a failure.
        missing: runs without a record.
    """

    suite: str
    finished: tuple[Result, ...]
    skipped: tuple[Result, ...]
    failed: tuple[Result, ...]
    missing: tuple[SuiteRun, ...]


def collect(suite: str, runs: Iterable[SuiteRun], records: Iterable[Record]) -> Results:
    """Sort a suite's runs by what became of them.

    Args:
        suite: its name.
        runs: from `cfq_bench.config.suite.expand`.
        records: from any store; those of other suites are left out.
    """
    found = {record.run_id: record for record in records}
    by_status: dict[str, list[Result]] = {"ok": [], "skipped": [], "failed": []}
    missing = []
    for run in runs:
        record = found.get(run.run_id)
        if record is None:
            missing.append(run)
        else:
            by_status[record.status].append(Result(run, record))
    return Results(
        suite,
        tuple(_selected(_labelled(_apart(by_status["ok"])))),
        tuple(by_status["skipped"]),
        tuple(by_status["failed"]),
        tuple(missing),
    )


def _apart(finished: Sequence[Result]) -> list[Result]:
    """Rows of one cell that measure on other rows, margins or shifts stand in cells of their own.

    These cells are further places on an axis of the setting's name.
    """
    seen: dict[tuple[Cell, str], set[str]] = {}
    for result in finished:
        for name in MEASURED:
            seen.setdefault((result.cell, name), set()).add(_measured(result, name))
    found = []
    for result in finished:
        own = {
            name if name not in result.run.axes else f"evaluation.{name}": _measured(result, name)
            for name in MEASURED
            if len(seen[result.cell, name]) > 1
        }
        run = replace(result.run, axes={**result.run.axes, **own}) if own else result.run
        found.append(replace(result, run=run))
    return found


def _measured(result: Result, name: str) -> str:
    value = result.record.config["evaluation"].get(name)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _labelled(finished: Sequence[Result]) -> list[Result]:
    """Rows of one cell that share a label and not their settings get these settings beside it."""
    first: dict[tuple[Cell, str], dict[str, Any]] = {}
    found = []
    for result in finished:
        own = {key: value for key, value in result.record.config.items() if key != "seed"}
        words = changes(own, first.setdefault((result.cell, result.row), own))
        run = replace(result.run, row=f"{result.row} ({', '.join(words)})") if words else result.run
        found.append(replace(result, run=run))
    return found


def _selected(finished: Sequence[Result]) -> list[Result]:
    """Say of every result whether its row is shown on its seed."""
    seeds: dict[Cell, dict[str, set[int]]] = {}
    for result in finished:
        seeds.setdefault(result.cell, {}).setdefault(result.row, set()).add(result.seed)
    chosen = {cell: set(compared_seeds(rows.values())) for cell, rows in seeds.items()}
    return [
        replace(
            result,
            compared=result.seed in chosen[result.cell]
            or not chosen[result.cell] <= seeds[result.cell][result.row],
        )
        for result in finished
    ]
