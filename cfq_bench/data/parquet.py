"""Parquet files of one's own: columns of single values, in the types that text files have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from cfq_bench.data.numbers import is_words
from cfq_bench.data.words import named, shown, spaces_note
from cfq_bench.errors import UserError


@dataclass(frozen=True)
class Reading:
    """What a file of one's own holds."""

    frame: pd.DataFrame
    """One type a column; the row id is the position, from 0."""
    notes: list[str] = field(default_factory=list)
    """What was not as one expects, and what was made of it."""
    unusable: Mapping[str, str] = field(default_factory=dict)
    """Columns that are not in the frame because they hold no single values, and what they hold."""


def read_parquet(path: Path, missing_words: Iterable[str]) -> Reading:
    """Read a parquet file; an index that has a name is a column like the others.

    Args:
        path: the file.
        missing_words: words that stand for a missing value, beside the empty one.

    Raises:
        UserError: missing, damaged, no parquet, without rows, or with a name missing or given
            twice.
    """
    try:
        table = pq.ParquetFile(path).read()
        unusable = {
            name: _plural(kind)
            for name, kind in zip(table.column_names, table.schema.types, strict=True)
            if not _single(kind)
        }
        # What is written into the metadata, such as an index, may be one of them.
        frame = _flat(table.drop_columns(list(unusable))).to_pandas()
    except FileNotFoundError:
        raise UserError(f"data file {path} does not exist") from None
    except (OSError, ValueError, TypeError, KeyError, MemoryError, pa.ArrowException) as error:
        why = shown(str(error).strip(), 200) or type(error).__name__
        raise UserError(f"data file {path} cannot be read as parquet: {why}") from None
    frame = frame.reset_index(drop=frame.index.names == [None])
    names = [str(name).strip() for name in frame.columns]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise UserError(f"data file {path} names column {named(name)} twice: rename one")
        if not name:
            raise UserError(f"data file {path}: column {position + 1} has no name")
    if table.num_rows == 0 or not names:
        raise UserError(f"data file {path} has no {'columns to use' * (not names) or 'rows'}")
    frame.columns = pd.Index(names)
    missing = ["", *missing_words]
    columns = {name: _as_in_text(frame[name], missing) for name in names}
    spaced = {
        name: int(frame[name].isin(words).sum())
        for name in names
        if (words := _spaced_words(frame[name]))
    }
    return Reading(pd.DataFrame(columns, index=frame.index), spaces_note(spaced), unusable)


def _single(kind: pa.DataType) -> bool:
    """Whether every value is one number, one word, one date or one boolean."""
    if kinds.is_dictionary(kind):
        return _single(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _single(kind.storage_type)
    return bool(
        kinds.is_integer(kind)
        or kinds.is_floating(kind)
        or kinds.is_decimal(kind)
        or kinds.is_boolean(kind)
        or kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_string_view(kind)
        or kinds.is_date(kind)
        or kinds.is_timestamp(kind)
        or kinds.is_null(kind)
    )


def _plural(kind: pa.DataType) -> str:
    """What a column of such values holds, in a word."""
    if kinds.is_dictionary(kind):
        return _plural(kind.value_type)
    for is_kind, words in (
        (kinds.is_map, "maps"),
        (kinds.is_nested, "structures" if kinds.is_struct(kind) else "lists"),
        (kinds.is_duration, "durations"),
        (kinds.is_time, "times of day"),
    ):
        if is_kind(kind):
            return words
    return "bytes" if "binary" in str(kind) else f"values of type {shown(kind)}"


def _flat(table: pa.Table) -> pa.Table:
    """Decimals as floats, dates as timestamps."""
    for position, kind in enumerate(table.schema.types):
        if kinds.is_decimal(kind):
            wanted = pa.float64()
        elif kinds.is_date(kind):
            wanted = pa.timestamp("ms")
        else:
            continue
        column = table.column(position).cast(wanted)
        table = table.set_column(position, table.column_names[position], column)
    return table


def _as_in_text(column: pd.Series, missing: list[str]) -> pd.Series:
    """A column as a text file gives it, where it can hold what the column does."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        if pd.api.types.is_numeric_dtype(kind.categories.dtype):
            return pd.Series(column.astype(kind.categories.dtype))
        return column
    if isinstance(kind, pd.BooleanDtype):
        empty = column.isna()
        return column.astype(object).where(~empty, np.nan) if empty.any() else column.astype(bool)
    if isinstance(kind, pd.PeriodDtype):
        return pd.Series(column.dt.to_timestamp())
    if kind == np.float16:
        return column.astype(np.float64)
    if is_words(column):
        spaced = _spaced_words(column)
        words = column.replace({word: word.strip() for word in spaced}) if spaced else column
        return words.where(~words.isin(missing), None)
    return column


def _spaced_words(column: pd.Series) -> list[str]:
    """The words of a column that have spaces around them."""
    if not is_words(column):
        return []
    distinct = column.dropna().unique().tolist()
    return [word for word in distinct if isinstance(word, str) and word != word.strip()]
