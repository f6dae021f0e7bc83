"""Reading table files: text (compressed or not) and parquet, errors in one line."""

import lzma
import warnings
import zipfile
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from cfq_bench.config.tablefile import TableFile
from cfq_bench.data.fields import Words, guess_separator, parse
from cfq_bench.data.numbers import inferred
from cfq_bench.data.parquet import Reading, read_parquet
from cfq_bench.data.text import decode, read_bytes
from cfq_bench.data.words import shown
from cfq_bench.errors import UserError

# pandas' parser errors are ValueErrors; damaged archives raise what each format's module defines.
_UNREADABLE = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
MISSING_WORDS = (
    "#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,<NA>,N/A,NA,NULL,NaN,None,n/a,"
    "nan,null"
).split(",")
"""What stands for a missing value in text unless `missing_words` says other: pandas' own list."""


def read_embedded(name: str) -> pd.DataFrame:
    """Read one of the files shipped in the package.

    Raises:
        UserError: the file is damaged.
    """
    file = resources.files("cfq_bench.data") / "embedded" / name
    with resources.as_file(file) as path:
        return read_csv(path)


def read_csv(path: Path, **how: Any) -> pd.DataFrame:
    """Read a published CSV file (compressed or not), whose form is known.

    Args:
        path: the file.
        how: what `pandas.read_csv` should know of its form.

    Raises:
        UserError: missing, unreadable, empty, not a CSV, or rows wider than the header.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # low_memory=False: one type per column, not per chunk. index_col=False: of rows wider
            # than the header, pandas would make the first column the index, without a word.
            frame: pd.DataFrame = pd.read_csv(path, low_memory=False, index_col=False, **how)
    except FileNotFoundError:
        raise UserError(f"data file {path} does not exist") from None
    except pd.errors.ParserWarning:
        raise UserError(
            f"data file {path}: its rows have more fields than the header has names"
        ) from None
    except _UNREADABLE as error:
        raise UserError(
            f"data file {path} cannot be read as CSV: {shown(error, 200) or type(error).__name__}"
        ) from None
    if frame.empty:
        raise UserError(f"data file {path} has no rows")
    return frame


def read_file(path: Path, how: TableFile) -> Reading:
    """Read a user's file: parquet by its suffix, else text.

    Raises:
        UserError: missing, unreadable, empty, or not of the form that `how` says.
    """
    if path.suffix.lower() == ".parquet":
        return read_parquet(path, how.missing_words or ())
    return typed(read_words(path, how), how)


def read_words(path: Path, how: TableFile) -> Words:
    """The fields of a text file as it writes them.

    Raises:
        UserError: see `read_bytes`, `decode` and `parse`.
    """
    text = decode(read_bytes(path), how.encoding, path)
    return parse(text, how.separator or guess_separator(text), path)


def typed(words: Words, how: TableFile) -> Reading:
    """Words as numbers, booleans and words, without those that stand for a missing value."""
    missing = ["", *(MISSING_WORDS if how.missing_words is None else how.missing_words)]
    columns = {
        name: inferred(column, column.isin(missing).to_numpy(), how)
        for name, column in words.frame.items()
    }
    return Reading(pd.DataFrame(columns), words.notes)
