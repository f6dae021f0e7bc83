"""Suites run: resumed, interrupted, killed, failed, on every executor; nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from benchmarks.command import ENTRY
from cfq_bench.cli.main import main
from cfq_bench.config.suite import SuiteRun, expand, load_suite
from cfq_bench.errors import UserError
from cfq_bench.experiment import Options, answer
from cfq_bench.files import run_id
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from cfq_bench.suites import run as suites
from cfq_bench.suites.lease import read_holder
from cfq_bench.suites.order import in_order
from cfq_bench.suites.run import ExecutorName, Progress, SuiteOptions, run_suite
from cfq_bench.suites.worker import Plan
from tests.support import light_suite as light
from tests.support.waiting import ended, output_of, wait_for

LONG = "data.fit.epochs=60"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def write_suite(tmp_path: Path, short_overrides: list[str]) -> Callable[..., Path]:
    """A suite file: FP32 and LSQ on the embedded German Credit, one seed, short runs."""

    def write(*overrides: str, **changes: Any) -> Path:
        path = tmp_path / "mine.yaml"
        content = {
            "about": "a test",
            "overrides": [*short_overrides, *overrides],
            "axes": {"data": ["german"], "seed": [0]},
            "rows": [{"label": "FP32", "method": "fp32"}, {"label": "LSQ", "method": "lsq"}],
        }
        path.write_text(yaml.safe_dump({**content, **changes}))
        return path

    return write


def suite_runs(path: Path) -> list[SuiteRun]:
    return expand(load_suite(str(path)))


def options(results: Path, **changes: Any) -> SuiteOptions:
    return SuiteOptions(results_dir=results, wandb="disabled", **changes)


def command(path: Path, results: Path, *more: str) -> list[str]:
    where = ["--results-dir", str(results), "--wandb", "disabled", "--workers", "1"]
    return ["suite", str(path), *where, *more]


def call(path: Path, results: Path, *more: str) -> Result:
    return CliRunner().invoke(main, command(path, results, *more))


def measured(record: Record | None) -> dict[str, float | None]:
    """What two runs of one configuration must agree in."""
    assert record is not None
    assert record.status == "ok", record.reason
    return {key: v for key, v in record.metrics.items() if not key.startswith("time/")}


def undisturbed(run: SuiteRun, folder: Path) -> dict[str, float | None]:
    """What the run measures in this process, alone, with the same cache."""
    return measured(answer(run.settings, Options(results_dir=folder, wandb="disabled")).record)


@pytest.fixture
def lights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs take milliseconds, in this process."""
    monkeypatch.setitem(sys.modules, "cfq_bench.experiment", light.FAKE)
    monkeypatch.setattr(suites, "make_workers", lambda plan, _: light.Here(plan))
    monkeypatch.setattr(suites, "POLL_S", 0.0)


def test_first_runs_of_teachers_come_first() -> None:
    runs = light.light_runs(2, methods=("lsq", "pact", "cfq"))
    ordered = in_order(runs)
    assert {run.run_id for run in ordered} == {run.run_id for run in runs}
    assert [run.settings.seed for run in ordered[:2]] == [0, 1]


