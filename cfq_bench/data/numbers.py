"""Numbers as files write them: decimal signs, groups of three, brackets, currencies, per cent."""

import re
from collections import Counter
from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa

from cfq_bench.config.tablefile import TableFile

POINT = TableFile()
"""Numbers as programs write them."""
_CURRENCY = r"(?:[$€£¥₹]|EUR|USD|GBP|CHF)"
_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2212": "-", "’": "'"})
_WHOLE = r"-?(?:0|[1-9]\d{0,17})"
_LEADING_ZERO = r"[-+]?0\d+"
_LIKE = re.compile(
    rf"^\(?[-+]?\s*{_CURRENCY}?\s*[-+]?(?:\d[\d.,' ]*|[.,]\d+)(?:[eE][-+]?\d+)?\s*"
    rf"(?:%|{_CURRENCY})?\s*\)?\s*(?:%|{_CURRENCY})?$",
    re.ASCII,
)


@lru_cache(maxsize=64)
def _grammar(decimal: str, thousands: str | None, brackets: bool) -> str:
    """A pattern whose named groups are the sign and the digits."""
    point, group = re.escape(decimal), re.escape(thousands or "")
    whole = rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+|\d+" if thousands else r"\d+"
    digits = rf"(?:{whole})(?:{point}\d*)?(?:[eE][-+]?\d+)?|{point}\d+"
    signed = rf"[-+]?\s*{_CURRENCY}?\s*[-+]?"
    body = rf"(?P<sign>{signed})(?P<digits>{digits})\s*(?:%|{_CURRENCY})?"
    if brackets:
        body = rf"(?P<open>\()?\s*{body}\s*(?(open)\))"
    return rf"^(?:{body})$"


def numbers_in(words: pd.Series, how: TableFile = POINT) -> pd.Series:
    """Numbers written as words, with a currency or per cent; NaN for words that do not fit.

    Per cent stay per cent: 13.5% is 13.5.

    >>> numbers_in(pd.Series(["13.5%", "$1,200", "-7", "1,5"])).tolist()
    [13.5, 1200.0, -7.0, nan]
    >>> german = TableFile(decimal=",", thousands=".", negative_brackets=True)
    >>> numbers_in(pd.Series(["1.234,50 €", "(300)", "1.5"]), german).tolist()
    [1234.5, -300.0, nan]
    """
    thousands = how.thousands or ("," if how.decimal == "." else None)
    return numbers_by(words, how.decimal, thousands, how.negative_brackets)


def numbers_by(words: pd.Series, decimal: str, thousands: str | None, brackets: bool) -> pd.Series:
    """As `numbers_in`, by signs of which none stands for another by default."""
    pattern = re.compile(_grammar(decimal, thousands, brackets), re.ASCII)
    distinct = words.dropna().unique()  # of a million rows, few differ
    texts = [_pointed(str(word), pattern, decimal, thousands) for word in distinct]
    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").astype(np.float64)
    return words.map(dict(zip(distinct, numbers, strict=True))).astype(np.float64)


def is_words(column: pd.Series) -> bool:
    """Whether a column holds words, beside what else it may hold."""
    return pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column)


def with_numbers(column: pd.Series, how: TableFile) -> pd.Series:
    """A column of words with numbers where the words are written like numbers; others stay."""
    column = column.astype(object)
    words = column.map(lambda value: isinstance(value, str)).to_numpy(dtype=bool)
    numbers = numbers_in(column.where(words), how)
    return column.where(numbers.isna(), numbers).infer_objects()


def is_like_number(word: str) -> bool:
    """Whether a word is a number in some country's way of writing, more or less.

    >>> [is_like_number(word) for word in ("1'200.50", "(3 000) EUR", "01.02.2020", "12-B")]
    [True, True, True, False]
    """
    return _LIKE.match(word.translate(_SPACES)) is not None


def _pointed(
    word: str, pattern: re.Pattern[str], decimal: str, thousands: str | None
) -> str | None:
    """The number as programs write it; None for what is none."""
    found = pattern.match(word.strip().translate(_SPACES))
    if found is None:
        return None
    parts = found.groupdict()
    signs = [sign for sign in parts["sign"] if sign in "+-"] + ["-"] * bool(parts.get("open"))
    digits = parts["digits"].replace(thousands or "\0", "").replace(decimal, ".")
    return "".join([*signs, digits]) if len(signs) < 2 else None


def units_in(words: pd.Series) -> Counter[str]:
    """How many words have which currency, per cent, or nothing beside the number.

    >>> units_in(pd.Series(["5%", "7%", "0.05"]))
    Counter({'%': 2, 'nothing': 1})
    """
    units = words.str.extract(f"({_CURRENCY}|%)", expand=False).fillna("nothing")
    return Counter({str(unit): int(count) for unit, count in units.value_counts().items()})


def inferred(words: pd.Series, empty: np.ndarray, how: TableFile = POINT) -> pd.Series:
    """A column of words as what they say at first sight: whole numbers, numbers, booleans, words.

    Codes with a leading zero, such as 01234, stay words. With a decimal point this is what pandas
    reads.

    Args:
        words: the column, as words.
        empty: (N,) bool, which of them stand for a missing value.
        how: the file's decimal sign.
    """
    known = words[~empty]
    if known.empty:
        return pd.Series(np.nan, index=words.index, name=words.name)
    column: pd.Series | None = _booleans(known)
    if column is None:
        column = _plain_numbers(known, how.decimal)
    if column is None:
        column = known
    return column.reindex(words.index) if empty.any() else column


def _booleans(known: pd.Series) -> pd.Series | None:
    spellings = {"True": True, "TRUE": True, "true": True}
    spellings |= {"False": False, "FALSE": False, "false": False}
    if known.iloc[0] not in spellings or not known.isin(list(spellings)).all():
        return None
    return known.map(spellings).astype(bool)


def _plain_numbers(known: pd.Series, decimal: str) -> pd.Series | None:
    if decimal == ",":
        if not known.str.fullmatch(r"[-+]?(\d+(,\d*)?|,\d+)([eE][-+]?\d+)?").all():
            return None
        known = known.str.replace(",", ".", regex=False)
    words = known.to_numpy(dtype=object)
    if known.str.fullmatch(_WHOLE).all():  # what follows takes ten times as long
        numbers = pa.array(words, pa.string()).cast(pa.int64()).to_numpy()
        return pd.Series(numbers, index=known.index, name=known.name)
    try:
        numbers = pd.to_numeric(words)
    except (ValueError, TypeError, OverflowError):
        return None
    if numbers.dtype == object or bool(np.isnan(numbers).any()):
        return None
    if known.str.fullmatch(_LEADING_ZERO).any():
        return None
    return pd.Series(numbers, index=known.index, name=known.name)
