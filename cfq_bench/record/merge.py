"""The union of results folders."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cfq_bench.errors import UserError
from cfq_bench.files import ensure_writable, explain, temporary
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

    Of two records of one run, the one that is finished wins over a failed one, then the newer. Two
    that differ in nothing but times and provenance are the same.

    Args:
        sources: results folders (those with ``runs`` inside).
        into: the results folder that gets them; it may exist and may be one of the sources.

    Raises:
        UserError: a source is no results folder, or the target cannot be written.
    """
    for source in sources:
        if not (source / "runs").is_dir():
            raise UserError(f"{source} is no results folder: it has no folder 'runs'")
    target = RecordStore(into)
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
            if theirs is None or (ours is not None and _result(ours) == _result(theirs)):
                same += 1
                continue
            better = ours is None or _rank(theirs) > _rank(ours)
            if ours is not None:
                kept = source if better else into
                notes.append(f"{path.stem} differs: kept the one of {kept} ({_why(ours, theirs)})")
            if better:
                _copy(store, target, theirs.run_id)
                copied += 1
    return Merged(copied, same, tuple(notes), corrupt)


def _result(record: Record) -> object:
    """What two runs of one configuration must have in common: not how long they took."""
    metrics = {k: v for k, v in record.metrics.items() if not k.startswith("time/")}
    return record.status, record.reason, metrics, record.counts


def _rank(record: Record) -> tuple[bool, str]:
    return record.status != "failed", str(record.provenance.get("utc", ""))


def _why(ours: Record, theirs: Record) -> str:
    return "finished" if _rank(ours)[0] != _rank(theirs)[0] else "newer"


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
