"""The records of a folder, kept up to date: a file that did not change is not read again."""

import json
import os
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path

from cfq_bench.aggregate.runs import Run, read_run
from cfq_bench.errors import UserError
from cfq_bench.files import explain
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
    """

    version: str
    runs: tuple[Run, ...]
    problems: tuple[str, ...]


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
            if stamps != self._stamps:
                self._changes += 1
                self._stamps = stamps
            return Snapshot(
                version=f"{self._start}-{self._changes}",
                runs=tuple(self._runs[run_id] for run_id in sorted(self._runs)),
                problems=tuple(self._problems[run_id] for run_id in sorted(self._problems)),
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
            self._runs[run_id] = read_run(json.loads(path.read_bytes()), run_id)
        except (OSError, ValueError, RecursionError, UserError) as error:
            self._problems[run_id] = f"{path.name}: {error}"

    def _forget(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        self._problems.pop(run_id, None)
