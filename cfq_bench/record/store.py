"""The folder of records: the truth about what has been run."""

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfq_bench.errors import UserError
from cfq_bench.files import explain, explained, temporary, write_atomic, write_together
from cfq_bench.record.record import Record, run_id

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_SHOWN = 10  # ids listed in a message


class RecordStore:
    """Records in ``<results>/runs/<run_id>.json``, with per-row results and network beside them.

    Args:
        results_dir: folder of the results; made when the first record is written.
    """

    def __init__(self, results_dir: Path) -> None:
        self.runs_dir = results_dir / "runs"

    def path(self, run_id: str) -> Path:
        """Return the file of the record. The run exists if and only if this file does."""
        return self.runs_dir / f"{run_id}.json"

    def rows_path(self, run_id: str) -> Path:
        """Return the file of the run's per-row results."""
        return self.runs_dir / f"{run_id}.parquet"

    def network_path(self, run_id: str) -> Path:
        """Return the file of the network that the run deployed."""
        return self.runs_dir / f"{run_id}.pt"

    def read_network(self, run_id: str) -> bytes:
        """Return the serialized network of a run.

        Raises:
            UserError: it is not there.
        """
        path = self.network_path(run_id)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise UserError(
                f"{path} does not exist: the network of this run was not kept, run it with --force"
            ) from None
        except OSError as error:
            raise explain(f"read {path}", error) from error

    def read(self, run_id: str) -> Record | None:
        """Return the record, or None if there is none.

        Raises:
            UserError: the file is corrupt, or belongs to another run.
        """
        path = self.path(run_id)
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explain(f"read {path}", error) from error
        record = Record.from_json(text, where=str(path))
        if record.run_id != run_id:
            raise UserError(
                f"{path} holds the record of run {record.run_id}: delete it or rerun with --force"
            )
        return record

    def mark(self, run_id: str) -> str | None:
        """What tells this writing of a record from every other one; None where there is none."""
        return _mark(self.path(run_id))

    def finished(self, config: Mapping[str, Any]) -> Record | None:
        """Return the record that answers for a configuration; a failed one is no answer."""
        record = self.read(run_id(config))
        return None if record is None or record.status == "failed" else record

    def write(
        self,
        record: Record,
        rows: "pd.DataFrame | None",
        network: bytes | None = None,
        history: "pd.DataFrame | None" = None,
    ) -> None:
        """Store a run, in place of an earlier record of the same run.

        Args:
            record: the run.
            rows: its per-row results, one row each; the frame's index is not kept.
            network: what it deployed, serialized.
            history: what its training logged, with columns `name`, `step` and `value`.

        Raises:
            UserError: the disk is full, the folder is not writable, and the like.
        """
        text = record.to_json().encode()
        beside = self._beside(record.run_id, rows, network, history)
        kept = {path: data for path, data in beside.items() if data is not None}
        # The JSON comes last: it makes the run exist, and by then the others are there.
        write_together({**kept, self.path(record.run_id): text})
        for path, data in beside.items():
            if data is None and path.exists():  # an earlier record of this run has left it
                with explained(f"remove {path}"):
                    path.unlink(missing_ok=True)

    def publish(
        self,
        record: Record,
        rows: "pd.DataFrame | None",
        network: bytes | None = None,
        history: "pd.DataFrame | None" = None,
        replaces: str | None = None,
    ) -> bool:
        """Store a run that others may be storing too: of all of them, the first one stays.

        Args:
            record: the run.
            rows: its per-row results.
            network: what it deployed, serialized.
            history: what its training logged, as for `write`.
            replaces: the `mark` of a stale record, which makes room for the first one.

        Returns:
            Whether this record was stored. If not, another one of the same run was there.

        Raises:
            UserError: the disk is full, the folder is not writable, and the like.
        """
        path = self.path(record.run_id)
        if (there := _mark(path)) is not None and there != replaces:
            return False
        temp = temporary(self.runs_dir)
        write_atomic(temp, record.to_json().encode())
        try:
            # What lies beside is the same for every worker: a configuration has one result.
            beside = self._beside(record.run_id, rows, network, history)
            for each, data in beside.items():
                if data is not None:
                    write_atomic(each, data)
            if there is not None and not _set_aside(path, replaces):
                return False
            os.link(temp, path)  # fails where the name is taken, which a rename does not
        except FileExistsError:
            return False
        except OSError as error:
            raise explain(f"write {path}", error) from error
        finally:
            with explained(f"remove {temp}"):
                temp.unlink(missing_ok=True)
        return True

    def _beside(
        self,
        run_id: str,
        rows: "pd.DataFrame | None",
        network: bytes | None,
        history: "pd.DataFrame | None",
    ) -> dict[Path, bytes | None]:
        """What lies beside a record: file -> content, None where the run left none."""
        return {
            self.rows_path(run_id): None if rows is None else _to_parquet(rows),
            self.network_path(run_id): network,
            self.history_path(run_id): None if history is None else _to_parquet(history),
        }

    def history_path(self, run_id: str) -> Path:
        """Return the file of the run's training history."""
        return self.runs_dir / f"{run_id}.history.parquet"

    def read_history(self, run_id: str) -> dict[str, list[tuple[int, float]]]:
        """Return (step, value) pairs of each logged quantity; empty where none was kept.

        Raises:
            UserError: the file is corrupt.
        """
        path = self.history_path(run_id)
        if not path.exists():
            return {}
        history: dict[str, list[tuple[int, float]]] = {}
        for line in _read_parquet(path).to_pylist():
            history.setdefault(line["name"], []).append((line["step"], line["value"]))
        return history

    def read_rows(self, run_id: str) -> "pd.DataFrame":
        """Return the run's per-row results, with a fresh index.

        Raises:
            UserError: the run has none, or the file is corrupt.
        """
        rows: pd.DataFrame = self.read_columns(run_id).to_pandas()
        return rows

    def read_columns(self, run_id: str, columns: list[str] | None = None) -> "pa.Table":
        """Return columns of the run's per-row results, without pandas and its import.

        Args:
            run_id: the run.
            columns: those that are wanted; None for all.

        Raises:
            UserError: the run has none, or the file is corrupt.
        """
        path = self.rows_path(run_id)
        try:
            return _read_parquet(path, columns)
        except FileNotFoundError:
            raise UserError(
                f"run {run_id} has no per-row results ({path}): rerun it with --force"
            ) from None

    def all(self) -> list[Record]:
        """Return every record, by id.

        Raises:
            UserError: one of the files is corrupt.
        """
        records = (self.read(run_id) for run_id in self._ids())
        return [record for record in records if record is not None]

    def find(self, prefix: str) -> Record:
        """Return the one record whose id starts with ``prefix``.

        Raises:
            UserError: none does, or several do.
        """
        ids = self._ids()
        fitting = [run_id for run_id in ids if run_id.startswith(prefix)]
        if len(fitting) > 1:
            raise UserError(
                f"{len(fitting)} runs start with {prefix!r}: {_listing(fitting)}: give more digits"
            )
        record = self.read(fitting[0]) if fitting else None
        if record is None:
            raise UserError(
                f"no run in {self.runs_dir} starts with {prefix!r}: it has {_listing(ids)}"
            )
        return record

    def _ids(self) -> list[str]:
        return sorted(path.stem for path in self.runs_dir.glob("*.json"))


