"""Looking at the columns of an unknown table: what kind each is, and which is the label."""

import re
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch

from cfq_bench.config.settings import FeatureKind, FeatureSettings
from cfq_bench.data.reading import written_numbers
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.errors import UserError, some

TARGET_NAMES = re.compile(
    r"target|label|class|outcome|approv|default|decision|status|risk|good|bad|paid|repa|accept|"
    r"churn|fraud|dlq|delinq|recid|hired|admit|subscri|^y$",
    re.IGNORECASE,
)
BAD_NAMES = re.compile(
    r"default|risk|fraud|churn|dlq|delinq|recid|bad|late|denied|reject|bankrupt|arrest|loss",
    re.IGNORECASE,
)
GOOD_VALUES = "1 yes y true good approved accepted accept paid fully_paid repaid granted low pass"
BAD_VALUES = (
    "0 no n false bad denied rejected reject unpaid default defaulted high fail charged_off"
)
PERSONAL = re.compile(
    r"(^|[_\W])(sex|gender|race|ethnic\w*|nationality|national_origin|native\w*|religion|"
    r"marital\w*|married|disab\w*|foreign\w*|citizen\w*|birth\w*)([_\W]|$)",
    re.IGNORECASE,
)
AGE = re.compile(r"(^|[_\W])age([_\W]|$)", re.IGNORECASE)
ID_NAMES = re.compile(r"(^|[_\W])(id|uuid|key|index|row|number|no|unnamed)([_\W]|$)", re.IGNORECASE)
MANY_CATEGORIES = 50
MOST_CATEGORIES = 1000
RARE = 20
"""Rows below which a category may be absent from a train split."""


@dataclass
class Column:
    """What was found out about one column."""

    name: str
    kind: FeatureKind | None = None
    """None: left out."""
    log1p: bool = False
    rare: bool = False
    """A category that a train split may not have."""
    notes: list[str] = field(default_factory=list)
    personal: bool = False
    action: str = "any"


def inspect(column: pd.Series) -> Column:
    """Kind of one column, or why it is left out."""
    found = Column(str(column.name))
    known = column.dropna()
    if known.empty:
        found.notes.append("no values")
    elif known.nunique() == 1:
        found.notes.append(f"always {plain(known.iloc[0])}")
    elif pd.api.types.is_datetime64_any_dtype(column):
        found.notes.append("dates; turn them into numbers of days or months")
    elif pd.api.types.is_bool_dtype(known) or not pd.api.types.is_numeric_dtype(known):
        _inspect_words(found, known)
    else:
        _inspect_numbers(found, known.astype(np.float64), known)
    if found.kind is not None:
        _guess_action(found)
    return found


def gives_away(column: pd.Series, label: pd.Series) -> bool:
    """Whether one column alone tells the label in 98 % of the rows, and guessing does not.

    Such a column is often known only after the outcome. Numbers are looked at in twenty bins; a
    category counts only where it has enough rows to be no accident.
    """
    known = column.notna()
    column, label = column[known], label[known]
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > RARE:
        column = pd.qcut(column.rank(method="dense"), 20, labels=False, duplicates="drop")
    counts = pd.crosstab(column.astype(str), label.astype(str))
    counts = counts[counts.sum(axis=1) >= RARE]
    rows = counts.to_numpy().sum()
    if rows < 0.9 * len(column) or counts.empty:
        return False
    guess = counts.sum(axis=0).max() / rows
    return bool(counts.max(axis=1).sum() / rows > 0.98 and guess < 0.95)


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
    found.kind = "integer" if whole else "numeric"
    spread = numbers.std()
    skew = float(((numbers - numbers.mean()) ** 3).mean() / spread**3)
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


def _kept(numbers: pd.Series, kind: FeatureKind, log1p: bool) -> bool:
    """Whether whole numbers come back from the encoding, with room for another train split."""
    settings = FeatureSettings(kind=kind, transform="log1p" if log1p else "none")
    schema = FeatureSchema.fit(numbers.to_frame("x"), {"x": settings})
    raw = torch.tensor(numbers.to_numpy(dtype=np.float64))[:, None]
    error = (schema.destandardize(schema.standardize(raw)) - raw).abs().max()
    return float(error) < 0.1


