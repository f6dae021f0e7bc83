"""Looking at the columns of an unknown table: what kind each is, and what may be done to it."""

import re
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import torch

from cfq_bench.config.settings import FeatureKind, FeatureSettings
from cfq_bench.config.tablefile import TableFile
from cfq_bench.data.codes import are_days, are_years, codes_in
from cfq_bench.data.judgement import DATE, Judgement, judge_name, judge_words
from cfq_bench.data.numbers import POINT, is_like_number, numbers_in, units_in
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.data.words import counted, named, plain, shown, spelled_alike
from cfq_bench.errors import some

ID_NAMES = re.compile(r"(^|[_\W])(id|uuid|key|index|row|number|no|unnamed)([_\W]|$)", re.IGNORECASE)
MANY_CATEGORIES = 50
MOST_CATEGORIES = 1000
RARE = 20
"""Rows below which a category may be absent from a train split."""
_REACH = 0.005
"""Share of the rows beyond each end of what an action may reach, as in the drafted `bounds`."""
_MONTH = "(?:jan|feb|mar|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-z]*"
_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?"  # 2020-01-31, 31/1/20
    r"|(19|20)\d\d[-/.]\d{1,2}|\d{1,2}[-/.](19|20)\d\d"  # 2020-01
    rf"|(\d{{1,2}}[-. ]+)?{_MONTH}[-. ,]+(\d{{1,2}},? +)?\d{{2,4}}",  # 31 Jan 2020, Jan 31, 2020
    re.IGNORECASE,
)


@dataclass
class Column:
    """What was found out about one column."""

    name: str
    kind: FeatureKind | None = None
    """None: left out."""
    log1p: bool = False
    order: list[str] | None = None
    """Ordinal: the categories from lowest to highest."""
    rare: bool = False
    """A category that a train split may not have."""
    notes: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    """What only a person can know."""
    codes: list[int] = field(default_factory=list)
    """Values that may stand for a missing one."""
    judgement: Judgement = field(default_factory=Judgement)
    low: float | None = None
    high: float | None = None
    """Ends of what an action may reach, where a code would be one."""


def inspect(column: pd.Series, how: TableFile = POINT) -> Column:
    """Kind of one column, or why it is left out.

    Args:
        column: as `read_file` gives it.
        how: how the file writes numbers.
    """
    found = Column(str(column.name))
    known = column.dropna()
    if known.empty:
        found.notes.append("no values")
    elif known.nunique() == 1:
        found.notes.append(f"always {shown(plain(known.iloc[0]))}")
    elif pd.api.types.is_datetime64_any_dtype(column):
        found.notes.append("dates; turn them into numbers of days or months")
    elif isinstance(known.dtype, pd.CategoricalDtype):
        _inspect_categories(found, known)
    elif pd.api.types.is_bool_dtype(known) or not pd.api.types.is_numeric_dtype(known):
        _inspect_words(found, known, how)
    else:
        _inspect_numbers(found, known.astype(np.float64), known)
    if found.kind is not None:
        _judge(found, known)
    return found


def _inspect_numbers(found: Column, numbers: pd.Series, known: pd.Series) -> None:
    if not np.isfinite(numbers).all():
        row = known.index[int((~np.isfinite(numbers)).to_numpy().argmax())]
        found.notes.append(f"an infinite value in row {row}")
        return
    whole = bool((numbers == numbers.round()).all())
    distinct = known.nunique()
    steps = numbers.diff().dropna()
    if whole and distinct == len(known) > 2 and (_named_id(found.name) or (steps == 1).all()):
        found.notes.append("an id: another value in every row")
        return
    if distinct == 2:
        found.kind = "categorical"
        found.rare = bool(known.value_counts().min() < RARE)
        found.notes.append("two values, read as categories")
        return
    values = numbers.to_numpy()
    if whole and are_days(values):
        found.notes.append("dates; turn them into numbers of days or months")
        return
    found.kind = "integer" if whole else "numeric"
    if whole and are_years(values):
        found.judgement = DATE  # unless its name says more
    found.codes = codes_in(values)
    rest = numbers[~numbers.isin(found.codes)]
    spread = rest.std()
    skew = float(((rest - rest.mean()) ** 3).mean() / spread**3) if spread > 0 else 0.0
    found.log1p = bool(numbers.min() >= 0 and skew > 3 and distinct > 20)
    if whole and not _kept(numbers, "integer", found.log1p):
        if found.log1p and _kept(numbers, "integer", log1p=False):
            found.log1p = False  # whole numbers matter more than a good shape
        else:
            found.kind = "numeric"
            found.notes.append("whole numbers too large to be kept whole: use larger units")
    if found.kind == "integer" and distinct <= 8:
        found.notes.append(f"{distinct} values: a count? If they are codes, kind: categorical")
    if found.log1p:
        found.notes.append("very skewed: log1p")
    for code in found.codes:
        rows = int((numbers == code).sum())
        found.questions.append(f"{code} in {rows} rows stands apart: a code?")
    if any(code < 0 for code in found.codes):
        found.low = float(rest.quantile(_REACH, interpolation="lower"))
    if any(code > 0 for code in found.codes):
        found.high = float(rest.quantile(1 - _REACH, interpolation="higher"))