@pytest.mark.usefixtures("lights")
class TestProgress:
    def test_every_run_has_a_record_and_the_report_adds_up(self, results: Path) -> None:
        told: list[Progress] = []
        state = run_suite(light.light_runs(6), options(results, workers=2), told.append)
        assert (state.total, state.done, state.left, state.before) == (6, 6, 0, 0)
        assert len(RecordStore(results).all()) == 6
        assert sum(len(each.news) for each in told) == 6
        assert all(each.done + each.failed + each.skipped + each.left == 6 for each in told)
        assert told[0].left_s > 0
        assert told[-1].left_s == 0

    def test_what_has_a_record_is_not_repeated(self, results: Path) -> None:
        runs = light.light_runs(6)
        run_suite(runs[:4], options(results))
        state = run_suite(runs, options(results))
        assert (state.done, state.before) == (6, 4)
        attempts = light.lines(results / "attempts")
        assert sorted(attempts) == sorted(run.run_id for run in runs)

    def test_a_failed_run_is_a_record_and_is_retried_on_demand_alone(self, results: Path) -> None:
        runs = light.light_runs(668)[664:]  # seed 666 never works
        state = run_suite(runs, options(results))
        assert (state.done, state.failed, state.left) == (3, 1, 0)
        (failed,) = (r for r in RecordStore(results).all() if r.status == "failed")
        assert failed.reason == "this seed never works"
        attempts = results / "attempts"
        assert len(light.lines(attempts)) == 4
        assert run_suite(runs, options(results)).failed == 1
        assert len(light.lines(attempts)) == 4
        again = run_suite(runs, options(results, retry_failed=True))
        assert (again.failed, again.before) == (1, 3)
        assert light.lines(attempts)[4:] == [failed.run_id]


def test_workers_that_cannot_start_end_the_suite(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UserError, match="ended without a record"):
        run_suite(light.light_runs(1), options(results))
    assert list((results / "runs").iterdir()) == []


@pytest.mark.slow
def test_workers_of_several_calls_repeat_nothing(tmp_path: Path) -> None:
    configs = light.many_configs(20)
    plan = Plan(configs, str(tmp_path / "results"), wandb="disabled")
    workers = [light.start(plan, tmp_path) for _ in range(3)]
    assert [ended(worker) for worker in workers] == [0, 0, 0]
    names = sorted(run_id(config) for config in configs)
    assert sorted(light.lines(tmp_path / "results/attempts")) == names


@pytest.mark.slow
def test_a_suite_on_the_command_line(
    write_suite: Callable[..., Path],
    results: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suites, "make_workers", lambda plan, _: light.Here(plan))
    rows = [
        {"label": "LSQ", "method": "lsq"},
        {"label": "broken", "method": "lsq", "overrides": ["training.lr=1.0e+38"]},
    ]
    path = write_suite(rows=rows)
    first = call(path, results)
    assert first.exit_code == 1
    assert "mine: 2 runs: 1 done, 1 failed, 0 skipped; 0 were there before" in first.stdout
    for follow in ("compare", "report mine", "dashboard"):
        assert f"`cfq-bench {follow} --results-dir {results}`" in first.stdout
    (line,) = [line for line in first.stderr.splitlines() if line.startswith("failed: ")]
    assert "broken, data german, seed 0" in line
    assert "FloatingPointError" in line
    assert first.stderr.splitlines()[-1] == "1 run failed: try again with --retry-failed"
    store = RecordStore(results)
    (lsq,) = (run for run in suite_runs(path) if run.row == "LSQ")
    assert measured(store.read(lsq.run_id)) == undisturbed(lsq, tmp_path / "alone")
    assert store.read_network(lsq.run_id)
    assert len(store.read_rows(lsq.run_id)) > 0
    before = {file: file.read_bytes() for file in store.runs_dir.iterdir()}
    second = call(path, results, "--only", "row=LSQ")
    assert second.exit_code == 0
    assert "mine: 1 run: 1 done, 0 failed, 0 skipped; 1 were there before" in second.stdout
    assert {file: file.read_bytes() for file in store.runs_dir.iterdir()} == before