def _mark(path: Path) -> str | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return f"{stat.st_mtime_ns}-{stat.st_size}-{stat.st_ino}"


def _set_aside(path: Path, mark: str | None) -> bool:
    """Remove the record of this mark, and no other that has come in its place."""
    aside = temporary(path.parent, "stale")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return True  # another worker was faster
    try:
        if _mark(aside) == mark:
            return True
        os.link(aside, path)
        return False
    finally:
        aside.unlink(missing_ok=True)


def _listing(ids: list[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return (", ".join(ids[:_SHOWN]) or "none") + more


def _read_parquet(path: Path, columns: list[str] | None = None) -> "pa.Table":
    """The table in a file, or some of its columns.

    Raises:
        FileNotFoundError: there is no such file.
        UserError: it is corrupt, or cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise explain(f"read {path}", error) from error
    try:
        # A third of the time of `read_table`, which looks for a folder of files.
        table = pq.ParquetFile(pa.BufferReader(data)).read(columns)
        return table if columns is None else table.select(columns)
    except (pa.ArrowException, OSError, KeyError) as error:  # KeyError: a column is missing
        raise UserError(f"{path} is corrupt ({error}): rerun with --force") from error


def _to_parquet(rows: "pd.DataFrame") -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Without pandas' own metadata: it names library versions and attrs, so that equal frames
    # would give different bytes.
    table = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
