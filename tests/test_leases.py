"""Leases: one holder, taken over from the dead alone; many workers, each run published once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cfq_bench.files import run_id
from cfq_bench.processes import maker
from cfq_bench.record.store import RecordStore
from cfq_bench.suites.lease import Holder, Lease, Leases, read_holder
from cfq_bench.suites.run import SuiteOptions, run_suite
from cfq_bench.suites.worker import ATTEMPTS, Plan, work
from tests.support import light_suite as light
from tests.support.waiting import PATIENCE_S, ended, join, wait_for

ELSEWHERE = "another machine"


def held(leases: Leases, run: str = "run") -> Lease:
    lease = leases.claim(run)
    assert lease is not None
    return lease


def dead_pid() -> int:
    gone = subprocess.Popen(["true"])
    assert ended(gone) == 0
    return gone.pid


def dead_lease(leases: Leases, age_s: float, **changes: object) -> Path:
    """A lease as a process that died `age_s` seconds ago left it."""
    path = leases.folder / "run.lease"
    with held(leases) as lease:
        fields = {**vars(lease.holder), "pid": dead_pid(), **changes}
    path.write_text(json.dumps(fields))
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def test_only_one_holds_a_lease_and_its_release_frees_it(tmp_path: Path) -> None:
    mine, theirs = Leases(tmp_path), Leases(tmp_path)
    with held(mine):
        assert theirs.claim("run") is None
        held(theirs, "other").release()
    held(theirs).release()
    assert list(tmp_path.iterdir()) == []


def test_a_heartbeat_keeps_a_lease_for_longer_than_it_lasts(tmp_path: Path) -> None:
    mine, theirs = Leases(tmp_path, expiry_s=0.2), Leases(tmp_path, expiry_s=0.2)
    with held(mine) as lease:
        path = lease.path  # of another machine: nothing but its age says that it is alive
        object.__setattr__(lease.holder, "host", ELSEWHERE)
        path.write_text(json.dumps(vars(lease.holder)))
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            assert theirs.claim("run") is None
            time.sleep(0.05)


def test_a_heartbeat_outlives_a_moment_without_its_file(tmp_path: Path) -> None:
    with held(Leases(tmp_path, expiry_s=0.2)) as lease:
        text = lease.path.read_text()
        lease.path.unlink()
        time.sleep(0.2)
        lease.path.write_text(text)
        os.utime(lease.path, (0, 0))
        time.sleep(0.3)
        assert lease.path.stat().st_mtime > 0


def test_of_a_dead_process_on_this_machine_a_lease_is_free_at_once(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    dead_lease(leases, age_s=0)
    lease = held(leases)
    assert lease.holder.attempt == 2
    lease.release()


def test_of_another_machine_a_lease_is_free_when_it_has_expired(tmp_path: Path) -> None:
    leases = Leases(tmp_path, expiry_s=5.0)
    dead_lease(leases, age_s=1, host=ELSEWHERE)
    assert leases.claim("run") is None
    dead = leases.folder / "run.lease"
    os.utime(dead, (time.time() - 9, time.time() - 9))
    held(leases).release()


def test_a_lease_whose_writer_died_at_once_expires(tmp_path: Path) -> None:
    leases = Leases(tmp_path, expiry_s=5.0)
    (tmp_path / "run.lease").write_text("")
    assert leases.claim("run") is None
    os.utime(tmp_path / "run.lease", (0, 0))
    held(leases).release()


def test_of_many_who_take_over_one_wins(tmp_path: Path) -> None:
    for _ in range(20):
        dead_lease_path = tmp_path / "run.lease"
        dead_lease_path.write_text("")
        os.utime(dead_lease_path, (0, 0))
        barrier, won = threading.Barrier(8), []

        def take(barrier: threading.Barrier = barrier, won: list[Lease] = won) -> None:
            leases = Leases(tmp_path, expiry_s=5.0)
            barrier.wait(PATIENCE_S)
            lease = leases.claim("run")
            if lease is not None:
                won.append(lease)

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        join(threads)
        assert [lease.is_mine() for lease in won].count(True) == 1
        for lease in won:
            lease.release()
        assert not dead_lease_path.exists()


def test_who_took_over_meanwhile_keeps_it(tmp_path: Path) -> None:
    faster = Leases(tmp_path)

    class Slow(Leases):
        def _is_stale(self, path: Path, holder: Holder | None) -> bool:
            stale = super()._is_stale(path, holder)
            self.meanwhile = held(faster)
            return stale

    slow = Slow(tmp_path)
    dead_lease(slow, age_s=0)
    assert slow.claim("run") is None
    assert slow.meanwhile.is_mine()
    slow.meanwhile.release()


def test_who_was_taken_over_does_not_remove_the_new_lease(tmp_path: Path) -> None:
    lease = held(Leases(tmp_path))
    lease.path.write_text(json.dumps({**vars(lease.holder), "token": "new"}))
    assert not lease.is_mine()
    lease.release()
    new = read_holder(lease.path)
    assert new is not None
    assert new.token == "new"


def test_a_lease_of_the_future_is_not_waited_for(tmp_path: Path) -> None:
    leases, other = Leases(tmp_path, expiry_s=0.1), Leases(tmp_path, expiry_s=0.1)
    lease = dead_lease(leases, age_s=-1e6, host=ELSEWHERE)
    assert leases.claim("run") is None
    time.sleep(0.15)
    assert other.claim("run") is None  # it has not watched for long enough
    os.utime(lease, (lease.stat().st_mtime + 1,) * 2)
    assert leases.claim("run") is None  # somebody keeps it fresh
    time.sleep(0.15)
    taken = held(leases)
    assert taken.holder.attempt == 2
    taken.release()
    assert list(tmp_path.iterdir()) == []


def test_what_the_killed_left_goes_at_once_and_what_may_be_alive_stays(tmp_path: Path) -> None:
    leases, gone = Leases(tmp_path), dead_pid()
    mine, dead = (
        f".tmp-{maker().rpartition('-')[0]}-{pid}-0a-clock" for pid in (os.getpid(), gone)
    )
    for name in (mine, dead, ".tmp-00000000-1-0a-clock", ".clock-1-00112233", "b.lease"):
        (tmp_path / name).write_text("")
    (tmp_path / dead.replace("0a", "0b")).mkdir()
    at_work = held(Leases(tmp_path), "again")  # its record is stale
    dead_lease(leases, age_s=0)
    leases.sweep(lambda run: run in ("run", "again"))
    kept = {mine, ".tmp-00000000-1-0a-clock", ".clock-1-00112233", "b.lease", "again.lease"}
    assert {path.name for path in tmp_path.iterdir()} == kept
    at_work.release()
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    leases.sweep(lambda run: False)
    assert [path.name for path in tmp_path.iterdir()] == ["b.lease"]


class Killed:
    """A results folder where workers are killed, and the next one puts right what they left."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results = folder, folder / "results"
        self.configs = light.many_configs(3)
        self.plan = Plan(self.configs, str(self.results), wandb="disabled")

    def kill_at(self, point: str) -> None:
        worker = light.start(self.plan, self.folder, point)
        assert ended(worker) == -signal.SIGKILL, point

    def left(self) -> list[str]:
        """Suffixes of what lies in the leases' folder."""
        return sorted(path.suffix for path in (self.results / "leases").iterdir())

    def go_on(self) -> None:
        """The next call: every run has its record, and nothing else is left."""
        runs = light.light_runs(3)
        state = run_suite(runs, SuiteOptions(results_dir=self.results, wandb="disabled"))
        assert (state.done, state.failed) == (3, 0)
        store = RecordStore(self.results)
        assert {record.run_id for record in store.all()} == {run_id(c) for c in self.configs}
        assert [path for path in store.runs_dir.iterdir() if path.suffix != ".json"] == []
        assert list((self.results / "leases").iterdir()) == []
        published = light.lines(self.results / "published")
        assert len(published) == len(set(published))

    def attempts(self) -> list[int]:
        """How often each run was begun, in the order of the plan."""
        begun = light.lines(self.results / "attempts")
        return [begun.count(run_id(config)) for config in self.configs]


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Killed:
    monkeypatch.setitem(sys.modules, "cfq_bench.experiment", light.FAKE)
    monkeypatch.setattr("cfq_bench.suites.run.make_workers", lambda plan, _: light.Here(plan))
    monkeypatch.setattr("cfq_bench.suites.run.POLL_S", 0.0)
    return Killed(tmp_path)


