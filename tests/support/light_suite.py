"""Runs of a suite that take milliseconds, in worker processes that import no torch.

``python -m tests.support.light_suite PLAN [POINT]``: a worker like any other, but for what a run
is; it is killed when it comes to the point.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from cfq_bench import processes
from cfq_bench.config.loader import load_settings
from cfq_bench.config.suite import Row, SuiteRun, SuiteSettings, expand
from cfq_bench.errors import UserError
from cfq_bench.files import run_id
from cfq_bench.record.identity import made_by_code
from cfq_bench.record.record import Record
from cfq_bench.suites import worker
from cfq_bench.suites.lease import Lease, Leases
from cfq_bench.suites.worker import Plan


def light_suite(seeds: int, methods: tuple[str, ...] = ("lsq",), **changes: Any) -> SuiteSettings:
    """Methods times seeds on German Credit."""
    return SuiteSettings(
        name="light",
        axes={"data": ["german"], "seed": list(range(seeds))},
        rows=[Row(label=method.upper(), method=method) for method in methods],
        **changes,
    )


def light_runs(seeds: int, **changes: Any) -> list[SuiteRun]:
    return expand(light_suite(seeds, **changes))


def many_configs(count: int) -> list[dict[str, Any]]:
    config = load_settings("lsq", "german").model_dump(mode="json")
    return [{**config, "seed": seed} for seed in range(count)]


def light_record(config: dict[str, Any], **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "status": "ok",
        "metrics": {"task/acc": 0.5 + config["seed"] / 1000},
        "counts": {},
        "details": {},
        "provenance": {},
        "seconds": 0.1,
        "made_by": made_by_code(config),
    }
    return Record(run_id=run_id(config), config=config, **(fields | changes))


def light_answer(settings: Any, options: Any) -> None:
    """Stands for `experiment.answer`: notes the attempt, waits a moment, publishes."""
    config = settings.model_dump(mode="json")
    _note(settings, options)
    time.sleep(random.uniform(0.0, 0.05))
    if settings.seed == 666:
        raise UserError("this seed never works")
    options.publish(light_record(config), None, None, None)
    with (options.results_dir / "published").open("a") as file:
        file.write(run_id(config) + "\n")


FAKE: Any = types.ModuleType("cfq_bench.experiment")
"""Stands for `cfq_bench.experiment`, of which a worker needs two names."""
FAKE.Options, FAKE.answer = types.SimpleNamespace, light_answer


def die(*_: Any, **__: Any) -> NoReturn:
    """End as one does by ``kill -9``."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("dead processes do not come here")


def _release_half(lease: Lease, release: Callable[[Lease], None] = Lease.release) -> None:
    setattr(Path, "unlink", die)  # noqa: B010 (a process that is about to end)
    release(lease)


def _rename_and_die(path: Path, target: Path, rename: Any = Path.rename) -> None:
    rename(path, target)
    die()


def _note(settings: Any, options: Any) -> None:
    with (options.results_dir / "attempts").open("a") as file:
        file.write(run_id(settings.model_dump(mode="json")) + "\n")


def _long(settings: Any, options: Any) -> None:
    """A run that takes minutes, and hears Ctrl-C."""
    _note(settings, options)
    time.sleep(600)


def _deaf(settings: Any, options: Any) -> None:
    """A run that is in one call of a C library, for minutes."""
    _note(settings, options)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000_000)


POINTS: dict[str, tuple[object, str, object]] = {
    "before the lease": (Leases, "claim", die),
    "after the lease": (worker, "_run_leased", die),
    "during the run": (FAKE, "answer", die),
    "between files and record": (os, "link", die),
    "between record and release": (Lease, "release", die),
    "during the release": (Lease, "release", _release_half),
    "after the release": (Leases, "sweep", die),
    "during a takeover": (Path, "rename", _rename_and_die),
    "in a long call": (FAKE, "answer", _deaf),
    "in a long run": (FAKE, "answer", _long),
    "on a disk that hangs": (Leases, "release_all", lambda _: time.sleep(600)),
    "after a short grace": (processes, "GRACE_S", 0.3),
}
"""Where a worker may be killed, or be deaf: what stands in for which name of what."""


def start(plan: Plan, folder: Path, *point: str) -> subprocess.Popen[bytes]:
    """Start one more worker; end it by closing its standard input."""
    path = folder / "plan.json"
    plan.write(path)
    command = [sys.executable, "-m", "tests.support.light_suite", str(path), *point]
    return subprocess.Popen(command, stdin=subprocess.PIPE, cwd=Path(__file__).parents[2])


class Here:
    """Workers in this process: the first that is started does all the work, for all of them."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.started = plan, False

    def start(self) -> None:
        self.started = True
        worker.work(self.plan)

    def alive(self) -> int:
        return 1000 if self.started else 0

    def ended(self) -> list[str]:
        return []

    def stop(self) -> None:
        """It has ended."""


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


if __name__ == "__main__":
    sys.modules["cfq_bench.experiment"] = FAKE
    for point in sys.argv[2:]:
        setattr(*POINTS[point])
    sys.exit(worker.main())
