"""A record comes back as it was written, and the store never shows half a run."""

import errno
import itertools
import json
import os
import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import ValidationError

import cfq_bench
from cfq_bench.errors import UserError
from cfq_bench.record.provenance import git_state, provenance
from cfq_bench.record.record import Record, run_id
from cfq_bench.record.store import RecordStore
from tests.support.waiting import run_process

CONFIG: dict[str, Any] = {
    "seed": 0,
    "method": {"name": "lsq", "lr": 1e-3},
    "data": {"name": "compas", "groups": ["a", "b"], "limit": None},
}


def record(**changes: Any) -> Record:
    fields: dict[str, Any] = {
        "status": "ok",
        "reason": None,
        "config": CONFIG,
        "metrics": {"task/acc": 0.5, "recourse/vd": None},
        "counts": {"task/acc": 100, "recourse/vd": 0},
        "details": {"bits_per_layer": {"fc1": 4, "fc2": 8}},
        "provenance": {"version": "1", "git_commit": None},
        "seconds": 1.5,
    }
    fields.update(changes)
    return Record(**{"run_id": run_id(fields["config"]), **fields})


def rows() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "row": [3, 5, 8],
            "group": ["a", "ä", None],
            "status": pd.Categorical(["solved", "solved", "lost"]),
            "cost": [0.25, float("nan"), 1e-300],
            "valid": [True, False, True],
            "changed": [["age"], [], ["age", "income"]],
        },
        index=[7, 7, 9],
    )


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "results")


# --- run_id ---


def test_the_id_is_a_fixed_function_of_the_config() -> None:
    # A change of this value means that every stored result is orphaned.
    assert run_id({"seed": 0, "name": "lsq", "lr": 0.001}) == "36f5611e41ece005"


def test_the_id_ignores_the_order_of_keys_and_nothing_else() -> None:
    shuffled = {key: CONFIG[key] for key in reversed(CONFIG)}
    shuffled["method"] = {"lr": 1e-3, "name": "lsq"}
    assert run_id(shuffled) == run_id(CONFIG)
    values: list[Any] = [0, 0.0, False, None, "0", [0], {}]
    others = [{"s": value} for value in values]
    assert len({run_id(other) for other in others}) == len(others)


def test_a_config_that_is_not_json_has_no_id() -> None:
    with pytest.raises(TypeError, match=r"value\.bits is a tuple"):
        run_id({"bits": (2, 4)})
    with pytest.raises(ValueError, match="JSON compliant"):
        run_id({"lr": float("nan")})


# --- Record ---


def test_a_record_comes_back_the_same() -> None:
    written = record()
    text = written.to_json()
    assert text.endswith("}\n")
    assert Record.from_json(text, "x.json") == written
    assert Record.from_json(text, "x.json").to_json() == text


def test_what_is_undefined_is_none_not_nan() -> None:
    made = record(
        metrics={"a": float("nan"), "b": float("-inf"), "c": np.float32("nan"), "d": 0},
        details={"groups": [{"vd": float("nan"), "n": 3}]},
    )
    assert made.metrics == {"a": None, "b": None, "c": None, "d": 0.0}
    assert made.details == {"groups": [{"vd": None, "n": 3}]}
    assert "NaN" not in made.to_json()


