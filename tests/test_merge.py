"""Results folders brought together: nothing lost, nothing doubled, the better record kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from cfq_bench.cli.main import main
from cfq_bench.errors import UserError
from cfq_bench.record.merge import merge
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from tests.support.records import made_record, made_rows

HISTORY = pd.DataFrame({"name": ["loss"], "step": [1], "value": [0.5]})


def put(folder: Path, seed: int = 0, beside: bool = True, **changes: Any) -> Record:
    """A record in a results folder; `beside`: with rows, network and history."""
    record = made_record(seed=seed, **changes)
    store = RecordStore(folder)
    store.runs_dir.mkdir(parents=True, exist_ok=True)
    if beside:
        store.write(record, made_rows(seed), f"network {seed}".encode(), HISTORY)
    else:
        store.write(record, None)
    return record


def failed(utc: str = "2026-12-01T00:00:00") -> dict[str, Any]:
    return {"status": "failed", "reason": "no", "metrics": {}, "provenance": {"utc": utc}}


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return tmp_path / "a"


@pytest.fixture
def b(tmp_path: Path) -> Path:
    return tmp_path / "b"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "runs").iterdir()}


def test_the_union_has_everything_that_lies_beside_a_record(a: Path, b: Path) -> None:
    put(a, 0)
    put(b, 1)
    before = files(a) | files(b)
    theirs = files(b)
    merged = merge([a, b], a)
    assert (merged.copied, merged.same, merged.notes, merged.corrupt) == (1, 0, (), 0)
    assert files(a) == before
    assert len(before) == 8
    assert files(b) == theirs


def test_a_new_folder_gets_them_and_the_sources_stay(a: Path, b: Path, tmp_path: Path) -> None:
    put(a, 0)
    put(b, 1)
    merge([a, b], tmp_path / "c")
    assert files(tmp_path / "c") == files(a) | files(b)
    assert len(files(a)) == len(files(b)) == 4


def test_the_same_result_at_another_time_is_the_same(a: Path, b: Path) -> None:
    ours = put(a)
    later = {"utc": "2027-01-01T00:00:00"}
    put(b, metrics={**ours.metrics, "time/fit_s": 9.0}, provenance=later, seconds=99.0)
    before = files(a)
    merged = merge([a, b], a)
    assert (merged.copied, merged.same, merged.notes) == (0, 1, ())
    assert files(a) == before


def test_a_finished_run_wins_over_a_failed_one_that_is_newer(a: Path, b: Path) -> None:
    put(a, beside=False, **failed("2027-01-01T00:00:00"))
    good = put(b)
    merged = merge([a, b], a)
    assert merged.copied == 1
    assert files(a) == files(b)
    assert f"{good.run_id} differs: kept the one of {b} (finished)" in merged.notes[0]
    put(a)
    put(b, beside=False, **failed("2027-01-01T00:00:00"))
    before = files(a)
    assert merge([a, b], a).copied == 0
    assert files(a) == before


def test_of_two_that_differ_the_newer_stays(a: Path, b: Path) -> None:
    put(a, error=0.1)
    put(b, error=0.2, beside=False, provenance={"utc": "2027-01-01T00:00:00"})
    merged = merge([a, b], a)
    assert merged.copied == 1
    assert "(newer)" in merged.notes[0]
    assert files(a) == files(b)  # rows and network of the older one are gone, too


def test_a_corrupt_file_is_left_out_and_told(a: Path, b: Path) -> None:
    put(a, 0)
    (b / "runs").mkdir(parents=True)
    (b / "runs" / "0123456789abcdef.json").write_text("{")
    put(b, 1)
    merged = merge([a, b], a)
    assert (merged.copied, merged.corrupt) == (1, 1)
    assert "0123456789abcdef.json" in merged.notes[0]
    assert "0123456789abcdef.json" not in files(a)


def test_twice_is_once(a: Path, b: Path) -> None:
    put(a, 0)
    put(b, 1)
    merge([a, b], a)
    again = merge([a, b], a)
    assert (again.copied, again.same) == (0, 1)


def test_what_is_no_results_folder_is_refused(a: Path, tmp_path: Path) -> None:
    put(a)
    with pytest.raises(UserError, match="no results folder"):
        merge([a, tmp_path / "nothing"], a)


def test_on_the_command_line(a: Path, b: Path, tmp_path: Path) -> None:
    put(a, 0)
    put(b, 1)
    result = CliRunner().invoke(main, ["results", "merge", str(a), str(b)])
    assert result.exit_code == 0
    assert result.stdout == f"{a}: 1 run copied, 0 there already\n"
    (b / "runs" / "0123456789abcdef.json").write_text("{")
    into = tmp_path / "all"
    result = CliRunner().invoke(main, ["results", "merge", str(a), str(b), "--into", str(into)])
    assert result.exit_code == 1
    assert result.stderr.startswith("left out: ")
    assert len(RecordStore(into).all()) == 2
    result = CliRunner().invoke(main, ["results", "merge", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "no results folder" in result.stderr
