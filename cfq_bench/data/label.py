"""The label of an unknown table: which column it is, which value is hoped for, what tells it."""

import re

import numpy as np
import pandas as pd

from cfq_bench.data.judgement import judge_name
from cfq_bench.data.words import counted, folded, named, plain, shown, spelled_alike
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
GOOD_VALUES = (
    "1 yes y true good approved accepted accept paid fully_paid repaid granted low pass "
    "ja oui si sí gut"
)
BAD_VALUES = (
    "0 no n false bad denied rejected reject unpaid default defaulted high fail charged_off "
    "nein non schlecht"
)
_BINS = 20
_FEWEST = 5
"""Rows that a category needs, at least, to be no accident."""


def guess_target(frame: pd.DataFrame, file: str, given: str | None) -> str:
    """The label column: as given, else the likeliest of those with two values.

    Raises:
        UserError: there is none, or the given one does not have two values.
    """
    given = given.strip() if given is not None else None
    if given is not None and given not in frame.columns:
        raise UserError(f"{file}: no column {named(given)}; the file has: {_names(frame)}")
    if given is None:
        given = _likeliest(frame, file)
    for group in spelled_alike(frame[given]):
        raise UserError(
            f"{file}: column {named(given)} spells the same word in several ways, "
            f"{counted(group)}: write it one way to make it the target"
        )
    count = frame[given].nunique()
    if count != 2:
        raise UserError(
            f"{file}: column {named(given)} has {count} values; a target has exactly 2: "
            "derive a column with two values"
        )
    fractions = [
        v for v in frame[given].dropna().unique() if isinstance(v, float) and not v.is_integer()
    ]
    if fractions:
        raise UserError(
            f"{file}: column {named(given)} has the value {fractions[0]:g}; a target has words or "
            "whole numbers: derive one"
        )
    return given


def _likeliest(frame: pd.DataFrame, file: str) -> str:
    two = [str(name) for name in frame.columns if _meanings(frame[name]) == 2]
    if not two:
        raise UserError(
            f"{file}: no column has exactly 2 values, so none can be the target: derive one, for "
            f"example approved yes or no; the file has: {_names(frame)}"
        )
    named = [n for n in two if TARGET_NAMES.search(n) and not judge_name(n, number=False).personal]
    ends = {str(frame.columns[-1]), str(frame.columns[0])}
    for choice in ([n for n in named if n in ends], named, [n for n in two if n in ends]):
        if choice:
            return choice[-1]
    return two[-1]


def _meanings(column: pd.Series) -> int:
    """How many values differ by more than their spelling; 3 stands for more."""
    values = column.dropna().unique()
    if len(values) > 12:
        return 3
    return len({folded(value) if isinstance(value, str) else value for value in values})


def _names(frame: pd.DataFrame) -> str:
    return some(map(shown, frame.columns))


def guess_favourable(
    column: pd.Series, name: str, file: str, given: str | None
) -> tuple[object, bool]:
    """The favourable raw value, and whether its own word says so."""
    values = sorted(column.dropna().unique().tolist(), key=str)
    if given is not None:
        for value in values:
            if plain(value) == given.strip():
                return value, True
        raise UserError(
            f"{file}: column {named(name)} has no value {named(given)}; its values are "
            f"{named(plain(values[0]))} and {named(plain(values[1]))}"
        )
    words = [plain(value).strip().lower().replace(" ", "_") for value in values]
    numbers_or_yes = {"1", "yes", "y", "true", "ja", "oui", "si", "sí"}
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


def gives_away(column: pd.Series, label: pd.Series) -> str | None:
    """How one column alone tells the label, nearly without error; None where it does not.

    Such a column is often known only after the outcome. A rule is looked for that is right in 98 %
    of the rows and wrong in a fifth of the rows, at most, that guessing has wrong: one threshold,
    twenty bins of numbers, or categories that have enough rows to be no accident. Where a value is
    missing is one of its categories.
    """
    known = label.notna()
    column, positive = column[known], (label[known] == label[known].iloc[0]).to_numpy()
    rows = len(positive)
    allowed = min(0.02 * rows, 0.2 * min(positive.sum(), rows - positive.sum()))
    empty = column.isna().to_numpy()
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        numbers = column[~empty].to_numpy(dtype=np.float64)
        wrong = _threshold_errors(numbers, positive[~empty]) + _minority(positive[empty])
        if column.nunique() > 2 and wrong <= allowed:
            return "one threshold of it tells the target almost alone"
        if column.nunique() > _BINS:
            column = pd.qcut(column.rank(method="dense"), _BINS, labels=False, duplicates="drop")
    codes = pd.factorize(column.astype(object).where(~empty, None), use_na_sentinel=False)[0]
    sizes, ones = np.bincount(codes), np.bincount(codes, weights=positive)
    large = sizes >= max(_FEWEST, min(_BINS, rows // 20))
    wrong = np.minimum(ones, sizes - ones)[large].sum()
    if sizes[large].sum() < 0.9 * rows or len(sizes) < 2:
        return None
    if wrong == 0 and len(sizes) == 2 and bool(large.all()):
        return "the target in other words"
    return "it tells the target almost alone" if wrong <= allowed else None


def _minority(positive: np.ndarray) -> int:
    return int(min(positive.sum(), len(positive) - positive.sum()))


def _threshold_errors(numbers: np.ndarray, positive: np.ndarray) -> int:
    """Rows on the wrong side of the best threshold."""
    if len(numbers) == 0:
        return 0
    order = np.argsort(numbers, kind="stable")
    values, above = numbers[order], positive[order]
    cut = np.append(np.flatnonzero(values[1:] != values[:-1]), len(values) - 1)
    ones = np.cumsum(above)[cut]  # positives up to each cut
    zeros = cut + 1 - ones
    wrong = ones + (len(above) - above.sum() - zeros)  # positive means above the cut
    return int(min(wrong.min(), (len(above) - wrong).min()))
