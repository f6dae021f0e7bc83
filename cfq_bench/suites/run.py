"""``run_suite``: workers for the runs that have no record, watched until every run has one."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from cfq_bench.config.suite import SuiteRun
from cfq_bench.data.sources import named_data_dir, obtain_all
from cfq_bench.errors import FolderError, UserError
from cfq_bench.files import ensure_writable, explained, sweep_leftovers
from cfq_bench.record.identity import Judge
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from cfq_bench.suites.estimate import Estimates
from cfq_bench.suites.lease import Leases
from cfq_bench.suites.local import LocalWorkers
from cfq_bench.suites.order import in_order
from cfq_bench.suites.worker import FAULT, POLL_S, Plan, recorded_since

ExecutorName = Literal["local", "ray", "submitit"]
_FAULT = re.compile(rf"(?:{FAULT}|[\w.]*{FolderError.__name__}: )(.*)")
"""The last line of a process, or of a task elsewhere, whose folder cannot be used."""


class Workers(Protocol):
    """What an executor gives: workers that can be started, counted and stopped."""

    def start(self) -> None:
        """Start one more worker."""

    def alive(self) -> int:
        """How many are at work or queued."""

    def ended(self) -> list[str]:
        """Why workers ended since the last call, for those that did not end well."""

    def stop(self) -> None:
        """End all workers."""


@dataclass(frozen=True)
class SuiteOptions:
    """Where a suite runs, reads and writes. None of it changes a result.

    Attributes:
        executor: local: processes of this machine; ray: a Ray cluster; submitit: SLURM jobs.
        workers: how many at once.
        results_dir, cache_dir, data_dir, wandb, device: as in `experiment.Options`.
        retry_failed: run again what has failed before.
        accept_stale: take records that other code or other data made, instead of running again.
        address: executor=ray: the cluster; "local" starts one.
        cluster: executor=submitit: "slurm", or "local" for processes of this machine.
    """

    executor: ExecutorName = "local"
    workers: int = 1
    results_dir: Path = Path("results")
    cache_dir: Path | None = None
    data_dir: Path | None = None
    wandb: str = "auto"
    device: str = "cpu"
    retry_failed: bool = False
    accept_stale: bool = False
    address: str = "auto"
    cluster: str = "slurm"


@dataclass(frozen=True)
class Progress:
    """Where a suite stands.

    Attributes:
        total: all its runs.
        done, skipped, failed: runs with such a record.
        stale: runs whose record other code or other data made, and that no new one replaces yet.
        taken: stale records that count all the same, as the caller asked.
        why_stale: the commonest reason.
        before: of these, how many had one when the suite was called.
        left_s: seconds to go, estimated.
        news: records that came since the last report, with their runs.
    """

    total: int
    done: int = 0
    skipped: int = 0
    failed: int = 0
    stale: int = 0
    taken: int = 0
    why_stale: str | None = None
    before: int = 0
    left_s: float = 0.0
    news: tuple[tuple[SuiteRun, Record], ...] = ()

    @property
    def left(self) -> int:
        """Runs without a record that answers."""
        return self.total - self.done - self.skipped - self.failed


def run_suite(
    runs: Iterable[SuiteRun],
    options: SuiteOptions | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Run what has no record; return when every run has one.

    Several calls, on several machines, may work on one results folder: each run is taken by one
    of them at a time and published once.

    Args:
        runs: from ``expand(load_suite(name))``.
        options: executor, workers, folders.
        report: called now and then with the state of things.

    Raises:
        UserError: an unusable folder or device, raw data that cannot be had, a corrupt record, or
            workers that cannot start.
        KeyboardInterrupt: Ctrl-C; finished runs are kept, and the next call goes on.
    """
    options = options or SuiteOptions()
    watch = _Watch(in_order(runs), RecordStore(options.results_dir), options)
    report(watch.look())
    _sweep(watch.store, options.results_dir)
    if watch.left:
        ensure_writable(options.results_dir / "runs", "records")
        if options.device != "cpu" and options.executor == "local":
            from cfq_bench.experiment import usable_device  # torch, only where it may be wrong

            usable_device(options.device)
        _obtain_data(watch.left.values(), options.data_dir)
        try:
            _run(watch, options, report)
        finally:
            _sweep(watch.store, options.results_dir)  # workers may have been killed
    return watch.state


def _sweep(store: RecordStore, results_dir: Path) -> None:
    """Remove what killed workers and calls left, of this call and of others."""
    sweep_leftovers(store.runs_dir)
    folder = results_dir / "leases"
    if folder.is_dir():
        Leases(folder).sweep(recorded_since(store, folder))


