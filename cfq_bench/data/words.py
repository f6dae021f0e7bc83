"""Single words of a table: how they are printed, and which of them mean the same."""

import unicodedata
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd

from cfq_bench.errors import some

_LONGEST = 60


def shown(name: object, most: int = _LONGEST) -> str:
    r"""A name or value as a message can print it: on one line, and not too long.

    >>> shown("two\nlines")
    'two\\nlines'
    """
    text = str(name)
    text = text if len(text) <= most else f"{text[: most - 3]}..."
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def named(value: object) -> str:
    r"""A name or word in quotes, on one line and not too long.

    >>> print(named("it's"), named("two\nlines"))
    "it's" 'two\nlines'
    """
    text = str(value)
    return repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...")


def plain(value: object) -> str:
    """A value as a person writes it: 1, not 1.0."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def folded(word: str) -> str:
    """A word without case and doubled spaces; the same letter is written in one way.

    >>> folded("Self  Employed ")
    'self employed'
    """
    return " ".join(unicodedata.normalize("NFKC", word).casefold().split())


def spelled_alike(words: pd.Series) -> list[Counter[str]]:
    """Words that differ in upper and lower case or spaces alone, with their counts.

    >>> spelled_alike(pd.Series(["Yes", "yes", "no", "yes"]))
    [Counter({'yes': 2, 'Yes': 1})]
    """
    groups: dict[str, Counter[str]] = {}
    for value, count in words.dropna().value_counts().items():
        if isinstance(value, str):
            groups.setdefault(folded(value), Counter())[value] = int(count)
    return [group for group in groups.values() if len(group) > 1]


def counted(group: Counter[str]) -> str:
    """Words and their counts, the most frequent first.

    >>> counted(Counter({"Yes": 2, "yes": 1}))
    "'Yes' (2 rows), 'yes' (1)"
    """
    (first, rows), *others = sorted(group.items(), key=lambda item: (-item[1], item[0]))
    rest = "".join(f", {named(word)} ({count})" for word, count in others)
    return f"{named(first)} ({rows} rows){rest}"


def spaces_note(values: Mapping[str, int], names: int = 0) -> list[str]:
    """What is said where spaces around values (counted by column) or names were taken off.

    >>> spaces_note({"job": 2}, names=1)
    ['spaces around 1 column name and 2 values (job) are taken off']
    """
    said = [f"{names} column name{'s' * (names > 1)}"] * (names > 0)
    if values:
        count = sum(values.values())
        said.append(f"{count} value{'s' * (count > 1)} ({some(map(shown, values), 3)})")
    return [f"spaces around {' and '.join(said)} are taken off"] if said else []
