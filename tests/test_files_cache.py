"""Files and cache entries are whole or absent: under kill, full disk, and many processes."""

import errno
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cfq_bench.cache import Cache, default_cache_dir
from cfq_bench.errors import UserError
from cfq_bench.files import (
    TEMP_PREFIX,
    canonical_json,
    ensure_writable,
    sweep_leftovers,
    temporary,
    write_atomic,
)
from cfq_bench.processes import maker
from tests.support.asking import ask
from tests.support.waiting import ended, join, run_process, run_python, wait_for

SIZE = 8 << 20  # bytes: large enough that a kill often falls into the write

WRITER = f"""
import sys
from pathlib import Path
from cfq_bench.files import write_atomic
n = 0
while True:
    write_atomic(Path(sys.argv[1]), bytes([n % 256]) * {SIZE})
    n += 1
"""

SMALL_FILES_ONLY = """
import resource, sys
from pathlib import Path
from cfq_bench.errors import UserError
from cfq_bench.files import write_atomic
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomic(Path(sys.argv[1]), b"x" * 5000)
except UserError as error:
    print(error)
"""

KILLED_MID_WRITE = """
import resource, signal, sys
from pathlib import Path
from cfq_bench.files import write_atomic
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # now the kernel kills at the limit
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
write_atomic(Path(sys.argv[1]), b"x" * 5000)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a regular file: no folder can be made below it, not even by root."""
    path = tmp_path / "file"
    path.write_text("text")
    return path


# --- write_atomic ---


def test_a_file_is_written_replaced_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folders" / "a.bin"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(path.parent) == ["a.bin"]


@pytest.mark.slow
def test_a_killed_writer_leaves_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    for delay_s in (0.0, 0.003, 0.007, 0.011, 0.017, 0.023, 0.031, 0.043):
        path.unlink(missing_ok=True)
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        wait_for("the file", path.exists)
        time.sleep(delay_s)
        writer.send_signal(signal.SIGKILL)
        assert ended(writer) == -signal.SIGKILL
        data = path.read_bytes()
        assert data == data[:1] * SIZE
    sweep_leftovers(tmp_path)
    assert names(tmp_path) == ["a.bin"]


def test_a_kill_in_the_middle_of_a_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomic(path, b"old")
    done = run_process([sys.executable, "-c", KILLED_MID_WRITE, str(path)])
    assert done.returncode == -signal.SIGXFSZ
    assert path.read_bytes() == b"old"
    assert sweep_leftovers(tmp_path) == 1
    assert names(tmp_path) == ["a.bin"]


def test_readers_beside_a_writer_never_see_a_part(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    try:
        wait_for("the file", path.exists)
        seen = set()
        deadline = time.monotonic() + 15
        while len(seen) < 20:
            data = path.read_bytes()
            assert data == data[:1] * SIZE
            seen.add(data[0])
            assert time.monotonic() < deadline, "the writer hardly writes"
    finally:
        writer.kill()
        ended(writer)


def test_a_write_that_the_system_cuts_short_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomic(path, b"old")
    printed = run_python(SMALL_FILES_ONLY, path)
    assert "a.bin" in printed
    assert "larger than" in printed
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "disk is full: free space"),
        (errno.EDQUOT, "quota is used up"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permission denied"),
        (errno.EIO, "choose another folder"),
    ],
)
def test_a_refusal_is_told_in_plain_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    path = tmp_path / "a.bin"
    write_atomic(path, b"old")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UserError, match=words) as caught:
        write_atomic(path, b"new")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "a.bin", b"new")
    assert names(tmp_path) == []