@pytest.mark.slow
def test_an_interrupted_suite_leaves_nothing_half_done_and_goes_on(
    write_suite: Callable[..., Path],
    results: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write_suite(LONG)
    process = subprocess.Popen(
        [sys.executable, "-c", ENTRY, *command(path, results)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    runs = suite_runs(path)
    store = RecordStore(results)
    lease = results / "leases" / f"{runs[1].run_id}.lease"
    wait_for("the second run", lease.exists, lambda: [results, *results.rglob("*")])
    pid = wait_for("its holder", lambda: read_holder(lease)).pid
    os.kill(process.pid, signal.SIGINT)
    out, err = output_of(process)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == (
        "mine: interrupted; 1 of 2 runs recorded; the same command goes on"
    )
    assert "Traceback" not in out + err
    assert not Path(f"/proc/{pid}").exists()
    assert [record.run_id for record in store.all()] == [runs[0].run_id]
    assert list((results / "leases").iterdir()) == []
    assert [p for p in store.runs_dir.iterdir() if p.name.startswith(".tmp-")] == []
    monkeypatch.setattr(suites, "make_workers", lambda plan, _: light.Here(plan))
    again = call(path, results)
    assert again.exit_code == 0, again.output
    assert "2 done, 0 failed, 0 skipped; 1 were there before" in again.stdout
    assert measured(store.read(runs[1].run_id)) == undisturbed(runs[1], tmp_path / "alone")


@pytest.mark.parametrize(
    ("executor", "module", "more"),
    [("submitit", "submitit", {"cluster": "local"}), ("ray", "ray", {"address": "local"})],
)
def test_other_executors_do_the_same(
    executor: ExecutorName,
    module: str,
    more: dict[str, str],
    write_suite: Callable[..., Path],
    results: Path,
    tmp_path: Path,
) -> None:
    pytest.importorskip(module)
    (run,) = suite_runs(write_suite(rows=[{"label": "FP32", "method": "fp32"}]))
    state = run_suite([run], options(results, executor=executor, **more))
    assert (state.done, state.failed) == (1, 0)
    record = RecordStore(results).read(run.run_id)
    assert measured(record) == undisturbed(run, tmp_path / "alone")


def test_raw_data_that_cannot_be_had_end_the_suite_before_a_run(
    write_suite: Callable[..., Path], results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_network(raw: Any) -> Path:
        raise UserError(f"cannot download {raw.name}: get it by hand")

    monkeypatch.setattr("cfq_bench.data.sources.download", no_network)
    monkeypatch.setenv("CFQ_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CFQ_BENCH_DATA", raising=False)
    path = write_suite(axes={"data": ["german", "bank"], "seed": [0]})
    done = call(path, results)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        "error: data set bank: cannot download bank-full.csv: get it by hand"
    )
    assert RecordStore(results).all() == []


def test_images_that_are_got_by_hand_end_the_suite_before_a_run(
    write_suite: Callable[..., Path], results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CFQ_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CFQ_BENCH_DATA", raising=False)
    done = call(write_suite(axes={"data": ["german", "celeba"], "seed": [0]}), results)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("error: data set celeba: CelebA is not here")
    assert RecordStore(results).all() == []


def test_a_device_that_is_not_there_ends_the_suite_before_a_run(
    write_suite: Callable[..., Path], results: Path
) -> None:
    done = call(write_suite(), results, "--device", "cuda:99")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("error: device 'cuda:99' cannot be used")
    assert RecordStore(results).all() == []


def test_the_device_of_other_machines_is_not_looked_for_here(
    write_suite: Callable[..., Path], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enough(plan: Plan, options: SuiteOptions) -> Any:
        raise UserError(f"{options.executor} on {plan.device}")

    monkeypatch.setattr("cfq_bench.suites.run.make_workers", enough)
    done = call(write_suite(), results, "--executor", "submitit", "--device", "cuda:99")
    assert done.stderr.splitlines()[-1] == "error: submitit on cuda:99"


def test_workers_run_on_the_suite_s_device(
    write_suite: Callable[..., Path], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Plan] = []

    def kept(plan: Plan, options: SuiteOptions) -> Any:
        plans.append(plan)
        raise UserError("enough")

    monkeypatch.setattr("cfq_bench.suites.run.make_workers", kept)
    done = call(write_suite(), results, "--device", "cpu:0")
    assert done.stderr.splitlines()[-1] == "error: enough"
    assert [plan.device for plan in plans] == ["cpu:0"]
