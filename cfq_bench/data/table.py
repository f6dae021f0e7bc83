"""A raw table and where it comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from cfq_bench.config.base import TABLE_FILES
from cfq_bench.config.plugin import load_module
from cfq_bench.config.settings import DataSettings
from cfq_bench.data.reading import read_file, written_numbers
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
    check_table(table, settings)
    return table


def read_table(settings: DataSettings, data_dir: Path | None = None) -> Table:
    """Read the table of a data set, with its missing values.

    Raises:
        UserError: the file cannot be read, or lacks a column.
    """
    if settings.loader.lower().endswith(TABLE_FILES):
        table = Table(read_file(Path(settings.loader)), settings.loader)
    else:
        loader: Loader = load_module(settings.loader).load
        table = loader(data_dir)
    _require_columns(table.frame, [*settings.features, settings.target.column], table.source)
    frame = _numbers_in_words(table.frame, settings)
    return replace(table, frame=_whole_codes(frame, settings))


def _require_columns(frame: pd.DataFrame, wanted: Sequence[str], source: str) -> None:
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise UserError(
            f"{source}: column {missing[0]!r} is missing"
            + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
            + f"; it has: {some(map(str, frame.columns))}"
        )


def _numbers_in_words(frame: pd.DataFrame, settings: DataSettings) -> pd.DataFrame:
    """Numbers that a file writes as words, such as 13.5% or $1,200; other words stay, to be named.

    Per cent stay per cent: 13.5% is 13.5.
    """
    changed: dict[str, pd.Series] = {}
    for name, feature in settings.features.items():
        column = frame[name]
        words = pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)
        if feature.kind in ("numeric", "integer") and words:
            numbers = written_numbers(column)
            changed[name] = column.astype(object).where(numbers.isna(), numbers)
    return frame.assign(**changed)


def _whole_codes(frame: pd.DataFrame, settings: DataSettings) -> pd.DataFrame:
    """Category codes that pandas reads as 1.0 because of a missing value beside them are 1."""
    changed = {}
    for name, feature in settings.features.items():
        column = frame[name]
        if feature.kind in ("categorical", "ordinal") and pd.api.types.is_float_dtype(column):
            values = column.to_numpy(dtype=np.float64)
            if np.all(np.isnan(values) | (values == np.round(values))) and column.notna().any():
                changed[name] = column.astype("Int64")
    return frame.assign(**changed) if changed else frame


def check_table(table: Table, settings: DataSettings) -> None:
    """Refuse missing values, non-numbers in numeric columns, unusable labels."""
    frame, source = table.frame, table.source
    target = settings.target.column
    _refuse_missing(frame[target], source, " (a label cannot be imputed)")
    if settings.missing != "impute":
        for name in settings.features:
            _refuse_missing(frame[name], source, " or impute")
    _check_kinds(frame, settings, source)
    _check_target(frame[target], settings, source)


def check_features(frame: pd.DataFrame, settings: DataSettings, source: str) -> None:
    """Refuse rows without labels whose features are missing, empty or of the wrong kind.

    Raises:
        UserError: names the column, the row, what was expected and what came.
    """
    _require_columns(frame, list(settings.features), source)
    for name in settings.features:
        if bool(frame[name].isna().any()):
            raise UserError(f"{source}: {name!r} has no value: give one for every feature")
    _check_kinds(frame, settings, source)


def _refuse_missing(column: pd.Series, source: str, otherwise: str) -> None:
    empty = column.isna().to_numpy()
    if empty.any():
        row = column.index[int(empty.argmax())]
        raise UserError(
            f"{source}: column {column.name!r} has {int(empty.sum())} missing values, the first "
            f"in row {row}: fill them in, or set data.missing to drop{otherwise}"
        )


def _check_kinds(frame: pd.DataFrame, settings: DataSettings, source: str) -> None:
    for name, feature in settings.features.items():
        if feature.kind in ("numeric", "integer"):
            _check_numbers(frame, name, feature.kind, feature.transform, source)
        elif feature.order is not None:
            _check_order(frame, name, feature.order, source)


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
    return Table(table.frame[keep], table.source, test_rows)


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
                f"{source}: column {name!r} has no value in the train split to impute from: "
                "leave the feature out, or set data.missing to drop"
            )
        value = known.mode().iloc[0]
        if feature.kind in ("numeric", "integer"):
            value = known.median()
            value = round(value) if feature.kind == "integer" else value
        filled[name] = column.where(~empty, value)
    return frame.assign(**filled)


def _check_numbers(frame: pd.DataFrame, name: str, kind: str, transform: str, source: str) -> None:
    numbers = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64)
    if pd.api.types.is_datetime64_any_dtype(frame[name]):  # pandas turns dates into nanoseconds
        numbers = np.full(len(frame), np.nan)
    present = frame[name].notna().to_numpy()
    wrong = ~np.isfinite(numbers) & present
    expected = "a number"
    if not wrong.any() and kind == "integer":
        wrong, expected = (numbers != np.round(numbers)) & present, "a whole number"
    if not wrong.any() and transform == "log1p":
        wrong, expected = numbers < 0, "a number of at least 0 (its transform is log1p)"
    if wrong.any():
        position = int(wrong.argmax())
        raise UserError(
            f"{source}: column {name!r}, row {frame.index[position]}: expected {expected}, "
            f"got {frame[name].iloc[position]!r}"
        )


def _check_order(frame: pd.DataFrame, name: str, order: list[str], source: str) -> None:
    wrong = (~frame[name].astype(str).isin(order) & frame[name].notna()).to_numpy()
    if wrong.any():
        position = int(wrong.argmax())
        raise UserError(
            f"{source}: column {name!r}, row {frame.index[position]}: expected one of "
            f"{', '.join(order)}, got {frame[name].iloc[position]!r}"
        )


def _check_target(column: pd.Series, settings: DataSettings, source: str) -> None:
    values = column.unique().tolist()
    favourable = settings.target.favourable
    where = f"{source}: target column {settings.target.column!r}"
    if len(values) != 2:
        shown = ", ".join(map(repr, sorted(map(str, values))[:5]))
        raise UserError(f"{where} must have exactly 2 values, got {len(values)}: {shown}")
    if favourable not in values:
        raise UserError(
            f"{where} never has the favourable value {favourable!r}; its values are "
            f"{values[0]!r} and {values[1]!r}"
        )