class TestAWorkerIsKilled:
    """At a named point each; the next call puts it right, and no run is published twice."""

    def test_before_the_lease(self, killed: Killed) -> None:
        killed.kill_at("before the lease")
        assert killed.left() == []
        killed.go_on()
        assert killed.attempts() == [1, 1, 1]

    def test_after_the_lease(self, killed: Killed) -> None:
        killed.kill_at("after the lease")
        assert killed.left() == [".lease"]
        killed.go_on()
        assert killed.attempts() == [1, 1, 1]

    def test_during_the_run(self, killed: Killed) -> None:
        killed.kill_at("during the run")
        assert killed.left() == [".lease"]
        killed.go_on()
        assert killed.attempts() == [1, 1, 1]  # the killed one did not come to note its own

    def test_between_the_files_of_a_run_and_its_record(self, killed: Killed) -> None:
        killed.kill_at("between files and record")
        assert killed.left() == [".lease"]
        assert RecordStore(killed.results).all() == []
        killed.go_on()
        assert killed.attempts() == [2, 1, 1]

    def test_between_the_record_and_the_release(self, killed: Killed) -> None:
        killed.kill_at("between record and release")
        assert killed.left() == [".lease"]
        assert len(RecordStore(killed.results).all()) == 1
        killed.go_on()
        assert killed.attempts() == [1, 1, 1]

    def test_during_the_release(self, killed: Killed) -> None:
        killed.kill_at("during the release")
        assert killed.left() == [".lease"]
        killed.go_on()
        assert killed.attempts() == [1, 1, 1]

    def test_after_the_release(self, killed: Killed) -> None:
        killed.kill_at("after the release")
        assert killed.left() == []
        killed.go_on()
        assert killed.attempts() == [1, 1, 1]

    def test_during_a_takeover(self, killed: Killed) -> None:
        killed.kill_at("after the lease")
        killed.kill_at("during a takeover")
        assert killed.left() == [""]  # the old lease, moved aside
        killed.go_on()
        assert killed.attempts() == [1, 1, 1]

    def test_beside_another_that_goes_on(self, killed: Killed) -> None:
        killed.kill_at("during the run")
        other = light.start(killed.plan, killed.folder)
        assert ended(other) == 0
        assert killed.attempts() == [1, 1, 1]
        killed.go_on()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "left"),
    [
        (["in a long run"], []),
        (["in a long call"], []),
        (["in a long call", "on a disk that hangs"], [".lease"]),
    ],
)
def test_a_worker_ends_with_its_parent(how: list[str], left: list[str], tmp_path: Path) -> None:
    plan = Plan(light.many_configs(1), str(tmp_path / "results"), wandb="disabled")
    worker = light.start(plan, tmp_path, "after a short grace", *how)
    wait_for("the run", lambda: light.lines(tmp_path / "results/attempts"))
    assert worker.stdin is not None
    worker.stdin.close()
    assert ended(worker, 20) == (1 if left else 130)
    assert [path.suffix for path in (tmp_path / "results/leases").iterdir()] == left
    assert RecordStore(tmp_path / "results").all() == []


