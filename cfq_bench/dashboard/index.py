"""The records of a folder, kept up to date: a file that did not change is not read again."""

import json
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfq_bench.aggregate.runs import Run, read_run
from cfq_bench.errors import UserError
from cfq_bench.files import explain
from cfq_bench.record.identity import Judge
from cfq_bench.record.store import RecordStore

Stamp = tuple[int, int, int]
"""Modification time in ns, size and inode: records are replaced by renaming, never edited."""


@dataclass(frozen=True)
class Snapshot:
    """What the folder held at one moment.

    Attributes:
        version: changes when anything else here does; also the ETag of the page's data.
        runs: by run id.
        problems: one line for each file that is no record.
        stale: why records are no answers for this code and these data, by run id.
    """

    version: str
    runs: tuple[Run, ...]
    problems: tuple[str, ...]
    stale: Mapping[str, str] = field(default_factory=dict)


class RecordIndex:
    """Reads records once, and again where their files change. Safe to share between threads.

    Args:
        results_dir: folder of the results; it may be empty, or made later.
    """

    def __init__(self, results_dir: Path) -> None:
        self.store = RecordStore(results_dir)
        self._lock = threading.Lock()
        self._stamps: dict[str, Stamp] = {}
        self._runs: dict[str, Run] = {}
        self._problems: dict[str, str] = {}
        self._made: dict[str, dict[str, Any]] = {}
        self._stale: dict[str, str] = {}
        self._start, self._changes = secrets.token_hex(4), 0

    def refresh(self) -> Snapshot:
        """Look at the folder; read what is new.

        Raises:
            UserError: the folder cannot be read.
        """
        with self._lock:
            stamps = self._scan()
            for run_id in self._stamps.keys() - stamps.keys():
                self._forget(run_id)
            for run_id, stamp in stamps.items():
                if self._stamps.get(run_id) != stamp:
                    self._read(run_id)
            stale = self._judge()
            if (stamps, stale) != (self._stamps, self._stale):
                self._changes += 1
                self._stamps, self._stale = stamps, stale
            return Snapshot(
                version=f"{self._start}-{self._changes}",
                runs=tuple(self._runs[run_id] for run_id in sorted(self._runs)),
                problems=tuple(self._problems[run_id] for run_id in sorted(self._problems)),
                stale=stale,
            )

    def get(self, run_id: str) -> Run | None:
        """The run of this name, if the folder holds its record."""
        self.refresh()
        return self._runs.get(run_id)

    def _scan(self) -> dict[str, Stamp]:
        folder = self.store.runs_dir
        stamps: dict[str, Stamp] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".json") and not entry.name.startswith("."):
                        stat = entry.stat()
                        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
                        stamps[entry.name.removesuffix(".json")] = stamp
        except FileNotFoundError:
            return {}  # the first run makes it
        except OSError as error:
            raise explain(f"read {folder}", error) from error
        return stamps

    def _read(self, run_id: str) -> None:
        self._forget(run_id)
        path = self.store.path(run_id)
        try:
            content = json.loads(path.read_bytes())
            self._runs[run_id] = read_run(content, run_id)
            self._made[run_id] = {
                key: content.get(key) for key in ("config", "made_by", "provenance")
            }
        except (OSError, ValueError, RecursionError, UserError) as error:
            self._problems[run_id] = f"{path.name}: {error}"

    def _judge(self) -> dict[str, str]:
        """As code and data are now, which may change while the page is shown."""
        judge = Judge()
        reasons = ((name, judge.why_stale_content(made)) for name, made in self._made.items())
        return {name: why for name, why in reasons if why is not None}

    def _forget(self, run_id: str) -> None:
        self._made.pop(run_id, None)
        self._runs.pop(run_id, None)
        self._problems.pop(run_id, None)
