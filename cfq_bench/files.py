"""Files that are whole or absent, and the canonical text that names them by their content.

Results and cached tensors are written by processes that may be killed, run side by side, or meet a
full disk. Everything goes to a temporary file in the same folder first and is then renamed, so that
a reader sees the old file or the new one, never a part.
"""

import errno
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cfq_bench.errors import FolderError, UserError
from cfq_bench.processes import is_left_over, maker

TEMP_PREFIX = ".tmp-"
ABANDONED_S = 3600.0
"""Age from which a temporary file is a killed process's, where nothing else is known of that."""

_PLAIN_WORDS = {
    errno.ENOSPC: "the disk is full: free space or choose another folder",
    errno.EDQUOT: "the disk quota is used up: free space or choose another folder",
    errno.EFBIG: "the file is larger than this account or file system allows: "
    "raise the limit or choose another folder",
    errno.EACCES: "permission denied: change the permissions or choose another folder",
    errno.EPERM: "permission denied: change the permissions or choose another folder",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.ENOTDIR: "a file stands where a folder should be: choose another folder",
    errno.EEXIST: "a file stands where a folder should be: choose another folder",
    errno.EISDIR: "a folder stands where a file should be: remove it or choose another folder",
}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS)


def explain(doing: str, error: OSError) -> FolderError:
    """Say in plain words why the operating system refused, and what to do.

    >>> str(explain("write a.json", OSError(28, "No space left on device")))
    'cannot write a.json: the disk is full: free space or choose another folder'
    """
    reason = f"{error.strerror or error}: choose another folder"
    return FolderError(f"cannot {doing}: {_PLAIN_WORDS.get(error.errno or 0, reason)}")


def has_no_room(error: OSError) -> bool:
    """Whether the operating system refused to write: a full disk, a folder that is read-only."""
    return error.errno in _NO_ROOM


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn what the operating system refuses in the block into one line.

    Raises:
        UserError: it refused.
    """
    try:
        yield
    except OSError as error:
        raise explain(doing, error) from error


def named_folder(variable: str) -> Path | None:
    """The folder that an environment variable names; None where it is unset or blank.

    Raises:
        UserError: it begins with the home of a user who is unknown.
    """
    named = os.environ.get(variable, "").strip()
    try:
        return Path(named).expanduser() if named else None
    except RuntimeError:
        raise UserError(f"{variable} names {named}, and there is no such user") from None


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that the file is whole or untouched, whatever happens.

    Missing parent folders are created. No temporary file stays behind, unless the process is
    killed outright (see `sweep_leftovers`).

    Raises:
        UserError: the disk is full, the folder is not writable, and the like.
    """
    write_together({path: data})


def write_together(files: Mapping[Path, bytes]) -> None:
    """Write several files of one folder that belong together, last the one that names the others.

    All of them are on the disk before the first takes its name: a disk that is full, or a folder
    that turned read-only, leaves what was there as it was.

    Raises:
        UserError: as `write_atomic`.
    """
    staged: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            with explained(f"write {path}"):
                staged[path] = _stage(path, data)
        last = list(files)[-1]
        for path, temp in staged.items():
            if path == last and len(files) > 1:
                _sync_folder(path.parent)  # a power cut too keeps the others before the last
            with explained(f"write {path}"):
                temp.replace(path)
    except BaseException:  # Ctrl-C too must leave nothing behind
        for temp in staged.values():
            _remove(temp)
        raise
    _sync_folder(last.parent)


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that the system does not take names none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def ensure_writable(folder: Path, purpose: str) -> None:
    """Create ``folder`` and prove that one can write there: a run should fail before training.

    What killed processes left there is removed.

    Args:
        folder: the folder that will be written to.
        purpose: what will be written there, for the message, for example ``"results"``.

    Raises:
        UserError: one cannot.
    """
    with explained(f"write {purpose} to {folder}"):
        _stage(folder / "probe", b"probe\n").unlink()
    sweep_leftovers(folder)


def temporary(folder: Path, what: str = "file") -> Path:
    """A name in ``folder`` that nobody else takes, and that `sweep_leftovers` finds."""
    return folder / f"{TEMP_PREFIX}{maker()}-{secrets.token_hex(4)}-{what}"


def sweep_leftovers(folder: Path, older_than_s: float = ABANDONED_S) -> int:
    """Remove the temporary files and folders that killed processes left in ``folder``.

    Those of dead processes of this machine go at once.

    Args:
        folder: a folder that `write_atomic` writes to; it need not exist.
        older_than_s: age by modification time from which the others count as abandoned. A younger
            one may belong to a process that is writing it now.

    Returns:
        How many were removed.
    """
    removed = 0
    # The second were the clocks of leases, in folders of version 0.1.
    for path in (*folder.glob(f"{TEMP_PREFIX}*"), *folder.glob(".clock-*")):
        try:
            if is_left_over(path.name) or time.time() - _last_change(path) > older_than_s:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                removed += 1
        except OSError:
            continue  # another sweep was faster, or it cannot be removed by this user or at all
    return removed


def _last_change(path: Path) -> float:
    return max(each.stat().st_mtime for each in (path, *path.rglob("*")))


def canonical_json(value: object) -> str:
    """Write JSON data in the one form that is hashed: sorted keys, no spaces, ASCII.

    Raises:
        TypeError: something in ``value`` is not JSON data. Tuples and non-string keys are refused
            too: they would come back from a file as something else.
        ValueError: a number is NaN or infinite.

    >>> canonical_json({"b": [1, 1.0, None], "a": True})
    '{"a":true,"b":[1,1.0,null]}'
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except TypeError:
        _check_json(value, "value")  # says where it is
        raise
    if json.loads(text) != value:  # the fast way to see that every part is JSON data
        _check_json(value, "value")
    return text


def run_id(config: Mapping[str, Any]) -> str:
    """Return the name of the run that ``config`` describes: 16 hex digits of its SHA-256.

    Args:
        config: the whole resolved config as JSON data. 1 and 1.0 are different values: the typed
            settings decide which of them a field holds.

    Raises:
        TypeError: the config holds something that is not JSON data.
        ValueError: it holds NaN or an infinity.

    >>> run_id({"seed": 0, "bits": 4}) == run_id({"bits": 4, "seed": 0})
    True
    """
    return hashlib.sha256(canonical_json(dict(config)).encode()).hexdigest()[:16]


def _check_json(value: object, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}: JSON keys are strings")
            _check_json(item, f"{where}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_json(item, f"{where}[{index}]")
    elif value is not None and not isinstance(value, str | int | float):
        raise TypeError(
            f"{where} is a {type(value).__name__}: expected JSON data "
            "(str, int, float, bool, None, list, dict; pydantic's model_dump(mode='json') gives it)"
        )


def _stage(path: Path, data: bytes) -> Path:
    """Write what will be `path` beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = temporary(path.parent)
    try:
        with temp.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may keep the name and lose the content
    except BaseException:
        _remove(temp)
        raise
    return temp


def _remove(temp: Path) -> None:
    """Remove a temporary file; where that is refused too, a later `sweep_leftovers` does it."""
    try:
        temp.unlink(missing_ok=True)
    except OSError:
        return


def _sync_folder(folder: Path) -> None:
    """Make the rename durable, where the system can (Windows and some network disks cannot)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return  # the file itself is whole and in place
    finally:
        os.close(handle)
