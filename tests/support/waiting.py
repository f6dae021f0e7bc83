"""Waiting in tests: each wait has a deadline, and says what it saw when nothing came."""

from __future__ import annotations

import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_S = 100.0
"""What takes a second or two on an idle machine."""


def wait_for(
    what: str,
    come: Callable[[], T],
    seen: Callable[[], object] = lambda: "nothing of it",
    seconds: float = PATIENCE_S,
) -> T:
    """Ask until the answer is true; it is returned."""
    end = time.monotonic() + seconds
    while not (found := come()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not after {seconds:g} s; seen: {seen()}")
        time.sleep(0.01)
    return found


def ended(process: subprocess.Popen[Any], seconds: float = PATIENCE_S) -> int:
    """The exit code of a process that ends by itself; its standard input stays open."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{process.args}: still at work after {seconds:g} s") from None


def output_of(process: subprocess.Popen[str], seconds: float = PATIENCE_S) -> tuple[str, str]:
    """What a process printed until it ended, on standard output and standard error."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate(timeout=PATIENCE_S)
        why = f"{process.args}: still at work after {seconds:g} s; printed: {out}{err}"
        raise AssertionError(why) from None


def run_process(
    command: list[str], seconds: float = PATIENCE_S, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its exit code is; its output is text."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )
    out, err = output_of(process, seconds)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def run_python(code: str, *arguments: str | Path, seconds: float = PATIENCE_S, **more: Any) -> str:
    """What a program prints that must end well, in an interpreter of its own."""
    done = run_process([sys.executable, "-c", code, *map(str, arguments)], seconds, **more)
    assert done.returncode == 0, f"exit code {done.returncode}; printed: {done.stdout}{done.stderr}"
    return done.stdout


def join(parts: Iterable[threading.Thread | BaseProcess], seconds: float = PATIENCE_S) -> None:
    """Wait until threads or processes have ended."""
    end = time.monotonic() + seconds
    every = list(parts)
    for part in every:
        part.join(max(0.0, end - time.monotonic()))
    alive = [part.name for part in every if part.is_alive()]
    assert not alive, f"{', '.join(alive)} of {len(every)} still at work after {seconds:g} s"


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    """Answer requests in a thread while the block runs."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop = threading.Thread(target=server.shutdown, daemon=True)
        stop.start()
        join([stop, thread])
