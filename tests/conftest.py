"""What tests share: a cache that outlives a test, and runs that take a fraction of a second."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cfq_bench.config.loader import load_settings

if TYPE_CHECKING:
    from cfq_bench.data.dataset import TabularData
    from cfq_bench.methods.base import Context


def pytest_configure() -> None:
    """One thread, before torch starts: on networks this small, threads only wait for each other."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their argument: a gzip's hold the second at which they were made.

    Processes that collect at different seconds would not agree on what the tests are.
    """
    return argname if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def at_home_nowhere(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache, nor talks to W&B unless it says so itself."""
    monkeypatch.setenv("CFQ_BENCH_CACHE", str(cache_dir))
    monkeypatch.setenv("WANDB_MODE", "disabled")


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Teachers and their actions, computed once for all tests of all processes of the session."""
    root = tmp_path_factory.getbasetemp()
    return (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "cache"


@cache
def _data(settings: str, seed: int) -> TabularData:
    from cfq_bench.config.settings import DataSettings
    from cfq_bench.data.dataset import load_data

    return load_data(DataSettings.model_validate_json(settings), seed, None)


@pytest.fixture
def without_pdf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures as SVG alone: what a report says is in both, and PDF takes most of the time."""
    monkeypatch.setattr("cfq_bench.figures.draw.to_pdf", lambda figure: b"%PDF")


@pytest.fixture(scope="session")
def short_overrides() -> list[str]:
    """A run on the embedded German Credit data, with a teacher that accepts some and rejects some.

    A teacher of two epochs at its usual rate accepts everyone: every recourse metric is undefined.
    """
    return [
        "data.fit.epochs=2",
        "data.fit.teacher_epochs=20",
        "teacher.lr=5.0e-3",
        "evaluation.max_rows=20",
        "evaluation.group_min_rows=1",
    ]


@pytest.fixture(scope="session")
def make_context(cache_dir: Path, short_overrides: list[str]) -> Callable[..., Context]:
    """Build the context of a short run, as `cfq_bench.experiment` does: (method, *overrides)."""
    from cfq_bench.actions.action_set import ActionSet
    from cfq_bench.cache import Cache
    from cfq_bench.methods.base import Context
    from cfq_bench.teacher.fit import obtain_teacher
    from cfq_bench.training.trainer import Runtime

    def make(method: str, *overrides: str) -> Context:
        settings = load_settings(method, "german", overrides=[*short_overrides, *overrides])
        runtime, cache = Runtime(), Cache(cache_dir)
        data = _data(settings.data.model_dump_json(), settings.seed)
        space = ActionSet(data.schema, settings.actions, data.train.x)
        teacher = obtain_teacher(settings, data, space, cache, runtime)
        return Context(settings, data, teacher, space, cache, runtime)

    return make