def test_numbers_of_numpy_become_python_s() -> None:
    made = record(
        metrics={"a": np.float32(0.5)}, counts={"a": np.int64(3)}, details={"bits": (np.int32(4),)}
    )
    assert (made.metrics, made.counts) == ({"a": 0.5}, {"a": 3})
    assert json.loads(made.to_json())["details"] == {"bits": [4]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reason": "but"}, "expected none"),
        ({"status": "failed"}, "no reason"),
        ({"status": "skipped", "reason": "  "}, "no reason"),
        ({"status": "done"}, "status"),
        ({"run_id": "0" * 16}, "not that of the config"),
        ({"extra": 1}, "extra"),
        ({"metrics": {"a": "0.5"}}, "metrics"),
        ({"metrics": {"a": True}}, "metrics"),
        ({"counts": {"a": 0.5}}, "counts"),
        ({"seconds": -1.0}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        record(**changes)


def test_details_that_json_would_change_are_refused() -> None:
    with pytest.raises(TypeError, match=r"value\.details\.bits has the key 1"):
        record(details={"bits": {1: 4}})


def test_a_record_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        record().seconds = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("}\n", ""),
        ("0.5", "NaN"),
        ('"seed": 0', '"seed": 1'),
        ('"counts"', '"kounts"'),
        ('"status": "ok"', '"status": "fine"'),
        ('"seconds": 1.5', '"seconds": "1.5"'),
    ],
)
def test_an_edited_file_is_named_in_one_line(old: str, new: str) -> None:
    text = record().to_json()
    assert old in text
    with pytest.raises(UserError, match=r"^runs/x\.json is no valid run record \(.*--force$"):
        Record.from_json(text.replace(old, new), "runs/x.json")


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", b"\xff\x00", b"PK\x03\x04", "[" * 100_000]
)
def test_a_foreign_file_is_named(text: str | bytes) -> None:
    with pytest.raises(UserError, match=r"x\.json is no valid run record"):
        Record.from_json(text, "x.json")


# --- RecordStore ---


def test_a_run_comes_back_with_its_rows(store: RecordStore) -> None:
    assert store.read(record().run_id) is None
    assert store.all() == []
    store.write(record(), rows())
    assert store.read(record().run_id) == record()
    assert store.path(record().run_id).parent.name == "runs"
    back = store.read_rows(record().run_id)
    assert [list(names) for names in back.pop("changed")] == [["age"], [], ["age", "income"]]
    expected = rows().reset_index(drop=True).drop(columns="changed")
    pd.testing.assert_frame_equal(back, expected, check_dtype=True)


def test_equal_frames_give_equal_bytes(tmp_path: Path) -> None:
    first, second = RecordStore(tmp_path / "a"), RecordStore(tmp_path / "b")
    built_otherwise = pd.concat([rows()[:1], rows()[1:]]).reset_index(drop=True)
    built_otherwise.attrs["note"] = "other"
    built_otherwise["status"] = rows()["status"].array
    first.write(record(), rows())
    second.write(record(), built_otherwise)
    run = record().run_id
    assert first.rows_path(run).read_bytes() == second.rows_path(run).read_bytes()


def test_the_same_run_is_replaced_not_doubled(store: RecordStore) -> None:
    store.write(record(), rows())
    failed = record(status="failed", reason="diverged", metrics={}, counts={})
    store.write(failed, None)
    assert store.all() == [failed]
    assert [path.name for path in store.runs_dir.iterdir()] == [f"{failed.run_id}.json"]
    with pytest.raises(UserError, match="no per-row results"):
        store.read_rows(failed.run_id)


def test_a_disk_that_fills_up_after_the_rows_leaves_nothing(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, synced_files = os.fsync, []

    def fill_up(handle: int) -> None:
        real(handle)
        synced_files.append(handle)
        if len(synced_files) == 2:  # the rows, then the JSON
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fill_up)
    with pytest.raises(UserError, match=r"\.json: the disk is full"):
        store.write(record(), rows())
    assert store.read(record().run_id) is None
    assert store.all() == []
    assert list(store.runs_dir.iterdir()) == []


def test_results_below_a_file_are_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    store = RecordStore(tmp_path / "file")
    for action in (lambda: store.write(record(), None), lambda: store.read("a")):
        with pytest.raises(UserError, match="a file stands where a folder should be"):
            action()


