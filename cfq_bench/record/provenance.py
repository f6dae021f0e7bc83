"""Where a record comes from: code, libraries, machine and time."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import cfq_bench

_LIBRARIES = ("torch", "lightning", "numpy", "wandb")
_GIT_TIMEOUT_S = 5.0


def provenance(device: str, threads: int) -> dict[str, Any]:
    """Describe the code and the machine of this process, as JSON data.

    Args:
        device: the device that the run computes on, for example ``"cpu"``.
        threads: number of threads that torch computes with.

    Returns:
        ``version``, ``git_commit`` and ``git_dirty`` (None outside a checkout), ``libraries``,
        ``platform``, ``cpu_count``, ``device``, ``threads`` and ``utc`` (ISO 8601, seconds).
    """
    commit, dirty = git_state(Path(cfq_bench.__file__).parents[1])
    return {
        "version": cfq_bench.__version__,
        "git_commit": commit,
        "git_dirty": dirty,
        "libraries": {
            "python": platform.python_version(),
            **{name: _version(name) for name in _LIBRARIES},
        },
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "device": device,
        "threads": threads,
        "utc": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the package's source tree and whether it was changed since.

    Args:
        root: the folder that contains ``cfq_bench``. A repository around it counts only if it
            tracks the package: an installed copy inside someone's project has no commit.

    Returns:
        Commit and dirty flag (changed or new files of the package or its configs), or None, None.
    """
    if _git(root, "ls-files", "--error-unmatch", "--", "cfq_bench/__init__.py") is None:
        return None, None
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    changes = _git(root, "status", "--porcelain", "--", "cfq_bench", "conf")
    if commit is None or changes is None:
        return None, None
    return commit, changes != ""


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, or None if it fails, takes too long or is not installed."""
    # A git hook exports GIT_DIR and the like, which would answer for the hook's repository.
    inherited = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    environment["GIT_OPTIONAL_LOCKS"] = "0"  # parallel runs must not meet at the index lock
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_GIT_TIMEOUT_S,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
