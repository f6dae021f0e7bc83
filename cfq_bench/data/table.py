"""A raw table and where it comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from cfq_bench.config.plugin import load_module
from cfq_bench.config.settings import DataSettings
from cfq_bench.config.tablefile import TABLE_FILES
from cfq_bench.data.checking import check_frame, check_kinds
from cfq_bench.data.numbers import is_words, with_numbers
from cfq_bench.data.reading import read_file
from cfq_bench.data.words import named, plain, shown
from cfq_bench.errors import UserError, some


@dataclass(frozen=True)
class Table:
    """Raw rows, one person each, before any encoding."""

    frame: pd.DataFrame
    """The columns as the source has them; the index is the row id."""
    source: str
    """The file that the rows were read from, for error messages and provenance."""
    test_rows: np.ndarray | None = None
    """(N,) bool, where the source has a canonical test split."""
    notes: tuple[str, ...] = ()
    """What was not as one expects of a file, and what was made of it."""


class Loader(Protocol):
    """What a data set's module provides as ``load``."""

    def __call__(self, data_dir: Path | None) -> Table:
        """Read the raw table; `data_dir` is the user's folder of raw files, if any."""
        ...


def with_categories(
    frame: pd.DataFrame, categories: Mapping[str, Sequence[str]], source: str
) -> pd.DataFrame:
    """Give columns their documented categories, so that no split's encoding depends on its rows.

    Columns that the frame lacks and missing values are left to `check_table`.

    Raises:
        UserError: a value that is not documented; names column and row.
    """
    frame = frame.copy()
    for name, known in categories.items():
        if name not in frame:
            continue
        column = frame[name]
        wrong = (~column.isin(known) & column.notna()).to_numpy()
        if wrong.any():
            first = int(wrong.argmax())
            raise UserError(
                f"{source}: column {name!r}, row {frame.index[first]}: unknown category "
                f"{str(column.iloc[first])!r}; known: {some(known)}"
            )
        frame[name] = pd.Categorical(column, categories=list(known))
    return frame


def load_table(settings: DataSettings, data_dir: Path | None = None) -> Table:
    """Read and check the table of a data set; rows with missing values are dropped if it says so.

    Raises:
        UserError: the file, a column or a value is not what the settings say; the message names
            the column and the row.
    """
    table = read_table(settings, data_dir)
    if settings.missing == "drop":
        table = drop_missing(table, settings)
    check_frame(table.frame, settings, table.source)
    return table


def read_table(settings: DataSettings, data_dir: Path | None = None) -> Table:
    """Read the table of a data set, with its missing values.

    Raises:
        UserError: the file cannot be read, or lacks a column.
    """
    unusable: Mapping[str, str] = {}
    if settings.loader.lower().endswith(TABLE_FILES):
        read = read_file(Path(settings.loader), settings)
        table = Table(read.frame, settings.loader, notes=tuple(read.notes))
        unusable = read.unusable
    else:
        loader: Loader = load_module(settings.loader).load
        table = loader(data_dir)
    wanted = [*settings.features, settings.target.column]
    _require_columns(table.frame, wanted, table.source, unusable)
    return replace(table, frame=_as_settings_say(table.frame, settings))


def _require_columns(
    frame: pd.DataFrame, wanted: Sequence[str], source: str, unusable: Mapping[str, str]
) -> None:
    missing = [name for name in wanted if name not in frame.columns]
    if missing and missing[0] in unusable:
        raise UserError(
            f"{source}: column {named(missing[0])} holds {unusable[missing[0]]}, not one number, "
            "word or date a row: leave it out, or derive columns from it"
        )
    if missing:
        raise UserError(
            f"{source}: column {named(missing[0])} is missing"
            + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
            + f"; it has: {some(map(shown, frame.columns))}"
        )


def _as_settings_say(frame: pd.DataFrame, settings: DataSettings) -> pd.DataFrame:
    """Numbers where words are to be numbers, missing values where codes stand for them."""
    frame = _without_codes(_numbers_in_words(frame, settings), settings)
    return _whole_codes(frame, settings)


