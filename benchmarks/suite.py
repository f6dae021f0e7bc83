"""What a suite costs beyond its runs: workers, leases, waiting; and a suite that is done."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.command import call
from benchmarks.timing import Measurement, interleave, wall
from cfq_bench.config.suite import Row, SuiteSettings, expand, load_suite
from cfq_bench.record.store import RecordStore

WORKERS = 2
RUNS, EPOCHS = 16, 400
"""A small table of runs of about ten seconds each: a worker's imports are paid once."""
DONE = "table1"


def measure(repeats: int) -> Iterator[Measurement]:
    """Worker seconds over run seconds, and the seconds of a call that finds every record."""
    with tempfile.TemporaryDirectory() as folder:
        yield _overhead(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        runs = _write_all(Path(folder))
        command = ("suite", DONE, "--results-dir", folder)
        seconds = interleave({"again": wall(lambda: call(*command))}, min(repeats, 5))
    yield Measurement(
        f"cfq-bench suite {DONE}, all {runs} runs done",
        statistics.median(seconds["again"]),
        "s",
        seconds,
        limit=3.0,
        note="the whole command",
    )


def _overhead(folder: Path) -> Measurement:
    """One suite from nothing; its records say how long each run took."""
    from cfq_bench.suites.run import SuiteOptions, run_suite

    suite = SuiteSettings(
        name="overhead",
        overrides=[f"data.fit.epochs={EPOCHS}"],
        axes={"data": ["compas"], "seed": list(range(RUNS))},
        rows=[Row(label="KD-QAT", method="kd_qat")],
    )
    options = SuiteOptions(
        workers=WORKERS,
        results_dir=folder / "results",
        cache_dir=folder / "cache",
        wandb="disabled",
    )
    start = time.perf_counter()
    run_suite(expand(suite), options)
    taken = time.perf_counter() - start
    own = [record.seconds for record in RecordStore(options.results_dir).all()]
    return Measurement(
        f"a suite's worker seconds / its runs' own, {WORKERS} workers",
        taken * WORKERS / sum(own),
        "x",
        {"wall": [taken], "runs": own},
        limit=1.1,
        note=f"{RUNS} runs of {statistics.median(own):.0f} s; imports and an idle end included",
    )


def _write_all(results: Path) -> int:
    """A made-up record for every run of a suite."""
    from tests.support.records import record_of

    store = RecordStore(results)
    store.runs_dir.mkdir(parents=True)
    runs = expand(load_suite(DONE))
    for run in runs:
        record = record_of(run.settings.model_dump(mode="json"))
        store.path(run.run_id).write_text(record.to_json())
    return len(runs)
