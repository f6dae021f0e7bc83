"""Where a record comes from: code, libraries, machine and time."""

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import cfq_bench

_LIBRARIES = ("torch", "lightning", "numpy", "wandb")
_GIT_TIMEOUT_S = 5.0
_ARITHMETIC = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS"),
    *("MKL_DYNAMIC", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"),
)
"""Environment variables that choose kernels, or how a sum is divided."""


def provenance(device: str, threads: int) -> dict[str, Any]:
    """Describe the code and the machine of this process, as JSON data.

    Args:
        device: the device that the run computes on, for example ``"cpu"``.
        threads: number of threads that torch computes with.

    Returns:
        ``version``, ``git_commit`` and ``git_dirty`` (None outside a checkout), ``libraries``,
        ``platform``, ``cpu_count``, ``cpu`` (its model), ``arithmetic`` (see `arithmetic`),
        ``device``, ``threads`` and ``utc`` (ISO 8601, seconds).
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
        "cpu": cpu_model(),
        "arithmetic": arithmetic(),
        "device": device,
        "threads": threads,
        "utc": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def cpu_model() -> str | None:
    """What the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None  # not Linux
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine() or None)


def arithmetic() -> dict[str, Any]:
    """What decides the last digits of sums and products, beside the code and the seeds.

    Returns:
        ``instructions`` (that torch's own kernels use), ``blas``, ``mkl`` and ``onednn`` (builds),
        ``parallel`` (how torch shares work), and the environment variables of `_ARITHMETIC` that
        are set; the latter alone where this process did not import torch, which then computed
        nothing.
    """
    facts: dict[str, Any] = {}
    torch = sys.modules.get("torch")
    if torch is not None:
        built = torch.__config__.show()
        facts["instructions"] = torch.backends.cpu.get_cpu_capability()
        facts["blas"] = _first(r"BLAS_INFO=(\w+)", built)
        facts["mkl"] = _first(r"Math Kernel Library Version (\S+)", built)
        facts["onednn"] = _first(r"MKL-DNN v(\S+)", built)
        facts["parallel"] = _first(r"parallel backend: (.+)", torch.__config__.parallel_info())
    return facts | {name: os.environ[name] for name in _ARITHMETIC if name in os.environ}


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


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return None if found is None else found[1].strip()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