def _without_codes(frame: pd.DataFrame, settings: DataSettings) -> pd.DataFrame:
    """Values that stand for a missing one are missing."""
    changed: dict[str, pd.Series] = {}
    for name, feature in settings.features.items():
        if feature.missing_codes is None or name not in frame:
            continue
        codes = set(map(plain, feature.missing_codes))
        column = frame[name]
        found = [value for value in column.dropna().unique() if plain(value) in codes]
        changed[name] = column.where(~column.isin(found))
    return frame.assign(**changed)


def _numbers_in_words(frame: pd.DataFrame, settings: DataSettings) -> pd.DataFrame:
    """Numbers for words such as 13.5% or $1,200; other words stay, to be named."""
    changed = {
        name: with_numbers(frame[name], settings)
        for name, feature in settings.features.items()
        if feature.kind in ("numeric", "integer") and name in frame and is_words(frame[name])
    }
    return frame.assign(**changed)


def _whole_codes(frame: pd.DataFrame, settings: DataSettings) -> pd.DataFrame:
    """Category codes that pandas reads as 1.0 because of a missing value beside them are 1."""
    changed = {}
    for name, feature in settings.features.items():
        column = frame[name]
        if feature.kind in ("categorical", "ordinal") and pd.api.types.is_float_dtype(column):
            values = column.to_numpy(dtype=np.float64)
            whole = (values == np.round(values)) & (np.abs(values) < 2**53)
            if np.all(np.isnan(values) | whole) and whole.any():
                changed[name] = column.astype("Int64")
    return frame.assign(**changed) if changed else frame


def check_features(frame: pd.DataFrame, settings: DataSettings, source: str) -> pd.DataFrame:
    """Rows without labels as the settings say; refused where features are missing or wrong.

    Raises:
        UserError: names the column, the row, what was expected and what came.
    """
    _require_columns(frame, list(settings.features), source, {})
    frame = _as_settings_say(frame, settings)
    for name in settings.features:
        if bool(frame[name].isna().any()):
            raise UserError(f"{source}: {named(name)} has no value: give one for every feature")
    check_kinds(frame, settings, source)
    return frame


def drop_missing(table: Table, settings: DataSettings) -> Table:
    """Leave out rows with a missing feature or label; the others keep their ids.

    Raises:
        UserError: no row is left.
    """
    whole = table.frame[[*settings.features, settings.target.column]].notna().all(axis=1)
    keep = whole.to_numpy()
    if not keep.any():
        raise UserError(f"{table.source}: every row has a missing value, so none is left to use")
    test_rows = table.test_rows[keep] if table.test_rows is not None else None
    return replace(table, frame=table.frame[keep], test_rows=test_rows)


def impute(
    frame: pd.DataFrame, train: np.ndarray, settings: DataSettings, source: str
) -> pd.DataFrame:
    """Fill missing features with statistics of the train rows (positions) alone.

    Numbers get the median, rounded where the feature is an integer; categories the most frequent
    one, of several the first in order.

    Raises:
        UserError: a feature has no value at all among the train rows.
    """
    filled: dict[str, pd.Series] = {}
    for name, feature in settings.features.items():
        column = frame[name]
        empty = column.isna()
        if not empty.any():
            continue
        if feature.kind in ("numeric", "integer"):
            column = pd.to_numeric(column).astype(np.float64)
        elif not isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(str).astype(object).where(~empty, None)
        known = column.iloc[train].dropna()
        if known.empty:
            raise UserError(
                f"{source}: column {named(name)} has no value in the train split to impute from: "
                "leave the feature out, or set data.missing to drop"
            )
        value = known.mode().iloc[0]
        if feature.kind in ("numeric", "integer"):
            value = known.median()
            value = round(value) if feature.kind == "integer" else value
        filled[name] = column.where(~empty, value)
    return frame.assign(**filled)
