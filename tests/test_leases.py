"""Leases: one holder, taken over from the dead alone; many workers, each run published once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from cfq_bench.files import run_id
from cfq_bench.record.store import RecordStore
from cfq_bench.suites.lease import Holder, Lease, Leases, read_holder
from cfq_bench.suites.worker import ATTEMPTS, Plan, work
from tests.support import light_suite as light

ELSEWHERE = "another machine"


def held(leases: Leases, run: str = "run") -> Lease:
    lease = leases.claim(run)
    assert lease is not None
    return lease


def dead_lease(leases: Leases, age_s: float, **changes: object) -> Path:
    """A lease as a process that died `age_s` seconds ago left it."""
    path = leases.folder / "run.lease"
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
        check=True,
    )
    with held(leases) as lease:
        fields = {**vars(lease.holder), "pid": int(gone.stdout), **changes}
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
    mine.close()
    theirs.close()
    assert list(tmp_path.iterdir()) == []


def test_a_heartbeat_keeps_a_lease_for_longer_than_it_lasts(tmp_path: Path) -> None:
    mine, theirs = Leases(tmp_path, expiry_s=0.4), Leases(tmp_path, expiry_s=0.4)
    with held(mine) as lease:
        path = lease.path  # of another machine: nothing but its age says that it is alive
        object.__setattr__(lease.holder, "host", ELSEWHERE)
        path.write_text(json.dumps(vars(lease.holder)))
        end = time.monotonic() + 1.2
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
            barrier.wait()
            lease = leases.claim("run")
            if lease is not None:
                won.append(lease)

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
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


def test_six_workers_three_killed_every_run_published_once(tmp_path: Path) -> None:
    configs = light.many_configs(60)
    plan = Plan(configs, str(tmp_path / "results"), wandb="disabled", expiry_s=3.0)
    workers = [light.start(plan, tmp_path) for _ in range(6)]
    attempts, published = tmp_path / "results/attempts", tmp_path / "results/published"
    store, leases = RecordStore(tmp_path / "results"), tmp_path / "results/leases"
    for killed in workers[:3]:
        count = len(light.lines(attempts))
        while len(light.lines(attempts)) < count + 4:
            time.sleep(0.01)
        killed.kill()
        killed.wait()
        # Its run is taken over once: who kills that worker, too, gets a failed record.
        for path in leases.glob("*.lease"):
            holder = read_holder(path)
            while holder is not None and holder.pid == killed.pid and path.exists():
                if store.path(path.stem).exists():
                    break
                time.sleep(0.01)
    assert [worker.wait(60) for worker in workers[3:]] == [0, 0, 0]
    names = {run_id(config) for config in configs}
    assert {record.run_id for record in store.all()} == names
    assert {record.status for record in store.all()} == {"ok"}
    told = light.lines(published)
    assert len(told) == len(set(told))
    assert len(told) >= 57  # a worker may die between publishing and telling
    left = [path.name for path in store.runs_dir.iterdir() if path.suffix != ".json"]
    assert [name for name in left if not name.startswith(".tmp-")] == []
    assert list((tmp_path / "results/leases").glob("*.lease")) == []


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
