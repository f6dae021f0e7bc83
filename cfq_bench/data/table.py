"""A raw table and where it comes from."""

import lzma
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from cfq_bench.config.plugin import load_module
from cfq_bench.config.settings import DataSettings
from cfq_bench.errors import UserError


@dataclass(frozen=True)
class Table:
    """Raw rows, one person each, before any encoding."""

    frame: pd.DataFrame
    """The columns as the source has them; the index is the row id."""
    source: str
    """The file that the rows were read from, for error messages and provenance."""
    test_rows: np.ndarray | None = None
    """(N,) bool, where the source has a canonical test split."""


# pandas' parser errors are ValueErrors; damaged archives raise what each format's module defines.
_UNREADABLE = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)


class Loader(Protocol):
    """What a data set's module provides as ``load``."""

    def __call__(self, data_dir: Path | None) -> Table:
        """Read the raw table; `data_dir` is the user's folder of raw files, if any."""
        ...


def read_embedded(name: str) -> pd.DataFrame:
    """Read one of the files shipped in the package.

    Raises:
        UserError: the file is damaged.
    """
    file = resources.files("cfq_bench.data") / "embedded" / name
    with resources.as_file(file) as path:
        return read_csv(path)


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
                f"{str(column.iloc[first])!r}; known: {', '.join(known)}"
            )
        frame[name] = pd.Categorical(column, categories=list(known))
    return frame


def read_csv(path: Path, **how: Any) -> pd.DataFrame:
    """Read a CSV file (compressed or not) with a header line.

    Args:
        path: the file.
        how: what `pandas.read_csv` should know of its form.

    Raises:
        UserError: missing, unreadable, empty or not a CSV.
    """
    try:
        frame: pd.DataFrame = pd.read_csv(
            path, low_memory=False, **how
        )  # one type per column, not per chunk
    except FileNotFoundError:
        raise UserError(f"data file {path} does not exist") from None
    except _UNREADABLE as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"data file {path} cannot be read as CSV: {first}") from None
    if frame.empty:
        raise UserError(f"data file {path} has no rows")
    return frame


def load_table(settings: DataSettings, data_dir: Path | None = None) -> Table:
    """Read and check the table of a data set.

    Raises:
        UserError: the file, a column or a value is not what the settings say; the message names
            the column and the row.
    """
    if settings.loader.endswith(".csv"):
        table = Table(read_csv(Path(settings.loader)), settings.loader)
    else:
        loader: Loader = load_module(settings.loader).load
        table = loader(data_dir)
    check_table(table, settings)
    return table


def check_table(table: Table, settings: DataSettings) -> None:
    """Refuse missing columns, missing values, non-numbers in numeric columns, unusable labels."""
    frame, source = table.frame, table.source
    target = settings.target.column
    wanted = [*settings.features, target]
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise UserError(
            f"{source}: column {missing[0]!r} is missing"
            + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
            + f"; the file has: {', '.join(map(str, frame.columns))}"
        )
    for name in wanted:
        column = frame[name]
        empty = column.isna().to_numpy()
        if empty.any():
            row = frame.index[int(empty.argmax())]
            raise UserError(
                f"{source}: column {name!r} has {int(empty.sum())} missing values, the first in "
                f"row {row}: fill them in or drop these rows"
            )
    for name, feature in settings.features.items():
        if feature.kind in ("numeric", "integer"):
            _check_numbers(frame, name, feature.kind, feature.transform, source)
        elif feature.order is not None:
            _check_order(frame, name, feature.order, source)
    _check_target(frame[target], settings, source)


def _check_numbers(frame: pd.DataFrame, name: str, kind: str, transform: str, source: str) -> None:
    numbers = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64)
    wrong = ~np.isfinite(numbers)
    expected = "a number"
    if not wrong.any() and kind == "integer":
        wrong, expected = numbers != np.round(numbers), "a whole number"
    if not wrong.any() and transform == "log1p":
        wrong, expected = numbers < 0, "a number of at least 0 (its transform is log1p)"
    if wrong.any():
        position = int(wrong.argmax())
        raise UserError(
            f"{source}: column {name!r}, row {frame.index[position]}: expected {expected}, "
            f"got {frame[name].iloc[position]!r}"
        )


def _check_order(frame: pd.DataFrame, name: str, order: list[str], source: str) -> None:
    wrong = ~frame[name].astype(str).isin(order).to_numpy()
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
