"""A text file of a table: bytes to text, text to rows of words, every row as wide as the header."""

import bz2
import csv
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from cfq_bench.data.words import named, shown, spaces_note
from cfq_bench.errors import UserError

SEPARATORS = (",", ";", "\t", "|")
UNNAMED = "Unnamed: 0"
"""What a first column without a name is called: pandas and R write row numbers there."""
_BLOCK = 4_096
"""Rows that are Python strings at the same time."""
_LOOK = 200
"""Rows that tell the separator."""
_DAMAGED = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
_OTHER_FILES = (
    (b"PK\x03\x04", "a spreadsheet or a zip archive"),
    (b"\x1f\x8b", "compressed by gzip"),
    (b"\xfd7zXZ\x00", "compressed by xz"),
    (b"PAR1\x15", "parquet"),
    (b"%PDF-", "a PDF file"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old spreadsheet"),
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Words:
    """The fields of a table as its file writes them, without the spaces around them."""

    frame: pd.DataFrame
    """Words by column, with none missing: an empty field is an empty word."""
    notes: list[str] = field(default_factory=list)
    """What was not as one expects, and what was made of it."""


def read_bytes(path: Path) -> bytes:
    """The bytes of a text file, unpacked as its name says.

    Raises:
        UserError: missing, unreadable, damaged, or another kind of file.
    """
    try:
        content = _unpacked(path)
    except FileNotFoundError:
        raise UserError(f"data file {path} does not exist") from None
    except _DAMAGED as error:
        reason = error.strerror if isinstance(error, OSError) else None
        why = reason or shown(error, 200) or type(error).__name__
        raise UserError(f"data file {path} cannot be read as CSV: {why}") from None
    for start, kind in _OTHER_FILES:
        if content.startswith(start):
            raise UserError(
                f"data file {path} is {kind} and no text: save it as CSV, or name it by its kind"
            )
    return content


def _unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    match path.suffix.lower():
        case ".gz":
            return gzip.decompress(content)
        case ".bz2":
            return bz2.decompress(content)
        case ".xz":
            return lzma.decompress(content)
        case ".zip":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = [name for name in archive.namelist() if not name.endswith("/")]
                if len(members) != 1:
                    raise ValueError(f"the archive holds {len(members)} files instead of one")
                return archive.read(members[0])
    return content


def guess_encoding(content: bytes) -> tuple[str, bool]:
    """The encoding of a text, and whether it is sure."""
    if content.startswith(_UTF16):
        return "utf-16", True
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        single = "latin-1" if not re.search(rb"[\x80-\x9f]", content) else "cp1252"
        undefined = single == "cp1252" and re.search(rb"[\x81\x8d\x8f\x90\x9d]", content)
        return ("latin-1" if undefined else single), False
    if b"\0" in content[:1000]:
        even, odd = content[:1000:2].count(0), content[1:1000:2].count(0)
        if max(even, odd) > 0.4 * len(content[:1000]) and min(even, odd) == 0:
            return ("utf-16-be" if even else "utf-16-le"), False
    return "utf-8", True


def decode(content: bytes, encoding: str, path: Path) -> str:
    """The text of a file.

    Raises:
        UserError: not text of that encoding, or with NUL bytes.
    """
    other, _ = guess_encoding(content)
    plain = encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    if plain and other != "utf-8":
        raise UserError(
            f"data file {path} is not UTF-8{_place(content)}: save it as UTF-8, or write "
            f"`encoding: {other}` in its YAML file"
        )
    try:
        text = content.decode("utf-8-sig" if plain else encoding)
    except (UnicodeError, LookupError):
        raise UserError(
            f"data file {path} is not {shown(encoding)}, as its YAML file says: save it as UTF-8 "
            f"and leave `encoding` out" + ("" if other == "utf-8" else f", or try {other}")
        ) from None
    text = text.removeprefix("\ufeff")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UserError(f"data file {path}: line {line} holds a NUL byte: the file is damaged")
    return text


def _place(content: bytes) -> str:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        if not content.startswith(_UTF16):
            line = content.count(b"\n", 0, error.start) + 1
            return f" (byte 0x{content[error.start]:02X} in line {line})"
    return ""


def guess_separator(text: str) -> str:
    """The separator that gives most rows as wide as the header, then the most columns."""
    return max(SEPARATORS, key=lambda separator: _whole_rows(text, separator))


def _whole_rows(text: str, separator: str) -> tuple[float, int]:
    """Share of the first rows that are as wide as the header, and its width."""
    try:
        rows = [row for row in islice(_reader(text, separator), _LOOK) if any(row)]
    except csv.Error:
        return 0.0, 0
    if not rows or len(rows[0]) == 1:
        return -1.0, 1
    whole = sum(len(row) == len(rows[0]) for row in rows[1:])
    return whole / max(1, len(rows) - 1), len(rows[0])


def _reader(text: str, separator: str) -> Any:  # csv has no public name for its readers
    lines = io.StringIO(text, newline="")
    return csv.reader(
        lines, delimiter=separator, strict=True, skipinitialspace=_spaced_quotes(text, separator)
    )


def _spaced_quotes(text: str, separator: str) -> bool:
    """Whether a quote follows a space, as in 1, "a, b": it would be a part of the value."""
    pattern = rf'(?m)(?:^|{re.escape(separator)}) +"(?:(?!")|"(?:{re.escape(separator)}|$))'
    return '"' in text and re.search(pattern, text) is not None


def parse(text: str, separator: str, path: Path) -> Words:
    """Split a text into rows.

    Raises:
        UserError: no rows, a name missing or given twice, a row that is not as wide as the header,
            the header once more, or quotes that do not match; names row and line.
    """
    reader = _reader(text, separator)
    try:
        header = next((row for row in reader if any(map(str.strip, row))), None)
        if header is None:
            raise UserError(f"data file {path} is empty")
        names = [name.strip() for name in header]
        if len(names) == 1:
            raise UserError(
                f"data file {path} has one column only, {named(names[0])}: a table has at least "
                "two, separated by commas, semicolons, tabs or bars"
            )
        blocks = list(_blocks(reader, names, path))
    except csv.Error as error:
        raise UserError(
            f"data file {path}: line {reader.line_num} cannot be split into fields: "
            f"{_csv_words(str(error))}"
        ) from None
    if not blocks:
        raise UserError(f"data file {path} has no rows")
    raw = pd.concat(blocks, ignore_index=True) if len(blocks) > 1 else blocks[0]
    words = _stripped(raw, names, header, path)
    if _spaced_quotes(text, separator):
        words.notes.insert(0, "spaces before quotes are taken off")
    if all(name.replace(".", "").isdigit() for name in names):
        words.notes.append("all column names are numbers: is the first line a row?")
    return words


def _csv_words(error: str) -> str:
    if "expected after" in error:
        return "something stands between a closing quote and the separator"
    if "unexpected end" in error:
        return "the file ends within quotes: a quote is missing somewhere"
    return error


def _blocks(reader: Any, names: Sequence[str], path: Path) -> Iterator[pd.DataFrame]:
    """The rows, a frame of words for some thousands of them."""
    width, row = len(names), 0
    rows: list[list[str]] = []
    for fields in reader:
        if len(fields) != width:
            if not any(map(str.strip, fields)) and len(fields) < 2:
                continue  # a blank line
            raise _ragged(path, f"row {row} (line {reader.line_num})", fields, width)
        if fields[0].strip() == names[0] and [field.strip() for field in fields] == names:
            place = f"row {row} (line {reader.line_num})"
            raise UserError(f"data file {path}: {place} repeats the header: take it out")
        rows.append(fields)
        row += 1
        if len(rows) == _BLOCK:
            yield _frame(rows)
            rows = []
    if rows:
        yield _frame(rows)


def _frame(rows: list[list[str]]) -> pd.DataFrame:
    return pd.DataFrame(dict(enumerate(map(list, zip(*rows, strict=True)))), dtype="str")


def _ragged(path: Path, place: str, fields: list[str], width: int) -> UserError:
    more = len(fields) > width
    why = "a separator or a quote too few"
    if more and fields[-1].strip() == "":
        why = "a separator too many at the end of the line"
    elif more:
        why = "a separator too many, a value with one that is not quoted, or a name too few above"
    return UserError(
        f"data file {path}: {place} has {len(fields)} field{'s' * (len(fields) > 1)}, and the "
        f"header has {width}: {why}"
    )


def _stripped(raw: pd.DataFrame, names: list[str], header: list[str], path: Path) -> Words:
    """Words without the spaces around them, under names that are there and differ."""
    spaced: dict[str, int] = {}
    kept: dict[str, pd.Series] = {}
    notes: list[str] = []
    for position, name in enumerate(names):
        words = raw[position].str.strip()
        if name == "" and position > 0 and bool((words == "").all()):
            notes.append(f"column {position + 1} has neither a name nor values: left out")
            continue
        if name == "" and position > 0:
            raise UserError(f"data file {path}: column {position + 1} has no name in the header")
        if name == "":
            notes.append(f"the first column has no name and is called {UNNAMED!r}")
        if name in kept:
            raise UserError(
                f"data file {path}: the header names {named(name)} twice, in columns "
                f"{names.index(name) + 1} and {position + 1}: rename one of them"
            )
        kept[name or UNNAMED] = words
        touched = int((words != raw[position]).sum())
        if touched:
            spaced[name] = touched
    in_names = sum(name != given for name, given in zip(names, header, strict=True))
    return Words(pd.DataFrame(kept), spaces_note(spaced, in_names) + notes)