def _kept(numbers: pd.Series, kind: FeatureKind, log1p: bool) -> bool:
    """Whether whole numbers come back from the encoding, with room for another train split."""
    settings = FeatureSettings(kind=kind, transform="log1p" if log1p else "none")
    schema = FeatureSchema.fit(numbers.to_frame("x"), {"x": settings})
    raw = torch.tensor(numbers.to_numpy(dtype=np.float64))[:, None]
    error = (schema.destandardize(schema.standardize(raw)) - raw).abs().max()
    return float(error) < 0.1


def _inspect_categories(found: Column, known: pd.Series) -> None:
    """A parquet file's own categories, which may have an order."""
    names = [str(category) for category in known.cat.categories]
    if known.cat.ordered and len(names) > 2 and len(names) <= MANY_CATEGORIES:
        found.kind, found.order = "ordinal", names
        return
    _inspect_words(found, known.astype(object), POINT)


def _inspect_words(found: Column, known: pd.Series, how: TableFile) -> None:
    words = known.astype(str)
    counts = words.value_counts()
    zeros = bool(words.str.fullmatch(r"0\d+").any())
    if not zeros:
        numbers = numbers_in(words, how)
        if numbers.notna().all():
            _inspect_numbers(found, numbers, numbers)
            unlike = words[pd.to_numeric(words, errors="coerce").isna()]
            if found.kind in ("numeric", "integer") and len(unlike):
                found.notes.append(f"written like {shown(unlike.iloc[0])}, read as a number")
            units = units_in(words[numbers != 0])
            if found.kind is not None and len(units) > 1:
                found.questions.append(f"written with {counted(units)}: the same unit?")
            return
        alike = words[words.map({word: is_like_number(word) for word in counts.index})]
        if len(alike) > 0.9 * len(words) and len(counts) > 20 and not _dates(words):
            row = known.index[int(numbers.isna().to_numpy().argmax())]
            sign = f" (decimal: {how.decimal!r})" if is_like_number(words[row]) else ""
            found.notes.append(
                f"mostly numbers, but {named(words[row])} in row {row}{sign}: mend the file"
            )
            return
    if _dates(words):
        found.notes.append("dates; turn them into numbers of days or months")
        return
    if len(counts) > max(20, 0.5 * len(words)):
        found.notes.append("text: another value in almost every row")
        return
    if len(counts) > MOST_CATEGORIES:
        found.notes.append(f"{len(counts):,} categories: pool them to use the column")
        return
    found.kind = "categorical"
    found.rare = bool(counts.min() < RARE)
    if zeros:
        found.notes.append("codes with leading zeros, kept as text")
    if len(counts) > MANY_CATEGORIES:
        found.notes.append(f"{len(counts)} categories: consider pooling the rare ones")
    elif len(counts) > 2:
        listed = some(map(shown, sorted(counts.index)), 5)
        found.notes.append(f"{listed}; if they have an order, kind: ordinal")
    found.questions += alike_notes(words)


def alike_notes(words: pd.Series) -> list[str]:
    """Categories that may be one, spelled in several ways."""
    groups = [counted(group) for group in spelled_alike(words)]
    return [f"{some(groups, 3)} may be the same word: write it one way"] if groups else []


def _dates(words: pd.Series) -> bool:
    sample = words.head(200)
    return bool(sample.map(lambda word: _DATE.fullmatch(word.strip()) is not None).mean() > 0.9)


def _judge(found: Column, known: pd.Series) -> None:
    number = found.kind != "categorical"
    judged = judge_name(found.name, number)
    if judged == Judgement() and not number and known.nunique() <= MANY_CATEGORIES:
        judged = judge_words(map(str, known.unique())) or judged
    if judged != Judgement():
        found.judgement = replace(judged, personal=judged.personal and not number)


def _named_id(name: str) -> bool:
    return ID_NAMES.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)) is not None
