"""The command line and the run behind it: results, exit codes, and what bad input leaves behind."""

import errno
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import cfq_bench.experiment
from cfq_bench.cli.main import main
from tests.support.waiting import run_process
from tests.support.wandb_file import offline_runs

SHORT = [
    "--data",
    "german",
    "data.fit.epochs=1",
    "data.fit.teacher_epochs=8",
    "teacher.lr=5.0e-3",
    "evaluation.max_rows=10",
]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def records(results: Path) -> list[Path]:
    return sorted((results / "runs").glob("*.json"))


def leftovers(results: Path) -> list[Path]:
    return [path for path in results.rglob("*") if ".tmp" in path.name]


def without_times(path: Path) -> dict[str, object]:
    record = json.loads(path.read_text())
    record["metrics"] = {k: v for k, v in record["metrics"].items() if not k.startswith("time/")}
    del record["seconds"], record["provenance"]["utc"]
    return dict(record)


def one_line_error(result: Result, code: int = 2) -> str:
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    lines = [line for line in result.stderr.splitlines() if line]
    assert len(lines) == 1
    return lines[0]


def test_a_run_prints_a_table_and_writes_a_record(results: Path) -> None:
    done = call("run", "--method", "lsq", "--results-dir", results, *SHORT)
    assert done.exit_code == 0, done.output
    for word in ("accuracy", "agreement", "drift", "VD", "CRG", "DirSim", "boundary error", "bits"):
        assert word in done.stdout
    (path,) = records(results)
    assert str(path) in done.stdout
    assert path.with_suffix(".parquet").is_file()


def test_a_second_call_answers_from_the_record(results: Path) -> None:
    arguments = ["run", "--method", "fp32", "--results-dir", results, *SHORT]
    first = call(*arguments)
    (path,) = records(results)
    before = path.stat().st_mtime_ns
    second = call(*arguments)
    assert "answered from the record" in second.stderr
    assert second.stdout == first.stdout
    assert path.stat().st_mtime_ns == before
    assert call(*arguments, "--force").exit_code == 0
    assert path.stat().st_mtime_ns > before


@pytest.mark.slow
def test_the_same_seed_gives_the_same_record(results: Path, tmp_path: Path) -> None:
    for folder, cache in ((results, "a"), (tmp_path / "again", "b")):  # nothing shared by a cache
        where = ["--results-dir", folder, "--cache-dir", tmp_path / cache]
        assert call("run", "--method", "cfq", *where, *SHORT).exit_code == 0
    (first,), (second,) = records(results), records(tmp_path / "again")
    assert without_times(first) == without_times(second)
    rows = [path.with_suffix(".parquet").read_bytes() for path in (first, second)]
    assert rows[0] == rows[1]


@pytest.mark.slow
def test_quiet_prints_the_result_alone_and_leaves_the_folder_clean(tmp_path: Path) -> None:
    cwd, home = tmp_path / "cwd", tmp_path / "home"
    cwd.mkdir()
    home.mkdir()
    command = [sys.executable, "-c", "from cfq_bench.cli.main import main; main()"]
    command += ["run", "-q", "--method", "lsq", "--wandb", "offline"]
    command += ["--results-dir", str(tmp_path / "out"), *SHORT]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB_", "XDG_"))}
    environment |= {"HOME": str(home), "WANDB_CONFIG_DIR": str(home / "wandb")}
    done = run_process(command, cwd=cwd, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("lsq on german")
    assert list(cwd.iterdir()) == []
    # torchmetrics imports matplotlib, which keeps its list of fonts there.
    assert {path.name for path in home.glob("*/*")} <= {"matplotlib"}
    (run,) = offline_runs(tmp_path / "out")
    assert run.exit_code == 0


@pytest.mark.slow
def test_list_show_and_compare(results: Path) -> None:
    for method, seed in (("fp32", 0), ("lsq", 0), ("lsq", 1)):
        done = call("run", "--method", method, "--results-dir", results, *SHORT, f"seed={seed}")
        assert done.exit_code == 0
    listed = call("list").stdout
    for word in ("cfq_distilled", "compas", "mlp4", "search", "german/paper"):
        assert word in listed
    identity = records(results)[0].stem
    page = call("show", identity[:6], "--results-dir", results).stdout
    assert identity in page
    assert "provenance" in page
    assert "nothing" not in page
    table = call("compare", "--results-dir", results, "--markdown").stdout
    assert "| lsq | 2 |" in table
    assert "±" in table
    assert "boundary error" in table


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "cfqq"], ["unknown method 'cfqq'", "did you mean 'cfq'?"]),
        (["--data", "./nothing.yaml"], ["data file ./nothing.yaml does not exist"]),
        (["--conf-dir", "nowhere"], ["nowhere is not a folder"]),
        (["method.eta=-1"], ["method.eta"]),
        (["--device", "warp9"], ["warp9"]),
        (["--device", "cuda:7"], ["cuda:7"]),
        (["budget.allocator=fixed", "budget.bits=[4,4]"], ["budget.bits", "3"]),
        (["budget.allocator=fixed", "budget.bits=[4,5,4]"], ["budget.bits", "5"]),
    ],
)
def test_bad_arguments_are_one_line(results: Path, arguments: list[str], words: list[str]) -> None:
    message = one_line_error(call("run", "--results-dir", results, *arguments))
    for word in words:
        assert word in message
    assert records(results) == []


