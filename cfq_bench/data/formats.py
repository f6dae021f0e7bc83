"""Looking at an unknown file: its encoding, its separator, how it writes numbers, what is missing.

What is found is settings (`TableFile`) that reading then follows to the letter, and a comment for
each of them: nothing is guessed again when the table is read.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from cfq_bench.config.tablefile import TableFile
from cfq_bench.data.fields import guess_separator, parse
from cfq_bench.data.label import TARGET_NAMES
from cfq_bench.data.numbers import is_like_number, numbers_by, numbers_in
from cfq_bench.data.parquet import Reading, read_parquet
from cfq_bench.data.reading import MISSING_WORDS, typed
from cfq_bench.data.text import decode, guess_encoding, read_bytes
from cfq_bench.data.words import folded, named, shown
from cfq_bench.data.yaml_text import quoted
from cfq_bench.errors import some

_MISSING_LIKE = frozenset(
    [
        *(folded(word) for word in MISSING_WORDS),
        *"n.a. n.a na. nil - -- --- ? . * missing unknown not_available".split(),
        "not available",
        "k.a.",
        "keine angabe",
    ]
)
"""Folded words that may mean that a value is missing."""
_SAMPLE = 5_000
"""Distinct words of a column that tell how it writes numbers."""
_FORMS: tuple[tuple[str, str | None], ...] = (
    (".", None),
    (".", ","),
    (",", None),
    (",", "."),
    (".", " "),
    (",", " "),
    (".", "'"),
    (",", "'"),
)
"""Decimal and thousands signs; of those that fit equally well, the first is taken."""
_SEMICOLONS_FIRST = (_FORMS[0], *_FORMS[2:4], _FORMS[1], *_FORMS[4:])
"""Semicolons separate fields where the comma is the decimal sign."""


@dataclass
class Look:
    """What an unknown file was found to be."""

    how: TableFile
    reading: Reading
    why: dict[str, str] = field(default_factory=dict)
    """A comment for each setting of `how` that the file needs."""
    doubts: dict[str, list[str]] = field(default_factory=dict)
    """What to ask about single columns."""


@dataclass
class _Findings:
    """What becomes a `Look`, while it is being found."""

    settings: dict[str, Any] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, list[str]] = field(default_factory=dict)

    def say(self, name: str, value: object, why: str = "") -> None:
        self.settings[name], self.why[name] = value, why

    def doubt(self, column: str, question: str) -> None:
        self.doubts.setdefault(column, []).append(question)


def look(path: Path, target: str | None = None) -> Look:
    """Look at a file of which nothing is known.

    Args:
        path: the file.
        target: the label column, if it is known.

    Raises:
        UserError: it cannot be read.
    """
    found = _Findings()
    if path.suffix.lower() == ".parquet":
        reading = read_parquet(path, ())
        frame, usual = _word_columns(reading.frame), []
    else:
        content = read_bytes(path)
        encoding, sure = guess_encoding(content)
        text = decode(content, encoding, path)
        separator = guess_separator(text)
        words = parse(text, separator, path)
        frame, usual = words.frame, MISSING_WORDS
        if encoding != "utf-8":
            doubt = "" if sure else "a guess: look at names and words with accents"
            found.say("encoding", encoding, doubt)
        if separator != ",":
            found.say("separator", separator)
    known = {str(name): _Words(frame[name]) for name in frame}
    _find_numbers(known, found)
    _find_missing(known, usual, target, found)
    how = TableFile(**found.settings)
    if path.suffix.lower() == ".parquet":
        reading = read_parquet(path, how.missing_words or ())
    else:
        reading = typed(words, how)
    return Look(how, reading, found.why, found.doubts)


def _word_columns(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.select_dtypes(include=["object", "string"]).map(
        lambda value: value if isinstance(value, str) else ""
    )


class _Words:
    """The words of one column, those that may mean that a value is missing apart.

    Attributes:
        absent: counts of the words that may mean so.
        said: a sample of the others, distinct.
        distinct: how many others there are.
        numbers: those of the sample that are numbers, in some way of writing them.
        is_number: whether nearly all are.
    """

    def __init__(self, column: pd.Series) -> None:
        counts = column[column != ""].value_counts()
        absent = {str(w): int(c) for w, c in counts.items() if folded(str(w)) in _MISSING_LIKE}
        self.absent: Counter[str] = Counter(absent)
        others = counts.index[~counts.index.isin(list(absent))]
        self.said = others[:_SAMPLE].to_series().reset_index(drop=True)
        self.distinct = len(others)
        alike = self.said.map(is_like_number).to_numpy(dtype=bool)
        self.numbers = self.said[alike]
        self.is_number = len(self.said) > 0 and alike.mean() > 0.9


def _find_numbers(known: Mapping[str, _Words], found: _Findings) -> None:
    """How numbers are written: what most columns agree on."""
    columns = {
        name: column.numbers
        for name, column in known.items()
        if column.is_number and column.numbers.str.contains(r"[.,'’() \u00a0\u202f]").any()
    }
    bracketed = [name for name, numbers in columns.items() if numbers.str.startswith("(").any()]
    forms = _SEMICOLONS_FIRST if found.settings.get("separator") == ";" else _FORMS
    read = {form: _read(columns, form, bool(bracketed)) for form in forms}
    fitting = {form: {n for n in columns if n in values} for form, values in read.items()}
    most = max(map(len, fitting.values()))
    best = next(form for form in forms if len(fitting[form]) == most)
    decimal, thousands = best
    if decimal == ",":
        found.say("decimal", ",", _example(columns, fitting[best], ","))
    if thousands is not None:
        found.say("thousands", thousands, _example(columns, fitting[best], thousands))
    if bracketed:
        found.say("negative_brackets", True, _example(columns, bracketed, "("))
    for form in forms:
        if form == best or len(fitting[form]) < most or most == 0:
            continue
        unlike = [n for n in fitting[best] & fitting[form] if _differ(read[best][n], read[form][n])]
        if unlike:
            name = min(unlike, key=list(columns).index)
            doubt = _doubt(name, columns[name], read, best, form)
            where = "thousands" if thousands is not None else "decimal"
            if where in found.why:
                found.why[where] += f"; {doubt}"
            else:
                found.doubt(name, doubt)
            break


def _read(
    columns: Mapping[str, pd.Series], form: tuple[str, str | None], brackets: bool
) -> dict[str, pd.Series]:
    """The columns that fit a form, as numbers."""
    values = {
        name: numbers_by(numbers, *form, brackets=brackets) for name, numbers in columns.items()
    }
    return {name: numbers for name, numbers in values.items() if numbers.notna().all()}


def _differ(one: pd.Series, other: pd.Series) -> bool:
    return bool((one != other).any())


def _doubt(
    name: str,
    words: pd.Series,
    read: Mapping[tuple[str, str | None], Mapping[str, pd.Series]],
    best: tuple[str, str | None],
    other: tuple[str, str | None],
) -> str:
    one, two = read[best][name], read[other][name]
    place = int((one != two).to_numpy().argmax())
    signs = [f'decimal: "{other[0]}"'] + [f'thousands: "{other[1]}"'] * (other[1] is not None)
    return (
        f"{shown(words.iloc[place])} in {shown(name)} is read as {one.iloc[place]:.12g}; if it is "
        f"{two.iloc[place]:.12g}, write {' and '.join(signs)} instead"
    )


def _example(columns: Mapping[str, pd.Series], names: Any, sign: str) -> str:
    for name in columns:
        if name in names:
            with_sign = columns[name][columns[name].str.contains(sign, regex=False)]
            if len(with_sign):
                return f"as in {named(with_sign.iloc[0])}, column {named(name)}"
    return ""


def _find_missing(
    known: Mapping[str, _Words], usual: Sequence[str], target: str | None, found: _Findings
) -> None:
    """Which of the words that may mean it do mean that a value is missing."""
    how = TableFile(**found.settings)
    ends = {*list(known)[:1], *list(known)[-1:]}
    absent = [word for word in usual if any(word in column.absent for column in known.values())]
    for name, column in known.items():
        if not column.absent or column.distinct == 0:
            continue
        numbers = column.is_number and numbers_in(column.said, how).notna().all()
        wanted = name == target or (target is None and name in ends and TARGET_NAMES.search(name))
        if numbers or (wanted and column.distinct == 2):
            absent += [word for word in column.absent if word not in absent]
    for name, column in known.items():
        numbers = column.is_number
        for word, count in column.absent.most_common(3):
            if word in absent and not numbers:
                found.doubt(
                    name,
                    f"{shown(word)} in {count} rows is read as missing; if it is a category, take "
                    "it out of missing_words",
                )
            elif word not in absent:
                found.doubt(
                    name,
                    f"{shown(word)} in {count} rows is kept as a category; if it means missing, "
                    f"missing_codes: [{quoted(word)}]",
                )
    if not absent:
        return
    counts = [
        f"{shown(word)}: "
        + some((f"{c.absent[word]} in {shown(n)}" for n, c in known.items() if word in c.absent), 3)
        for word in absent
    ]
    found.say("missing_words", absent, f"{'; '.join(counts)}. Missing, or categories? Review")
