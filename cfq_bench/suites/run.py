"""``run_suite``: workers for the runs that have no record, watched until every run has one."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from cfq_bench.config.suite import SuiteRun
from cfq_bench.data.sources import named_data_dir, obtain_all
from cfq_bench.errors import FolderError, UserError
from cfq_bench.files import ensure_writable, explained
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from cfq_bench.suites.estimate import Estimates
from cfq_bench.suites.local import LocalWorkers
from cfq_bench.suites.order import in_order
from cfq_bench.suites.worker import FAULT, POLL_S, Plan

ExecutorName = Literal["local", "ray", "submitit"]


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
    address: str = "auto"
    cluster: str = "slurm"


@dataclass(frozen=True)
class Progress:
    """Where a suite stands.

    Attributes:
        total: all its runs.
        done, skipped, failed: runs with such a record.
        before: of these, how many had one when the suite was called.
        left_s: seconds to go, estimated.
        news: records that came since the last report, with their runs.
    """

    total: int
    done: int = 0
    skipped: int = 0
    failed: int = 0
    before: int = 0
    left_s: float = 0.0
    news: tuple[tuple[SuiteRun, Record], ...] = ()

    @property
    def left(self) -> int:
        """Runs without a record."""
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
    if watch.left:
        ensure_writable(options.results_dir / "runs", "records")
        if options.device != "cpu" and options.executor == "local":
            from cfq_bench.experiment import usable_device  # torch, only where it may be wrong

            usable_device(options.device)
        _obtain_data(watch.left.values(), options.data_dir)
        _run(watch, options, report)
    return watch.state


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
    for mark in (FAULT, f"{FolderError.__name__}: "):  # of a process; of a task elsewhere
        _, found, why = line.partition(mark)
        if found:
            raise FolderError(why)


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
            record = self.store.read(name) if self.store.path(name).exists() else None
            if record is not None:
                news.append((self.left.pop(name), record))
                self.spent += self.seconds.of(run)
        statuses = [record.status for _, record in news]
        self.state = replace(
            self.state,
            done=self.state.done + statuses.count("ok"),
            skipped=self.state.skipped + statuses.count("skipped"),
            failed=self.state.failed + statuses.count("failed"),
            left_s=self._left_s(),
            news=tuple(news),
        )
        return self.state

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