def make_table(folder: Path, rows: list[str]) -> Path:
    (folder / "loans.csv").write_text("income,home,paid\n" + "\n".join(rows) + "\n")
    data = folder / "loans.yaml"
    data.write_text(
        "about: loans\nloader: loans.csv\ntarget: {column: paid, favourable: 1}\n"
        "features:\n  income: {kind: integer, unit: EUR}\n  home: {kind: categorical}\n"
        "protected: [home]\nsplit: {train: 80, validation: 0.2}\n"
        "fit: {batch_size: 16, teacher_epochs: 20, epochs: 2, weight_decay: 0.0}\n"
        "actions: actions.yaml\n"
    )
    (folder / "actions.yaml").write_text(
        "about: loans\nmax_features: 2\nbounds: {low: 0.0, high: 1.0}\ngamma: 1.0\ngrid: true\n"
        "cost: weighted_l1\nfeatures: {income: increase_only, home: any}\n"
    )
    return data


GOOD_ROWS = [f"{20 + i},{'rent' if i % 3 else 'own'},{int(i > 60)}" for i in range(120)]


def test_a_table_of_ones_own(results: Path, tmp_path: Path) -> None:
    data = make_table(tmp_path, GOOD_ROWS)
    where = ["--data", data, "--results-dir", results]
    done = call("run", "--method", "lsq", *where, "teacher.lr=1e-2")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("lsq on loans")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["thirty,own,1", *GOOD_ROWS], ["'income'", "row 0", "a number", "'thirty'"]),
        (["30.5,own,1", *GOOD_ROWS], ["'income'", "row 0", "a whole number", "30.5"]),
        ([*GOOD_ROWS, ",own,1"], ["'income'", "1 missing", "row 120"]),
        ([row.replace(",1", ",2") for row in GOOD_ROWS], ["'paid'", "favourable value 1"]),
        ([row[:-1] + "1" for row in GOOD_ROWS], ["'paid'", "exactly 2 values, got 1"]),
        (GOOD_ROWS[::2], ["data.split.train is 80", "60 rows"]),
        ([], ["loans.csv", "no rows"]),
    ],
)
def test_a_bad_table_is_one_line(
    results: Path, tmp_path: Path, rows: list[str], words: list[str]
) -> None:
    data = make_table(tmp_path, rows)
    message = one_line_error(call("run", "--data", data, "--results-dir", results))
    for word in words:
        assert word in message
    assert records(results) == []


def test_a_missing_column_is_named(results: Path, tmp_path: Path) -> None:
    data = make_table(tmp_path, GOOD_ROWS)
    (tmp_path / "loans.csv").write_text("income,house,paid\n1,own,1\n")
    message = one_line_error(call("run", "--data", data, "--results-dir", results))
    assert "column 'home' is missing" in message
    assert "income, house, paid" in message


def test_a_results_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    message = one_line_error(call("run", "--results-dir", blocker / "results", *SHORT))
    assert str(blocker) in message


