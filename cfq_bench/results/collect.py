"""What a report is made from: a suite's runs beside their records."""

from collections.abc import Iterable
from dataclasses import dataclass

from cfq_bench.config.suite import SuiteRun
from cfq_bench.record.record import Record


@dataclass(frozen=True)
class Result:
    """One finished run in its place in a suite.

    Attributes:
        run: where it stands: its row's label, its axes, its settings.
        record: what it measured.
    """

    run: SuiteRun
    record: Record

    @property
    def row(self) -> str:
        """Label of its row in tables."""
        return self.run.row

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.run.settings.seed

    @property
    def cell(self) -> tuple[tuple[str, str], ...]:
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
        tuple(by_status["ok"]),
        tuple(by_status["skipped"]),
        tuple(by_status["failed"]),
        tuple(missing),
    )