def test_corrupt_files_are_named_not_skipped(store: RecordStore) -> None:
    store.write(record(), rows())
    run = record().run_id
    store.rows_path(run).write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(UserError, match=rf"{run}\.parquet is corrupt .*--force"):
        store.read_rows(run)
    store.path(run).write_text(record().to_json()[:100])
    for read in (lambda: store.read(run), store.all, lambda: store.find(run)):
        with pytest.raises(UserError, match=rf"{run}\.json .*delete it or rerun with --force"):
            read()


def test_a_record_under_another_name_is_refused(store: RecordStore) -> None:
    store.write(record(), None)
    shutil.copy(store.path(record().run_id), store.path("0" * 16))
    with pytest.raises(UserError, match=f"holds the record of run {record().run_id}"):
        store.read("0" * 16)


def test_runs_are_found_by_the_start_of_their_id(store: RecordStore) -> None:
    for seed in range(20):  # more runs than hex digits: two share their first one
        store.write(record(config={"seed": seed}), None)
    ids = [each.run_id for each in store.all()]
    assert ids == sorted(ids)
    assert [store.find(each).run_id for each in ids] == ids
    assert store.find(ids[0][:8]).run_id == ids[0]
    shared = next(a[0] for a, b in itertools.pairwise(ids) if a[0] == b[0])
    with pytest.raises(UserError, match=f"runs start with '{shared}'") as caught:
        store.find(shared)
    assert all(each in str(caught.value) for each in ids if each[0] == shared)
    with pytest.raises(UserError, match=f"no run in .* starts with 'xyz': it has {ids[0]}.* more"):
        store.find("xyz")


def test_an_empty_store_finds_nothing(store: RecordStore) -> None:
    with pytest.raises(UserError, match="it has none"):
        store.find("a")


# --- provenance ---


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", *identity, *arguments]
    done = run_process(command, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a repository with one commit that tracks a package of our name."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path / "checkout"
    (root / "cfq_bench").mkdir(parents=True)
    (root / "cfq_bench" / "__init__.py").write_text("")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def test_provenance_names_what_chooses_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    found = provenance("cpu", 1)["arithmetic"]
    assert found["MKL_CBWR"] == "COMPATIBLE"
    assert "ATEN_CPU_CAPABILITY" not in found


def test_provenance_is_json_and_complete() -> None:
    got = provenance("cpu", 2)
    assert record(provenance=got).provenance == got
    assert (got["version"], got["device"], got["threads"]) == (cfq_bench.__version__, "cpu", 2)
    assert set(got["libraries"]) == {"python", "torch", "lightning", "numpy", "wandb"}
    assert got["libraries"]["numpy"] == np.__version__
    assert isinstance(got["cpu"], str)
    arithmetic = got["arithmetic"]
    assert arithmetic["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert arithmetic["parallel"] in ("OpenMP", "native thread pool")
    assert {"blas", "mkl", "onednn"} <= set(arithmetic)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", got["utc"])
    assert datetime.fromisoformat(got["utc"]).tzinfo is not None


def test_the_commit_is_that_of_the_package(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.chdir(tmp_path)
    assert git_state(checkout) == (commit, False)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))  # as inside a git hook
    assert git_state(checkout) == (commit, False)


@pytest.mark.parametrize(
    ("changed", "dirty"),
    [("cfq_bench/__init__.py", True), ("cfq_bench/new.py", True), ("results/runs/a.json", False)],
)
def test_changes_of_the_package_make_it_dirty(checkout: Path, changed: str, dirty: bool) -> None:
    (checkout / changed).parent.mkdir(parents=True, exist_ok=True)
    (checkout / changed).write_text("changed")
    assert git_state(checkout)[1] is dirty


def test_a_package_that_the_repository_does_not_track_has_no_commit(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = checkout / "venv" / "site-packages"
    shutil.copytree(checkout / "cfq_bench", installed / "cfq_bench")
    monkeypatch.chdir(checkout)
    assert git_state(installed) == (None, None)
    assert git_state(tmp_path) == (None, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(checkout) == (None, None)
