"""Processes that share a sweep: who works on what, and who is still alive.

A claim is a locked file. The system takes the lock from a process that is killed, so that others
find out at once, without a heartbeat. It needs a folder whose file locks work: a local disk, NFS 4.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Protocol

import filelock

from cfq_bench.errors import UserError
from cfq_bench.files import explained
from cfq_bench.processes import GRACE_S, end_after

POLL_S = 0.2


class Job(Protocol):
    """Work that several processes may share; it can be sent to another process."""

    def work(self, worker: int, tick: Callable[[], None]) -> None:
        """Do a share of it.

        Args:
            worker: 0 for the first process, 1 for the second.
            tick: called after each piece of work.
        """
        ...


def run_workers(job: Job, workers: int, tick: Callable[[], None]) -> bool:
    """Do a job in this process, or in several.

    Args:
        job: the job.
        workers: processes; 1 is this one.
        tick: called now and then, in this process.

    Returns:
        Whether every process ended well. One that is killed leaves its share to the others.

    Raises:
        UserError: what one of them met and the others would meet; they are ended.
    """
    if workers == 1:
        job.work(0, tick)
        return True
    context = multiprocessing.get_context("spawn")
    said = context.SimpleQueue()
    processes = [context.Process(target=_main, args=(job, i, said)) for i in range(workers)]
    for process in processes:
        process.start()
    try:
        while any(process.is_alive() for process in processes) and said.empty():
            tick()
            time.sleep(POLL_S)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(GRACE_S)
            process.kill()
            process.join()
    if not said.empty():
        raise UserError(said.get())
    tick()
    return all(process.exitcode == 0 for process in processes)


def _main(job: Job, worker: int, said: "SimpleQueue[str]") -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        end_after(parent.join)
    try:
        with explained("share the sweep's work"):
            job.work(worker, lambda: None)
    except UserError as error:
        said.put(str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Try to hold a claim while the block runs; gives whether it is ours."""
    lock = filelock.FileLock(path)
    with explained(f"claim {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        ours = _acquired(lock)
    try:
        yield ours
    finally:
        if ours:
            lock.release()


def _acquired(lock: filelock.FileLock) -> bool:
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:  # which is an OSError, but no refusal
        return False
    return True


def is_held(path: Path) -> bool:
    """Whether a living process holds a claim."""
    if not path.exists():
        return False
    with claim(path) as ours:
        return not ours
