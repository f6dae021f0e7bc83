"""Reading table files: CSV (compressed or not) and parquet, errors in one line."""

import lzma
import zipfile
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from cfq_bench.errors import UserError

# pandas' parser errors are ValueErrors (pyarrow's too); damaged archives raise what each format's
# module defines.
_UNREADABLE = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
_SEPARATORS = (";", "\t", "|")
_WRITTEN = r"^[$€£]?\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s*[%$€£]?$"


def read_embedded(name: str) -> pd.DataFrame:
    """Read one of the files shipped in the package.

    Raises:
        UserError: the file is damaged.
    """
    file = resources.files("cfq_bench.data") / "embedded" / name
    with resources.as_file(file) as path:
        return read_csv(path)


def read_file(path: Path) -> pd.DataFrame:
    """Read a user's file: parquet by its suffix, else CSV. The row id is the position, from 0.

    A CSV whose header has no comma but semicolons, tabs or bars is read with those.

    Raises:
        UserError: missing, unreadable, empty, or not of its format.
    """
    if path.suffix.lower() == ".parquet":
        frame = _not_empty(path, _read(path, "parquet", pd.read_parquet))
        return frame.reset_index(drop=True).rename(columns=str)
    header = _read(path, "CSV", pd.read_csv, nrows=0)
    if len(header.columns) == 1:
        for separator in _SEPARATORS:
            if separator in str(header.columns[0]):
                return read_csv(path, sep=separator)
    return read_csv(path)


def read_csv(path: Path, **how: Any) -> pd.DataFrame:
    """Read a CSV file (compressed or not) with a header line.

    Args:
        path: the file.
        how: what `pandas.read_csv` should know of its form.

    Raises:
        UserError: missing, unreadable, empty or not a CSV.
    """
    # low_memory=False: one type per column, not per chunk.
    return _not_empty(path, _read(path, "CSV", pd.read_csv, low_memory=False, **how))


def written_numbers(words: pd.Series) -> pd.Series:
    """Numbers written as words, with a currency sign, thousands or per cent; NaN for other words.

    >>> written_numbers(pd.Series(["13.5%", "$1,200", "-7", "1,5"])).tolist()
    [13.5, 1200.0, -7.0, nan]
    """
    digits = words.astype(str).str.strip().str.extract(_WRITTEN, expand=False)
    return pd.to_numeric(digits.str.replace(",", ""), errors="coerce")


def _read(path: Path, form: str, reader: Any, **how: Any) -> pd.DataFrame:
    try:
        frame: pd.DataFrame = reader(path, **how)
    except FileNotFoundError:
        raise UserError(f"data file {path} does not exist") from None
    except _UNREADABLE as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"data file {path} cannot be read as {form}: {first}") from None
    return frame


def _not_empty(path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    if frame.empty:
        raise UserError(f"data file {path} has no rows")
    return frame
