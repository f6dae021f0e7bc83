"""Read what an offline run left behind: a .wandb file is a LevelDB log of protobuf records."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_for

BLOCK = 32768  # bytes; a piece of a record never crosses the end of a block
FULL, FIRST, LAST = 1, 2, 4  # kinds of pieces, with 3 for those in the middle


@dataclass
class OfflineRun:
    """The records of one run, folded together."""

    id: str = ""
    name: str = ""
    group: str = ""
    job_type: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)  # glob -> its step metric
    exit_code: int | None = None


def offline_runs(directory: Path) -> list[OfflineRun]:
    """Read all runs below `directory`, when each has its exit record.

    The exit record may reach the file a few milliseconds after `finish` has returned.
    """

    def read() -> list[OfflineRun]:
        return [read_run(path) for path in sorted(directory.glob("wandb/offline-run-*/*.wandb"))]

    def have_ended() -> bool:
        return all(run.exit_code is not None for run in read())

    wait_for("the exit records", have_ended, lambda: [(r.id, r.exit_code) for r in read()])
    return read()


def read_run(path: Path) -> OfflineRun:
    run = OfflineRun()
    for record in _records(path.read_bytes()):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run.id, run.name = record.run.run_id, record.run.display_name
            run.group, run.job_type = record.run.run_group, record.run.job_type
            run.tags = list(record.run.tags)
            run.config.update(_items(record.run.config.update))
        elif kind == "config":
            run.config.update(_items(record.config.update))
        elif kind == "history":
            run.history.append(_items(record.history.item))
        elif kind == "summary":
            run.summary.update(_items(record.summary.update))
        elif kind == "metric":
            run.metrics[record.metric.glob_name] = record.metric.step_metric
        elif kind == "exit":
            run.exit_code = record.exit.exit_code
    return run


def _items(items: Any) -> dict[str, Any]:
    return {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}


def _records(data: bytes) -> Iterator[Any]:
    from wandb.proto import wandb_internal_pb2

    assert data[:4] == b":W&B"
    position, pieces = 7, b""
    while position + 7 <= len(data):
        if BLOCK - position % BLOCK < 7:  # no room for a header: padding
            position += BLOCK - position % BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", data, position)
        piece = data[position + 7 : position + 7 + size]
        if len(piece) < size:
            return  # the writer is not done with it
        position += 7 + size
        pieces = piece if kind in (FULL, FIRST) else pieces + piece
        if kind in (FULL, LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(pieces)
            yield record
