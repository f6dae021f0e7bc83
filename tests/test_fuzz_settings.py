"""Whatever settings say, they are a run that can be repeated, or one clear line.

``make fuzz`` tries 20,000 cases (`CFQ_BENCH_FUZZ` is how many, `CFQ_BENCH_FUZZ_S` for how long).
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cfq_bench.cli.main import main
from cfq_bench.config.loader import load_settings, settings_from_config
from cfq_bench.config.settings import Settings
from cfq_bench.config.suite import expand, load_suite
from cfq_bench.errors import UserError
from cfq_bench.files import canonical_json
from cfq_bench.sweeps.settings import load_sweep
from cfq_bench.text import hidden
from tests.support.fuzz import FILES, KEYS, NAMES, broken_file, folder_of, overrides

LONGEST = 2000
CASES = int(os.environ.get("CFQ_BENCH_FUZZ", "0"))
END = time.monotonic() + float(os.environ.get("CFQ_BENCH_FUZZ_S", "inf"))
seen: Counter[str] = Counter()


def cases(usual: int, share: float) -> Any:
    """How many cases a test has: a few of them, always the same, or its share of `CASES`."""
    return settings(
        max_examples=round(share * CASES) or usual,
        derandomize=not CASES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module", autouse=True)
def told() -> Iterator[None]:
    yield
    if CASES:
        print(f"\n{dict(seen)}")


def settled(test: str, make: Callable[[], Any]) -> Any:
    """What `make` gives, or None where it says in one line what is wrong."""
    seen[test] += 1
    try:
        found = make()
    except UserError as error:
        refused(str(error))
        return None
    seen[f"{test}, accepted"] += 1
    return found


def refused(text: str) -> None:
    assert hidden(text) is None, text
    assert 10 < len(text) <= LONGEST, text


def repeatable(found: Settings) -> None:
    """A run's settings are finite JSON, from which they can be read again."""
    config = found.model_dump(mode="json")
    again = settings_from_config(json.loads(canonical_json(config)))
    assert again.model_dump(mode="json") == config


@pytest.mark.parametrize("data", sorted(KEYS))
@given(drawn=st.data())
@cases(50, 0.2)
def test_overrides(data: str, drawn: st.DataObject) -> None:
    if time.monotonic() > END:
        return
    lines = drawn.draw(overrides(data))
    found = settled("overrides", lambda: load_settings("cfq", data, overrides=lines))
    if found is not None:
        repeatable(found)


@given(
    st.dictionaries(
        st.sampled_from(("method", "data", "actions", "backbone", "regime")),
        st.sampled_from(NAMES) | st.text(max_size=8),
        min_size=1,
        max_size=2,
    )
)
@cases(30, 0.05)
def test_names(names: dict[str, str]) -> None:
    if time.monotonic() > END:
        return
    found = settled("names", lambda: load_settings(**names))  # type: ignore[arg-type]
    if found is not None:
        repeatable(found)


@pytest.mark.parametrize("what", sorted(FILES))
@given(data=st.data())
@cases(6, 0.5 / len(FILES))
def test_files(folder: Path, what: str, data: st.DataObject) -> None:
    if time.monotonic() > END:
        return
    folder = folder / what.partition("/")[0]  # base.yaml stands alone
    path = folder_of(what, data.draw(broken_file(what)), folder)
    group = what.partition("/")[0]
    if group == "base":
        found = settled(what, lambda: load_settings(conf_dir=folder))
        path.unlink()
    elif group == "suite":
        runs = settled(what, lambda: expand(load_suite(str(path)))) or [None]
        found = runs[0] and runs[0].settings
    elif group in ("sweep", "search"):
        found = None
        settled(what, lambda: load_sweep(path))
    else:
        of = what.split("/")[1] if group == "actions" else "compas"
        names = {"data": of, group: str(path)}
        found = settled(what, lambda: load_settings(**names))  # type: ignore[arg-type]
    if found is not None:
        repeatable(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conf")


@given(overrides("compas"))
@cases(30, 0.05)
def test_the_command_line(folder: Path, lines: list[str]) -> None:
    if time.monotonic() > END:
        return
    seen["command line"] += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cfq_bench.cli.run.run_and_print", lambda *_, **__: 0)
        done = CliRunner().invoke(main, ["run", "--results-dir", str(folder), "--", *lines])
    assert done.exit_code in (0, 2), (done.exception, lines)
    if done.exit_code == 2:
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ")
        refused(line.removeprefix("error: "))
    assert isinstance(done.exception, SystemExit | None)
