"""Folders that turn read-only or full midway, and folders that are nothing: one line."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from click.testing import CliRunner, Result

import cfq_bench.experiment
from cfq_bench.cache import Cache, default_cache_dir
from cfq_bench.cli.main import main
from cfq_bench.config.loader import load_settings
from cfq_bench.data.sources import named_data_dir
from cfq_bench.errors import FolderError, UserError
from cfq_bench.experiment import _Outcome
from cfq_bench.files import named_folder, sweep_leftovers
from cfq_bench.record.store import RecordStore
from cfq_bench.suites import run as suites
from cfq_bench.suites.run import SuiteOptions, run_suite
from cfq_bench.suites.worker import Plan, work
from cfq_bench.sweeps.workers import claim, run_workers
from cfq_bench.tracking.wandb import Tracker, _lightning_logger
from tests.support import light_job
from tests.support import light_suite as light
from tests.support.records import made_record, made_rows

ROWS = made_rows(3)


class Disk:
    """A file system that refuses every write below a folder from the `after`-th on.

    Root may write anywhere, so that permissions would test nothing where tests run as root.
    """

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, code: int, after: int) -> None:
        self.folder, self.code, self.left, self.refused = folder, code, after, False
        for owner, name in (
            *((Path, name) for name in ("open", "replace", "unlink", "mkdir", "touch", "rename")),
            *((os, name) for name in ("open", "link")),
        ):
            patch.setattr(owner, name, self.guarded(name, getattr(owner, name)))

    @contextmanager
    def open(self) -> Iterator[None]:
        """Nothing is refused in the block."""
        self.left, left = 10**6, self.left
        yield
        self.left = left

    def guarded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def guard(path: Any, *arguments: Any, **named: Any) -> Any:
            if self.writes(name, Path(path), *arguments, **named):
                self.left -= 1
                if self.left < 0 and not (name == "unlink" and self.code == errno.ENOSPC):
                    self.refused = True
                    raise OSError(self.code, os.strerror(self.code), str(path))
            return real(path, *arguments, **named)

        return guard

    def writes(self, name: str, path: Path, *arguments: Any, **named: Any) -> bool:
        if self.folder not in (path, *path.parents):
            return False
        how = arguments[0] if arguments else named.get("mode", "r")
        if name == "open":
            return bool(how & (os.O_WRONLY | os.O_RDWR)) if isinstance(how, int) else how[0] != "r"
        return name != "mkdir" or not path.exists()


def everywhere(
    folder: Path, codes: tuple[int, ...] = (errno.EROFS,), most: int = 40
) -> Iterator[Disk]:
    """A disk that refuses the first write, then one that refuses the second, and so on."""
    for code in codes:
        for after in range(most):
            with pytest.MonkeyPatch.context() as patch:
                disk = Disk(patch, folder, code, after)
                yield disk
            if not disk.refused:
                break
        else:
            pytest.fail(f"after {most} writes there is no end")


def one_line(result: Result) -> str:
    assert result.exit_code == 2, (result.output, result.exception)
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: cannot ")
    assert "choose another folder" in line
    return line


def refusal(doing: Callable[[], object]) -> str | None:
    """What it says where it is refused."""
    try:
        doing()
    except FolderError as error:
        return str(error)
    return None


def test_a_record_is_replaced_with_all_beside_it_or_not_at_all(tmp_path: Path) -> None:
    old, new = made_record(error=0.1), made_record(error=0.2)
    store, other = RecordStore(tmp_path / "results"), RecordStore(tmp_path / "other")
    other.write(new, ROWS, b"network")
    new_rows = other.rows_path(new.run_id).read_bytes()
    states = set()
    for disk in everywhere(tmp_path, (errno.EROFS, errno.ENOSPC, errno.EACCES)):
        with disk.open():
            store.write(old, made_rows(1), b"old")
        said = refusal(lambda: store.write(new, ROWS, b"network"))
        assert (said is not None) == disk.refused
        assert said is None or "choose another folder" in said
        with disk.open():
            found = store.read(old.run_id)
            assert found in (old, new)
            states.add((found == new, store.rows_path(old.run_id).read_bytes() == new_rows))
            sweep_leftovers(store.runs_dir, older_than_s=-1.0)
            assert not list(store.runs_dir.glob(".tmp*"))
    # (False, True): the last rename of three was refused, which no order of steps avoids.
    assert states == {(False, False), (False, True), (True, True)}


@pytest.fixture
def light_runs(monkeypatch: pytest.MonkeyPatch) -> Path:
    def measure(settings: Any, options: Any, runtime: Any) -> _Outcome:
        cache = Cache(options.cache_dir)
        cache.get_or_make("test", {"seed": settings.seed}, lambda: {"x": torch.zeros(1)})
        return _Outcome("ok", metrics={"task/acc": 1.0}, rows=ROWS, network=b"network")

    monkeypatch.setattr(cfq_bench.experiment, "_measure", measure)
    return Path()


def run_once(folder: Path) -> Result:
    where = ["--results-dir", str(folder / "results"), "--cache-dir", str(folder / "cache")]
    command = ["run", *where, "--data", "german", "--wandb", "disabled", "-q"]
    return CliRunner().invoke(main, command)


@pytest.mark.usefixtures("light_runs")
@pytest.mark.parametrize("part", ["results", "cache"])
def test_a_run_says_it_in_one_line_and_the_next_one_works(tmp_path: Path, part: str) -> None:
    codes = []
    for i, disk in enumerate(everywhere(tmp_path)):
        folder = tmp_path / str(i)
        disk.folder = folder / part
        done = run_once(folder)
        codes.append(done.exit_code)
        recorded = list((folder / "results" / "runs").glob("*.json"))
        if done.exit_code:
            one_line(done)
        assert len(recorded) == (done.exit_code == 0)
        with disk.open():
            assert run_once(folder).exit_code == 0
    assert codes.count(2) > 3
    assert codes.count(0) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(errno.EROFS, "Read-only file system", "/x"), 2), (FileNotFoundError(2, "no"), 1)],
)
def test_a_full_disk_is_no_failure_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, code: int
) -> None:
    def measure(*_: Any) -> _Outcome:
        raise error

    monkeypatch.setattr(cfq_bench.experiment, "_measure", measure)
    assert run_once(tmp_path).exit_code == code
    assert len(list((tmp_path / "results" / "runs").glob("*.json"))) == (code == 1)


def test_a_worker_ends_where_its_folder_does_and_records_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(settings: Any, options: Any) -> None:
        options.publish(light.light_record(settings.model_dump(mode="json")), ROWS)

    monkeypatch.setattr(cfq_bench.experiment, "answer", answer)
    configs = light.many_configs(1)
    for i, disk in enumerate(everywhere(tmp_path)):
        disk.folder = tmp_path / str(i)
        plan = Plan(configs, str(disk.folder))
        said = refusal(lambda plan=plan: work(plan))  # type: ignore[misc]
        assert (said is not None) == disk.refused
        with disk.open():
            assert all(record.status == "ok" for record in RecordStore(disk.folder).all())
            # As when the process has ended, which a lease that it could not remove does not say.
            shutil.rmtree(disk.folder / "leases", ignore_errors=True)
            work(plan)
            assert len(RecordStore(disk.folder).all()) == 1


class Refused:
    """Workers that meet a folder which none of them can write."""

    def __init__(self, line: str) -> None:
        self.line, self.started, self.stopped = line, 0, False

    def start(self) -> None:
        self.started += 1

    def alive(self) -> int:
        return self.started

    def ended(self) -> list[str]:
        return [self.line] * self.started

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize("before", ["error: ", "cfq_bench.errors.FolderError: "])
def test_a_suite_says_once_what_all_its_workers_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    workers = Refused(f"{before}cannot write r.json: the file system is read-only")
    monkeypatch.setattr(suites, "make_workers", lambda *_: workers)
    options = SuiteOptions(results_dir=tmp_path, workers=3, wandb="disabled")
    with pytest.raises(FolderError, match=r"^cannot write r\.json: the file system is read-only$"):
        run_suite(light.light_runs(5), options)
    assert (workers.started, workers.stopped) == (3, True)


def test_a_sweep_says_once_what_all_its_processes_meet(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="the file system is read-only"):
        run_workers(light_job.Refused(), 2, lambda: None)
    assert capfd.readouterr().err == ""


def test_a_claim_in_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch, tmp_path, errno.EROFS, 0)
    with (
        pytest.raises(FolderError, match=r"cannot claim .*read-only"),
        claim(tmp_path / "claims" / "a.lock"),
    ):
        pass


# --- W&B ---


class Broken:
    """A W&B run whose folder cannot be written any more."""

    class settings:  # noqa: N801 (as W&B calls it)
        sync_dir = "results/wandb/offline-run-1"

    def log(self, *_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    define_metric = log


def test_a_folder_that_fails_w_and_b_fails_no_training(tmp_path: Path) -> None:
    run: Any = Broken()
    tracker = Tracker({}, _run=run)
    logger = _lightning_logger(run, tmp_path, tracker._lost)
    logger.log_metrics({"loss": 1.0}, step=1)
    logger.log_hyperparams({"a": 1})
    tracker.log({"budget/avg_bits": 4.0})
    assert tracker.note is not None
    assert "offline-run-1" in tracker.note


def test_a_run_whose_w_and_b_breaks_at_the_start_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Broken()
    broken.config = {}  # type: ignore[attr-defined]
    monkeypatch.setattr("cfq_bench.tracking.wandb._open", lambda *_, **__: (broken, None))
    more = {"run_id": "a", "name": "n", "config": {}, "group": "g", "tags": ["t" * 200]}
    tracker = Tracker.start("offline", directory=tmp_path, **more)  # type: ignore[arg-type]
    assert tracker.logger is False
    assert "Read-only" in str(tracker.note)


# --- names of folders ---


def path_parameters() -> Iterator[tuple[list[str], click.Parameter]]:
    """Every option and argument of the command line that is a path, with its command."""

    def walk(
        command: click.Command, names: list[str]
    ) -> Iterator[tuple[list[str], click.Parameter]]:
        for parameter in command.params:
            if isinstance(parameter.type, click.Path):
                yield names, parameter
        for name, below in getattr(command, "commands", {}).items():
            yield from walk(below, [*names, name])

    return walk(main, [])


def test_an_empty_path_is_refused_everywhere() -> None:
    found = list(path_parameters())
    assert len(found) > 30
    for names, parameter in found:
        for empty in ("", "  "):
            words = [empty] if isinstance(parameter, click.Argument) else [parameter.opts[0], empty]
            done = CliRunner().invoke(main, [*names, *words])
            assert done.exit_code == 2, (names, words)
            (line,) = done.stderr.splitlines()
            assert line.startswith(f"error: {parameter.opts[-1]} is empty: name a "), line


def test_a_blank_variable_names_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for blank in ("", "  "):
        monkeypatch.setenv("CFQ_BENCH_CACHE", blank)
        monkeypatch.setenv("CFQ_BENCH_DATA", blank)
        assert default_cache_dir().is_absolute()
        assert named_data_dir(None) is None
    monkeypatch.setenv("CFQ_BENCH_CACHE", "~nobody-of-this-name/x")
    with pytest.raises(UserError, match="no such user"):
        named_folder("CFQ_BENCH_CACHE")


def test_a_name_that_no_file_system_takes_is_one_line(tmp_path: Path) -> None:
    for name in ("x" * 5000 + ".yaml", "\x00.yaml", str(tmp_path / ("y" * 300)) + ".yaml"):
        with pytest.raises(UserError, match="does not exist"):
            load_settings(method=name)