def test_a_folder_that_cannot_sync_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def only_files(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(errno.EINVAL, "no sync of folders here")

    monkeypatch.setattr(os, "fsync", only_files)
    write_atomic(tmp_path / "a.bin", b"new")
    assert len(calls) == 2
    assert (tmp_path / "a.bin").read_bytes() == b"new"


def test_a_folder_in_the_file_s_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.bin").mkdir()
    with pytest.raises(UserError, match=r"a\.bin: a folder stands where a file should be"):
        write_atomic(tmp_path / "a.bin", b"new")
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("below", ["a.bin", "x/a.bin", "x/y/a.bin"])
def test_a_path_below_a_file_is_a_user_error(file: Path, below: str) -> None:
    with pytest.raises(UserError, match="a file stands where a folder should be"):
        write_atomic(file / below, b"new")
    assert file.read_text() == "text"


# --- ensure_writable and sweep_leftovers ---


def test_ensure_writable_makes_the_folder_and_leaves_it_empty(tmp_path: Path) -> None:
    ensure_writable(tmp_path / "a" / "b", "results")
    ensure_writable(tmp_path / "a" / "b", "results")
    assert names(tmp_path / "a" / "b") == []


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_ensure_writable_says_what_was_to_be_written(file: Path, below: str) -> None:
    with pytest.raises(UserError, match=r"cannot write results to .*file stands"):
        ensure_writable(file / below, "results")


def test_sweep_removes_old_leftovers_only(tmp_path: Path) -> None:
    old, young, other = (
        tmp_path / f"{TEMP_PREFIX}1-a",
        tmp_path / f"{TEMP_PREFIX}2-b",
        tmp_path / "c",
    )
    for path in (old, young, other):
        path.write_bytes(b"")
    hour_ago = time.time() - 3600
    os.utime(old, (hour_ago, hour_ago))
    os.utime(other, (hour_ago, hour_ago))
    assert sweep_leftovers(tmp_path, older_than_s=600) == 1
    assert names(tmp_path) == sorted([young.name, "c"])
    assert sweep_leftovers(tmp_path / "absent", older_than_s=0) == 0


@pytest.mark.parametrize("what", ["record", "cache"])
def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path: Path, what: str) -> None:
    gone = subprocess.Popen(["true"])
    assert ended(gone) == 0
    (left := tmp_path / "teacher" / f"{TEMP_PREFIX}{maker().split('-')[0]}-{gone.pid}-aa").mkdir(
        parents=True
    )
    (left / "download").write_bytes(b"a part")
    mine = temporary(left.parent)
    mine.write_bytes(b"in work")
    if what == "record":
        ensure_writable(left.parent, "records")
    else:
        Cache(tmp_path).get_or_make("teacher", {}, tensors)
    assert not left.exists()
    assert mine.exists()


# --- canonical_json ---

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def reversed_keys(value: object) -> object:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_the_order_of_keys_does_not_count(value: object) -> None:
    assert canonical_json(value) == canonical_json(reversed_keys(value))