def test_a_corrupt_cached_file(results: Path, tmp_path: Path) -> None:
    where = ["--cache-dir", tmp_path / "cache", "--results-dir", results]
    arguments = ["run", "--method", "fp32", *where, *SHORT]
    assert call(*arguments).exit_code == 0
    (teacher,) = (tmp_path / "cache" / "teacher").glob("*.pt")
    teacher.write_bytes(teacher.read_bytes()[:-20])
    message = one_line_error(call(*arguments, "--force"))
    assert str(teacher) in message
    assert "delete it" in message


def test_a_corrupt_record_is_never_read_as_a_result(results: Path) -> None:
    arguments = ["run", "--method", "fp32", "--results-dir", results, *SHORT]
    assert call(*arguments).exit_code == 0
    (path,) = records(results)
    path.write_text(path.read_text()[:-50])
    message = one_line_error(call(*arguments))
    assert str(path) in message
    assert call(*arguments, "--force").exit_code == 0


@pytest.mark.slow
def test_a_full_disk_while_the_record_is_written(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run", "--method", "fp32", "--results-dir", results, *SHORT]
    assert call(*arguments, "seed=3").exit_code == 0  # teacher and actions are cached now
    for path in records(results):
        path.unlink()
    evaluate = cfq_bench.experiment.evaluate

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def evaluate_until_the_disk_is_full(*arguments: Any) -> Any:
        result = evaluate(*arguments)
        monkeypatch.setattr(os, "fsync", full)
        return result

    monkeypatch.setattr(cfq_bench.experiment, "evaluate", evaluate_until_the_disk_is_full)
    message = one_line_error(call(*arguments, "seed=3"))
    assert "No space left" in message or "full" in message
    assert records(results) == []
    assert leftovers(results) == []


def test_a_failed_run_is_a_record_with_its_reason(results: Path) -> None:
    arguments = ["run", "--method", "ft32", "--results-dir", results, *SHORT, "training.lr=1e38"]
    done = call(*arguments)
    assert done.exit_code == 1
    (path,) = records(results)
    record = json.loads(path.read_text())
    assert record["status"] == "failed"
    assert "not finite" in record["reason"]
    assert record["reason"] in done.stdout
    again = call(*arguments)  # it is tried again, not answered from the failure
    assert "answered from the record" not in again.stderr


def test_ctrl_c_in_training_leaves_nothing_behind(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, steps = signal.getsignal(signal.SIGINT), []

    def at_the_third_step(*_: object) -> None:
        steps.append(1)
        if len(steps) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("cfq_bench.training.trainer._Watch.on_train_batch_end", at_the_third_step)
    try:
        done = call("run", "--method", "lsq", "--results-dir", results, *SHORT)
    finally:
        signal.signal(signal.SIGINT, before)  # Lightning does not hear it twice
    assert done.exit_code == 130
    assert len(steps) < 6
    assert done.stderr.splitlines()[-1] == "interrupted; nothing was recorded"
    assert "Traceback" not in done.output
    assert done.stdout == ""
    assert records(results) == []
    assert leftovers(results) == []


@pytest.mark.slow
def test_every_run_is_a_wandb_run_with_history_and_all_metrics(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE")
    where = ["--results-dir", results, "--wandb", "offline"]
    for seed in (0, 1):
        done = call(
            "run", "--method", "cfq", *where, *SHORT, f"seed={seed}", "training.log_every=2"
        )
        assert done.exit_code == 0, done.output
    first, second = offline_runs(results)
    assert first.group == second.group  # runs that differ in the seed alone
    assert first.name != second.name
    assert {"cfq", "german", "mlp2", "3.5b"} <= set(first.tags)
    assert first.config["method"]["eta"] == 1.0
    keys = {key for row in first.history for key in row}
    assert {"search/loss", "search/expected_bits", "tune/loss", "budget/avg_bits"} <= keys
    record = json.loads((results / "runs" / f"{first.config['run_id']}.json").read_text())
    measured = {key: value for key, value in record["metrics"].items() if value is not None}
    assert measured.items() <= first.summary.items()
    assert first.metrics["budget/*"]
    assert first.exit_code == 0
