"""Runs of a suite that take milliseconds, in worker processes that import no torch.

``python -m tests.support.light_suite PLAN``: a worker like any other, but for what a run is.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

from cfq_bench.config.loader import load_settings
from cfq_bench.config.suite import Row, SuiteRun, SuiteSettings, expand
from cfq_bench.errors import UserError
from cfq_bench.files import run_id
from cfq_bench.record.identity import made_by_code
from cfq_bench.record.record import Record
from cfq_bench.suites import worker
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


def _answer(settings: Any, options: Any) -> None:
    config = settings.model_dump(mode="json")
    with (options.results_dir / "attempts").open("a") as file:
        file.write(run_id(config) + "\n")
    time.sleep(random.uniform(0.02, 0.1))
    if settings.seed == 666:
        raise UserError("this seed never works")
    options.publish(light_record(config), None, None, None)
    with (options.results_dir / "published").open("a") as file:
        file.write(run_id(config) + "\n")


def start(plan: Plan, folder: Path) -> subprocess.Popen[bytes]:
    """Start one more worker; end it by closing its standard input."""
    path = folder / "plan.json"
    plan.write(path)
    command = [sys.executable, "-m", "tests.support.light_suite", str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, cwd=Path(__file__).parents[2])


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


if __name__ == "__main__":
    fake: Any = types.ModuleType("cfq_bench.experiment")
    fake.Options, fake.answer = types.SimpleNamespace, _answer
    sys.modules["cfq_bench.experiment"] = fake
    sys.exit(worker.main())