def _inspect_words(found: Column, known: pd.Series) -> None:
    words = known.astype(str)
    counts = words.value_counts()
    numbers = pd.to_numeric(words, errors="coerce")
    if numbers.notna().all():  # numbers that the file stores as words
        _inspect_numbers(found, numbers.astype(np.float64), numbers)
        return
    written = written_numbers(words)
    if written.notna().all():
        _inspect_numbers(found, written.astype(np.float64), written)
        if found.kind in ("numeric", "integer"):
            found.notes.append(f"written like {words.iloc[0].strip()}, read as a number")
        return
    if numbers.notna().mean() > 0.9 and len(counts) > 20:
        row = known.index[int(numbers.isna().to_numpy().argmax())]
        found.notes.append(f"mostly numbers, but {words[row]!r} in row {row}: mend the file")
        return
    if len(counts) > max(20, 0.5 * len(words)):
        found.notes.append("text: another value in almost every row")
        return
    if len(counts) > MOST_CATEGORIES:
        found.notes.append(f"{len(counts):,} categories: pool them to use the column")
        return
    if len(counts) > 20 and _dates(words):
        found.notes.append("dates; turn them into numbers of days or months")
        return
    found.kind = "categorical"
    found.rare = bool(counts.min() < RARE)
    if len(counts) > MANY_CATEGORIES:
        found.notes.append(f"{len(counts)} categories: consider pooling the rare ones")
    elif len(counts) > 2:
        found.notes.append(
            f"{some(map(str, sorted(counts.index)), 5)}; if they have an order, kind: ordinal"
        )


def _dates(words: pd.Series) -> bool:
    sample = words.head(200)
    return bool(sample.str.fullmatch(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?").mean() > 0.9)


def _guess_action(found: Column) -> None:
    if PERSONAL.search(found.name):
        found.personal = found.kind == "categorical"
        found.action = "immutable"
    elif AGE.search(found.name):
        found.action = "immutable"


def _named_id(name: str) -> bool:
    return ID_NAMES.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)) is not None


# --- the label ---


def guess_target(frame: pd.DataFrame, file: str, given: str | None) -> str:
    """The label column: as given, else the likeliest of those with two values.

    Raises:
        UserError: there is none, or the given one does not have two values.
    """
    if given is not None and given not in frame.columns:
        raise UserError(f"{file}: no column {given!r}; the file has: {some(map(str, frame))}")
    two = [str(name) for name in frame.columns if frame[name].nunique() == 2]
    if given is not None:
        if given not in two:
            count = frame[given].nunique()
            raise UserError(
                f"{file}: column {given!r} has {count} values; a target has exactly 2: "
                "derive a column with two values"
            )
        return given
    if not two:
        raise UserError(
            f"{file}: no column has exactly 2 values, so none can be the target: derive one, for "
            f"example approved yes or no; the file has: {some(map(str, frame))}"
        )
    named = [name for name in two if TARGET_NAMES.search(name) and not PERSONAL.search(name)]
    ends = {str(frame.columns[-1]), str(frame.columns[0])}
    for choice in ([n for n in named if n in ends], named, [n for n in two if n in ends], two):
        if choice:
            return choice[-1]
    return two[-1]


def guess_favourable(
    column: pd.Series, name: str, file: str, given: str | None
) -> tuple[object, bool]:
    """The favourable raw value, and whether its own word says so."""
    values = sorted(column.dropna().unique().tolist(), key=str)
    if given is not None:
        for value in values:
            if plain(value) == given:
                return value, True
        raise UserError(
            f"{file}: column {name!r} has no value {given!r}; its values are "
            f"{plain(values[0])!r} and {plain(values[1])!r}"
        )
    words = [plain(value).strip().lower().replace(" ", "_") for value in values]
    numbers_or_yes = {"1", "yes", "y", "true"}
    good = [v for v, w in zip(values, words, strict=True) if w in GOOD_VALUES.split()]
    bad = [v for v, w in zip(values, words, strict=True) if w in BAD_VALUES.split()]
    choice = good[0] if len(good) == 1 else None
    if choice is None and len(bad) == 1:
        choice = next(value for value in values if value != bad[0])
    if choice is None:
        return values[-1], False
    if plain(choice).strip().lower() in numbers_or_yes and BAD_NAMES.search(name):
        return next(value for value in values if value != choice), False
    return choice, plain(choice).strip().lower() not in numbers_or_yes


def plain(value: object) -> str:
    """A value as a person writes it: 1, not 1.0."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
