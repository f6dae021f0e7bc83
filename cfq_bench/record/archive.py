"""A suite's records in one file: small enough to publish, enough to make every table again.

The file is xz-compressed text, one JSON document per line, sorted by run id: the record, and
whether each person's teacher action held on f_q, one bit each. The same records give the same
bytes. Costs, margins and networks stay behind in the results folder.
"""

import base64
import binascii
import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from cfq_bench.errors import UserError
from cfq_bench.files import canonical_json, explain
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "cfq-bench archive 1"
DIRECTIONS = ("favourable", "adverse")
"""Rejected people, whose failures are VD, and accepted ones: VD adverse."""

_COLUMNS = ["row_id", "direction", "valid_q"]
_XZ_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 25}]
"""32 MiB of dictionary: row ids are the same for all methods of a seed, many lines apart."""


@dataclass(frozen=True)
class Validity:
    """Whether the teacher's actions held on f_q, for the people who have one.

    Attributes:
        row_ids: (n,), of the test rows: lines of a table, names of images.
        held: (n,), whether f_q still gives the outcome that the action was for.
    """

    row_ids: NDArray[np.int64 | np.str_]
    held: NDArray[np.bool_]

    @classmethod
    def of(
        cls, row_ids: Sequence[int | str] | np.ndarray, held: Sequence[bool] | np.ndarray
    ) -> Self:
        """From any sequences."""
        named = len(row_ids) > 0 and isinstance(row_ids[0], str)
        return cls(np.asarray(row_ids, np.str_ if named else np.int64), np.asarray(held, np.bool_))

    @cached_property
    def failures(self) -> dict[int | str, float]:
        """1 where the action failed, 0 where it held, by row id: VD is their mean."""
        return dict(zip(self.row_ids.tolist(), (~self.held).astype(float).tolist(), strict=True))


RowValidity = Mapping[str, Validity]
"""By direction (`DIRECTIONS`); empty where no rows were kept."""


@dataclass(frozen=True)
class Archive:
    """What a file holds.

    Attributes:
        records: sorted by run id.
        rows: validity by run id, for the runs whose rows were kept.
    """

    records: tuple[Record, ...]
    rows: Mapping[str, RowValidity]


def validity_of(rows: "pa.Table") -> dict[str, Validity]:
    """The validity that a run's per-row results say; people without an action are left out."""
    import pyarrow.compute as pc

    row_ids, known = rows["row_id"].to_numpy(), rows["valid_q"].is_valid().to_numpy()
    held = rows["valid_q"].fill_null(False).to_numpy()
    found = {}
    for direction in DIRECTIONS:
        part = known & pc.equal(rows["direction"], direction).to_numpy()
        found[direction] = Validity.of(row_ids[part], held[part])
    return found


def stored(store: RecordStore, run_ids: Iterable[str]) -> Archive:
    """The records of some runs with their rows, as far as a results folder has them.

    Raises:
        UserError: a file is corrupt.
    """
    records = [record for name in sorted(run_ids) if (record := store.read(name)) is not None]
    rows = {
        record.run_id: validity_of(store.read_columns(record.run_id, _COLUMNS))
        for record in records
        if store.rows_path(record.run_id).exists()
    }
    return Archive(tuple(records), rows)


def pack(archive: Archive) -> bytes:
    """The file's content; the same archive gives the same bytes."""
    lines = [json.dumps(FORMAT)]
    for record in sorted(archive.records, key=lambda one: one.run_id):
        rows = archive.rows.get(record.run_id, {})
        packed = {name: _packed(rows[name]) for name in DIRECTIONS if name in rows}
        lines.append(canonical_json({"record": record.model_dump(), "rows": packed}))
    text = "\n".join(lines).encode() + b"\n"
    return lzma.compress(text, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=_XZ_FILTERS)


def unpack(data: bytes, where: str) -> Archive:
    """Read what `pack` wrote.

    Args:
        data: the file's content.
        where: the file, for messages.

    Raises:
        UserError: it is cut off, damaged, or something else.
    """
    try:
        head, *lines = lzma.decompress(data, format=lzma.FORMAT_XZ).decode().splitlines()
        if json.loads(head) != FORMAT:
            raise ValueError(f"it begins with {head[:40]}, not with {FORMAT!r}")
        pairs = [_line(json.loads(line)) for line in lines]
    except (
        *(lzma.LZMAError, binascii.Error, ValueError, RecursionError),
        *(AttributeError, KeyError, TypeError),  # JSON of another shape
    ) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise UserError(f"{where} is no whole archive of records ({why}): get it again") from error
    records = tuple(sorted((record for record, _ in pairs), key=lambda one: one.run_id))
    return Archive(records, {record.run_id: rows for record, rows in pairs if rows})


def read_archive(path: Path) -> Archive:
    """Read an archive's file.

    Raises:
        UserError: it is not there, cannot be read, or is damaged.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: `cfq-bench results pack SUITE` makes it") from None
    except OSError as error:
        raise explain(f"read {path}", error) from error
    return unpack(data, str(path))


def _line(content: dict[str, Any]) -> tuple[Record, dict[str, Validity]]:
    rows = {name: _unpacked(part) for name, part in content["rows"].items()}
    return Record.model_validate(content["record"]), rows


def _packed(validity: Validity) -> dict[str, Any]:
    """Row ids as 32-bit little-endian integers, outcomes as bits, both in base64; names as text."""
    ids = validity.row_ids
    named = ids.dtype.kind == "U"
    return {
        "n": len(ids),
        "ids": ids.tolist() if named else base64.b64encode(ids.astype("<i4").tobytes()).decode(),
        "held": base64.b64encode(np.packbits(validity.held).tobytes()).decode(),
    }


def _unpacked(part: dict[str, Any]) -> Validity:
    count, packed = part["n"], part["ids"]
    if isinstance(packed, str):
        ids = np.frombuffer(base64.b64decode(packed, validate=True), "<i4")
    else:
        ids = np.array([str(name) for name in packed])
    bits = np.frombuffer(base64.b64decode(part["held"], validate=True), np.uint8)
    if len(ids) != count or len(bits) != (count + 7) // 8:
        raise ValueError(f"{count} rows, but {len(ids)} ids and {8 * len(bits)} bits")
    return Validity.of(ids, np.unpackbits(bits, count=count))