def _obtain_data(runs: Iterable[SuiteRun], data_dir: Path | None) -> None:
    """Get all raw files before the first run: a worker that lacks one would record failed runs.

    Raises:
        UserError: a file cannot be had; names the data set.
    """
    folder = named_data_dir(data_dir)
    for name, loader in sorted({(r.settings.data.name, r.settings.data.loader) for r in runs}):
        try:
            obtain_all(loader, folder)
        except UserError as error:
            raise UserError(f"data set {name}: {error}") from None


def _run(watch: "_Watch", options: SuiteOptions, report: Callable[[Progress], None]) -> None:
    """Keep the workers alive until nothing is left."""
    plan = Plan(
        configs=[run.settings.model_dump(mode="json") for run in watch.left.values()],
        results_dir=str(options.results_dir.resolve()),
        cache_dir=None if options.cache_dir is None else str(options.cache_dir.resolve()),
        data_dir=None if options.data_dir is None else str(options.data_dir.resolve()),
        wandb=options.wandb,
        device=options.device,
        stale=watch.stale,
    )
    workers = make_workers(plan, options)
    deaths = 0  # in a row, without a record
    try:
        while watch.left:
            while workers.alive() < min(options.workers, len(watch.left)):
                workers.start()
            time.sleep(POLL_S)
            state = watch.look()
            report(state)
            why = workers.ended()
            for line in why:
                _raise_fault(line)
            deaths = 0 if state.news else deaths + len(why)
            # A run that kills its workers is recorded as failed at the third; all may be such.
            if deaths > 2 * options.workers + 2:
                raise UserError(f"{deaths} workers ended without a record, the last: {why[-1]}")
    finally:
        workers.stop()


def _raise_fault(line: str) -> None:
    """End the suite where a worker's last line says what all of them will meet.

    Raises:
        FolderError: a folder cannot be used.
    """
    found = _FAULT.match(line)
    if found is not None:
        raise FolderError(found[1])


def make_workers(plan: Plan, options: SuiteOptions) -> Workers:
    """The executor's workers; none is started yet."""
    if options.executor == "ray":
        from cfq_bench.suites.ray import RayWorkers

        return RayWorkers(plan, options.address)
    if options.executor == "submitit":
        from cfq_bench.suites.submitit import SubmititWorkers

        return SubmititWorkers(plan, options.cluster)
    return LocalWorkers(plan)


class _Watch:
    """Looks at the results folder, which is all that the workers of all machines share."""

    def __init__(self, runs: list[SuiteRun], store: RecordStore, options: SuiteOptions) -> None:
        self.store, self.workers = store, options.workers
        self.left = {run.run_id: run for run in runs}
        self.state = Progress(len(self.left))
        self.stale = self._judged(options)
        self.seconds = Estimates(store)
        self.start, self.spent = time.perf_counter(), 0.0
        first = self.look()
        if options.retry_failed and first.failed:
            self._forget([run for run, record in first.news if record.status == "failed"])
        self.state = replace(self.state, before=self.state.total - self.state.left)
        self.spent = 0.0  # what was there took no time now

    def look(self) -> Progress:
        """Count the records that came since the last look."""
        news = []
        for name, run in list(self.left.items()):
            mark = self.store.mark(name)
            record = None if mark in (None, self.stale.get(name)) else self.store.read(name)
            if record is not None:
                self.stale.pop(name, None)
                news.append((self.left.pop(name), record))
                self.spent += self.seconds.of(run)
        statuses = [record.status for _, record in news]
        self.state = replace(
            self.state,
            done=self.state.done + statuses.count("ok"),
            skipped=self.state.skipped + statuses.count("skipped"),
            failed=self.state.failed + statuses.count("failed"),
            stale=len(self.stale),
            left_s=self._left_s(),
            news=tuple(news),
        )
        return self.state

    def _judged(self, options: SuiteOptions) -> dict[str, str]:
        """Marks of the stale records: judged once, so that each is replaced once.

        A mark is taken before its record is read: of one that is replaced between, it is the old.
        """
        marks = {name: self.store.mark(name) for name in self.left}
        records = (self.store.read(name) for name, mark in marks.items() if mark is not None)
        why = Judge(options.data_dir).stale(one for one in records if one is not None)
        if why:
            common = Counter(why.values()).most_common(1)[0][0]
            self.state = replace(self.state, why_stale=common)
        if options.accept_stale:
            self.state = replace(self.state, taken=len(why))
            return {}
        return {name: mark for name in why if (mark := marks[name]) is not None}

    def _left_s(self) -> float:
        """What is left by the estimates, which are corrected by how they have done so far."""
        left = sum(self.seconds.of(run) for run in self.left.values())
        if self.spent == 0.0:
            return left / self.workers
        return left * (time.perf_counter() - self.start) / self.spent

    def _forget(self, runs: list[SuiteRun]) -> None:
        for run in runs:
            path = self.store.path(run.run_id)
            with explained(f"remove {path}"):
                path.unlink(missing_ok=True)
            self.left[run.run_id] = run
        self.state = replace(self.state, failed=self.state.failed - len(runs))
