"""The fields of a text file: rows of words, each as wide as the header."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from cfq_bench.data.words import named, spaces_note
from cfq_bench.errors import UserError

SEPARATORS = (",", ";", "\t", "|")
UNNAMED = "Unnamed: 0"
"""What a first column without a name is called: pandas and R write row numbers there."""
_BLOCK = 4_096
"""Rows that are Python strings at the same time."""
_LOOK = 200
"""Rows that tell the separator."""


@dataclass(frozen=True)
class Words:
    """The fields of a table as its file writes them, without the spaces around them."""

    frame: pd.DataFrame
    """Words by column, with none missing: an empty field is an empty word."""
    notes: list[str] = field(default_factory=list)
    """What was not as one expects, and what was made of it."""


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
        return -1.0, max(map(len, rows), default=1)
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
            raise _one_name(path, names[0], next((row for row in reader if any(row)), []))
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


def _one_name(path: Path, name: str, following: list[str]) -> UserError:
    if len(following) > 1 and not any(separator in name for separator in SEPARATORS):
        return UserError(
            f"data file {path}: the header has one name, {named(name)}, and the line below it "
            f"{len(following)} fields: take out what stands above the header"
        )
    return UserError(
        f"data file {path} has one column only, {named(name)}: a table has at least two, separated "
        "by commas, semicolons, tabs or bars"
    )


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
            raise UserError(
                f"data file {path}: column {position + 1} has no name in the header: name it, or "
                "take it out"
            )
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