@pytest.mark.parametrize("value", [(1, 2), {1: 2}, {1, 2}, b"x", Path("x"), torch.tensor(1.0)])
def test_what_is_not_json_is_refused_by_place(value: object) -> None:
    with pytest.raises(TypeError, match=r"value\.a\[1\]"):
        canonical_json({"a": [0, value]})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_is_not_json(value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json({"a": value})


# --- Cache ---


def tensors() -> dict[str, torch.Tensor]:
    return {
        "float": torch.arange(6, dtype=torch.float64).reshape(2, 3).T,
        "int": torch.tensor([1, -2]),
        "bool": torch.tensor([True, False]),
        "none": torch.empty(0, 3),
        "learned": torch.nn.Parameter(torch.tensor([0.1])),
    }


def never() -> dict[str, torch.Tensor]:
    raise AssertionError("the entry was there")


def entry(cache: Cache) -> Path:
    cache.get_or_make("teacher", {"seed": 0}, tensors)
    return cache.path("teacher", {"seed": 0})


def test_what_is_made_is_what_is_read(tmp_path: Path) -> None:
    made = Cache(tmp_path).get_or_make("teacher", {"seed": 0, "data": "a"}, tensors)
    read = Cache(tmp_path).get_or_make("teacher", {"data": "a", "seed": 0}, never)
    for name, expected in tensors().items():
        for got in (made[name], read[name]):
            assert got.dtype == expected.dtype
            assert torch.equal(got, expected)
            assert got.is_contiguous()
            assert not got.requires_grad
    assert list(made) == list(read) == list(tensors())


def test_an_empty_entry_is_an_entry(tmp_path: Path) -> None:
    assert Cache(tmp_path).get_or_make("teacher", {}, dict) == {}
    assert Cache(tmp_path).get_or_make("teacher", {}, never) == {}


def test_a_view_does_not_drag_its_storage_along(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.get_or_make("pool", {}, lambda: {"x": torch.zeros(1_000_000)[:5]})
    assert cache.path("pool", {}).stat().st_size < 10_000


def test_other_keys_and_kinds_are_other_entries(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    keys: list[dict[str, object]] = [{}, {"a": 1}, {"a": 1.0}, {"a": "1"}, {"a": True}, {"a": None}]
    paths = {cache.path(kind, key) for kind in ("x", "y") for key in keys}
    assert len(paths) == 2 * len(keys)


def test_a_key_that_is_not_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"PosixPath|WindowsPath"):
        Cache(tmp_path).get_or_make("x", {"folder": tmp_path}, never)
    with pytest.raises(ValueError, match="kind"):
        Cache(tmp_path).get_or_make("../x", {}, never)


def test_only_tensors_are_stored(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'a' is a int"):
        Cache(tmp_path).get_or_make("x", {}, lambda: {"a": 1})  # type: ignore[dict-item]


def test_a_failed_computation_leaves_no_entry(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with pytest.raises(AssertionError):
        cache.get_or_make("teacher", {"seed": 0}, never)
    assert torch.equal(cache.get_or_make("teacher", {"seed": 0}, tensors)["int"], tensors()["int"])


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "junk"])
def test_a_corrupt_entry_is_named(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    path = entry(cache)
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(
        {
            "cut": data[:middle],
            "flip": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "empty": b"",
            "foreign": b"PK\x03\x04 something else",
            "junk": b"cfq-bench cache %s\njunk" % hashlib.sha256(b"junk").hexdigest().encode(),
        }[damage]
    )
    with pytest.raises(UserError, match=r"is corrupt .*: delete it and run again") as caught:
        cache.get_or_make("teacher", {"seed": 0}, never)
    assert str(path) in str(caught.value)
    path.unlink()
    assert "int" in cache.get_or_make("teacher", {"seed": 0}, tensors)


def test_a_cache_below_a_file_is_a_user_error_before_any_work(file: Path) -> None:
    with pytest.raises(UserError, match="a file stands where a folder should be"):
        Cache(file / "cache").get_or_make("teacher", {}, never)


def test_a_full_disk_does_not_leave_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(UserError, match="disk is full"):
            Cache(tmp_path).get_or_make("teacher", {}, tensors)
    assert [path.suffix for path in (tmp_path / "teacher").iterdir()] == [".lock"]
    assert "int" in Cache(tmp_path).get_or_make("teacher", {}, tensors)


@pytest.mark.slow
def test_processes_that_ask_at_once_compute_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    log, start = tmp_path / "log", context.Barrier(3)
    workers = [context.Process(target=ask, args=(tmp_path, log, start)) for _ in range(2)]
    for worker in workers:
        worker.start()
    ask(tmp_path, log, start)  # the third
    join(workers)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(log.read_text().splitlines()) == 1


def test_the_cache_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFQ_BENCH_CACHE", str(tmp_path))
    assert default_cache_dir() == tmp_path
    monkeypatch.delenv("CFQ_BENCH_CACHE")
    assert default_cache_dir().name == "cfq-bench"


def test_the_bottom_layer_does_not_import_torch() -> None:
    code = "import sys, cfq_bench.cache, cfq_bench.record.store; assert 'torch' not in sys.modules"
    run_python(code)
