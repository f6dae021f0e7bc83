"""The union of results folders."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cfq_bench.errors import UserError
from cfq_bench.files import ensure_writable, explain, temporary
from cfq_bench.record.identity import Judge
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore


@dataclass(frozen=True)
class Merged:
    """What `merge` did.

    Attributes:
        copied: runs that the target did not have, or had worse.
        same: runs that the target had already.
        notes: one line for every run whose records differ, and for every file that is corrupt.
        corrupt: how many files are.
    """

    copied: int
    same: int
    notes: tuple[str, ...]
    corrupt: int


def merge(sources: Sequence[Path], into: Path) -> Merged:
    """Bring the records of several results folders into one; the sources stay as they are.

    Of two records of one run, the one that is finished wins over a failed one, then one that is
    not stale, then the newer. Two that differ in nothing but times and provenance are the same,
    if they are equally fresh.

    Args:
        sources: results folders (those with ``runs`` inside).
        into: the results folder that gets them; it may exist and may be one of the sources.

    Raises:
        UserError: a source is no results folder, or the target cannot be written.
    """
    for source in sources:
        if not (source / "runs").is_dir():
            raise UserError(f"{source} is no results folder: it has no folder 'runs'")
    target, judge = RecordStore(into), Judge()
    ensure_writable(target.runs_dir, "records")
    copied = same = corrupt = 0
    notes: list[str] = []
    for source in sources:
        store = RecordStore(source)
        if store.runs_dir.resolve() == target.runs_dir.resolve():
            continue
        for path in sorted(store.runs_dir.glob("*.json")):
            try:
                theirs, ours = store.read(path.stem), target.read(path.stem)
            except UserError as error:
                corrupt += 1
                notes.append(f"left out: {error}")
                continue
            if theirs is None:
                same += 1
                continue
            better = ours is None
            if ours is not None:
                here, there = _rank(ours, judge), _rank(theirs, judge)
                if here[:2] == there[:2] and _result(ours) == _result(theirs):
                    same += 1
                    continue
                better = there > here
                kept, why = source if better else into, _why(here, there)
                notes.append(f"{path.stem} differs: kept the one of {kept} ({why})")
            if better:
                _copy(store, target, theirs.run_id)
                copied += 1
    return Merged(copied, same, tuple(notes), corrupt)


def _result(record: Record) -> object:
    """What two runs of one configuration must have in common: not how long they took."""
    metrics = {k: v for k, v in record.metrics.items() if not k.startswith("time/")}
    return record.status, record.reason, metrics, record.counts


def _rank(record: Record, judge: Judge) -> tuple[bool, bool, str]:
    fresh = judge.why_stale(record) is None
    return record.status != "failed", fresh, str(record.provenance.get("utc", ""))


def _why(ours: tuple[bool, bool, str], theirs: tuple[bool, bool, str]) -> str:
    """What decides between two ranks, in a word."""
    words = ("finished", "not stale", "newer")
    return next((word for word, a, b in zip(words, ours, theirs, strict=True) if a != b), words[-1])


def _copy(store: RecordStore, target: RecordStore, run_id: str) -> None:
    """The record last: it makes the run exist."""
    try:
        for part in (
            RecordStore.rows_path,
            RecordStore.network_path,
            RecordStore.history_path,
            RecordStore.path,
        ):
            source, copy = part(store, run_id), part(target, run_id)
            if source.exists():
                temp = temporary(target.runs_dir)
                shutil.copyfile(source, temp)
                temp.replace(copy)
            else:
                copy.unlink(missing_ok=True)
    except OSError as error:
        raise explain(f"copy run {run_id} to {target.runs_dir}", error) from error
