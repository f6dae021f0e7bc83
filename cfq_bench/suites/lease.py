"""Leases: who is at work on which run, in a folder that several machines may share.

A lease is a file that only one process can create. Its holder keeps it fresh by its modification
time; one that went stale, or whose process is gone, is taken over by a rename, which one wins.
Leases keep two workers from doing one run, most of the time: that a run is *published* once is
`RecordStore.publish`'s promise, and needs no clock.
"""

import json
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from cfq_bench.files import sweep_leftovers, temporary
from cfq_bench.processes import host, is_over, started

EXPIRY_S = 60.0
"""Age of the last heartbeat from which a lease's holder counts as dead."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lease.

    Attributes:
        token: a word of its own for every lease.
        host: machine and process namespace in which `pid` means something.
        pid: the process.
        started: when it started, as the system counts, so that a reused pid is not it.
        attempt: 1 for a run's first worker, one more for each that took over.
    """

    token: str
    host: str
    pid: int
    started: str
    attempt: int

    def is_gone(self) -> bool:
        """Whether the process is known to be dead; on other machines nothing is known."""
        return self.host == host() and is_over(self.pid, self.started)


class Lease:
    """One lease that this process holds, kept fresh by a thread until it is released.

    Args:
        path: its file.
        holder: this process.
        expiry_s: as in `Leases`.
    """

    def __init__(self, path: Path, holder: Holder, expiry_s: float) -> None:
        self.path, self.holder = path, holder
        self._stop = threading.Event()
        self._beat = threading.Thread(target=self._keep_fresh, args=(expiry_s / 4,), daemon=True)
        self._beat.start()

    def is_mine(self) -> bool:
        """Whether nobody took it over, as one does from a holder that was silent for too long."""
        return read_holder(self.path) == self.holder

    def release(self) -> None:
        """Stop the heartbeat and remove the file, if it is still this lease's."""
        self._stop.set()
        self._beat.join()
        if self.is_mine():
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.release()

    def _keep_fresh(self, every_s: float) -> None:
        while not self._stop.wait(every_s):
            if read_holder(self.path) not in (self.holder, None):
                return
            try:
                os.utime(self.path)
            except OSError:
                continue  # a network disk that is away, or a claim that puts the file back


class Leases:
    """The leases of a results folder.

    Args:
        folder: where they lie; made when needed.
        expiry_s: seconds without a heartbeat from which a lease may be taken over.
    """

    def __init__(self, folder: Path, expiry_s: float = EXPIRY_S) -> None:
        self.folder, self.expiry_s = folder, expiry_s
        folder.mkdir(parents=True, exist_ok=True)
        self._mine: weakref.WeakSet[Lease] = weakref.WeakSet()
        self._seen: dict[Path, tuple[int, float]] = {}

    def claim(self, run_id: str) -> Lease | None:
        """Take the lease of a run, or None where somebody is at work on it."""
        path = self._path(run_id)
        lease = self._create(path, attempt=1)
        if lease is not None:
            return lease
        stale = read_holder(path)  # before its age: who takes it over meanwhile is somebody else
        if not self._is_stale(path, stale):
            return None
        aside = temporary(self.folder, "stale")
        try:
            path.rename(aside)
        except FileNotFoundError:
            return None  # another worker was faster
        try:
            if read_holder(aside) != stale:  # it was taken over before, and this one is at work
                os.link(aside, path)
                return None
        except (FileExistsError, FileNotFoundError):  # swept meanwhile: it looks as old as it is
            return None
        finally:
            aside.unlink(missing_ok=True)
        return self._create(path, attempt=1 if stale is None else stale.attempt + 1)

    def release_all(self) -> None:
        """Remove the leases of this object as they are, for a process that ends at once."""
        for lease in list(self._mine):
            if lease.is_mine():
                lease.path.unlink(missing_ok=True)

    def sweep(self, is_recorded: Callable[[str], bool]) -> None:
        """Remove what dead processes left: leases of runs with a record, and temporary files.

        The lease of a dead worker at a run without a record stays: it says how often the run was
        tried. That of a living one stays too: the record may be stale, and is made again.
        """
        for path in self.folder.glob("*.lease"):
            if is_recorded(path.stem) and self._is_stale(path, read_holder(path)):
                try:
                    path.unlink(missing_ok=True)
                except OSError:
                    continue  # the folder is somebody else's
        sweep_leftovers(self.folder)

    def _path(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.lease"

    def _create(self, path: Path, attempt: int) -> Lease | None:
        pid = os.getpid()
        holder = Holder(secrets.token_hex(8), host(), pid, started(pid), attempt)
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return None
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(holder), file)
        lease = Lease(path, holder, self.expiry_s)
        self._mine.add(lease)
        return lease

    def _is_stale(self, path: Path, holder: Holder | None) -> bool:
        """Whether its holder is dead, as far as one can see.

        Its silence is measured by the file system's clock, or by this process's since it first saw
        the last heartbeat: a date in the future, by a clock that was wrong, is not waited for.
        """
        if holder is not None and holder.is_gone():
            return True
        try:
            beat = path.stat().st_mtime_ns
            silent_s = self._now() - beat / 1e9
        except FileNotFoundError:
            return False
        now, seen = time.monotonic(), self._seen.get(path)
        if seen is None or seen[0] != beat:
            seen = self._seen[path] = (beat, now)
        return max(silent_s, now - seen[1]) > self.expiry_s

    def _now(self) -> float:
        """The time by the file system's clock, which machines of a shared folder agree on."""
        clock = temporary(self.folder, "clock")
        try:
            clock.touch()
            return clock.stat().st_mtime
        finally:
            clock.unlink(missing_ok=True)


def read_holder(path: Path) -> Holder | None:
    """Who holds a lease; None where the file is gone, or just being written."""
    try:
        return Holder(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