def test_a_run_that_kills_its_workers_is_recorded_as_failed(tmp_path: Path) -> None:
    (config,) = light.many_configs(1)
    leases = Leases(tmp_path / "leases")
    dead = dead_lease(leases, age_s=0, attempt=ATTEMPTS)
    dead.rename(dead.with_name(f"{run_id(config)}.lease"))
    assert work(Plan([config], str(tmp_path), wandb="disabled")) == 1
    record = RecordStore(tmp_path).read(run_id(config))
    assert record is not None
    assert record.status == "failed"
    assert "killed 2 times" in str(record.reason)


def test_the_lease_of_who_died_between_record_and_release_is_removed(tmp_path: Path) -> None:
    mine, (config,) = Leases(tmp_path / "leases"), light.many_configs(1)
    store = RecordStore(tmp_path)
    store.runs_dir.mkdir()
    store.publish(light.light_record(config), None)
    dead = dead_lease(mine, age_s=0)
    dead = dead.rename(dead.with_name(f"{run_id(config)}.lease"))
    other = held(mine, "of another suite")
    assert work(Plan([config], str(tmp_path), wandb="disabled")) == 0
    assert not dead.exists()
    assert other.is_mine()
    other.release()


def test_who_publishes_second_changes_nothing(tmp_path: Path) -> None:
    (config,) = light.many_configs(1)
    store = RecordStore(tmp_path)
    store.runs_dir.mkdir()
    assert store.publish(light.light_record(config), None)
    before = store.path(run_id(config)).read_bytes()
    other = light.light_record(config, metrics={"task/acc": 0.0})
    assert not store.publish(other, None)
    assert store.path(run_id(config)).read_bytes() == before
    assert [path.suffix for path in store.runs_dir.iterdir()] == [".json"]
