"""Processes: which one made a file, whether it still lives, and how a worker ends with its parent.

Processes of a results folder may be killed at any moment, on any of several machines. What can be
known of one: on its own machine, whether it lives; elsewhere, nothing.
"""

import faulthandler
import hashlib
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

GRACE_S = 3.0
"""Between asking a process to end, as Ctrl-C does, and ending it wherever it is."""


def host() -> str:
    """This machine and process namespace: where the number of a process means something."""
    try:
        return f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def maker() -> str:
    """This process, in the names of its temporary files (see `is_left_over`)."""
    return f"{_digest(host())}-{os.getpid()}"


def is_left_over(name: str) -> bool:
    """Whether the process in a file's name is known to be dead.

    >>> is_left_over(f".tmp-{maker()}-0011aabb"), is_left_over("not named by its maker")
    (False, False)
    """
    found = re.match(r"(?:\.tmp-)?([0-9a-f]{8})-(\d{1,9})-", name)
    return found is not None and found[1] == _digest(host()) and is_over(int(found[2]))


def started(pid: int) -> str:
    """When a living process of this machine started, in the system's ticks; empty if unknown."""
    return _stat(pid)[1]


def is_over(pid: int, since: str = "") -> bool:
    """Whether a process of this machine is known to have ended.

    Args:
        pid: its number.
        since: what `started` said of it, so that a reused number is not taken for it.
    """
    if os.name != "posix":
        return False  # signal 0 is no question there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it lives, as another user's
    state, found = _stat(pid)
    return state == "Z" or (since != "" and found not in ("", since))


def end_after(gone: Callable[[], object], at_last: Callable[[], object] = lambda: None) -> None:
    """End this process when `gone` returns, as Ctrl-C does; at once if that takes too long.

    A long call into C sees no Ctrl-C, a cleanup may hang, and an interpreter with torch in it takes
    seconds to end. Nothing is half written then: files are whole or absent. A second Ctrl-C does
    not break the cleanup of the first.

    Args:
        gone: returns when there is no more reason to live; it is called in a thread.
        at_last: called before the process is ended from outside of what it does.
    """
    signal.signal(signal.SIGINT, _interrupt_once)

    def watch() -> None:
        gone()
        # Threads of an interpreter that is ending do not run any more: this one is the system's.
        silent = Path(os.devnull).open("w")  # noqa: SIM115 (until the end)
        faulthandler.dump_traceback_later(GRACE_S + 1.0, exit=True, file=silent)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(GRACE_S)
        try:
            at_last()
        finally:
            os._exit(130)

    threading.Thread(target=watch, daemon=True).start()


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _stat(pid: int) -> tuple[str, str]:
    """State and start of a process; empty where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]
