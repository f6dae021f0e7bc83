"""What all formats share: a table of texts with its numbers, and which columns a suite shows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cfq_bench.aggregate.columns import COMPARED
from cfq_bench.config.base import Frozen
from cfq_bench.config.yaml import read_yaml
from cfq_bench.results.collect import Result

_COLUMNS = Path(__file__).with_name("columns.yaml")

Number = str | int | float | None


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table; `best` is printed in bold."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A table in every format.

    Attributes:
        name: of its files, without an ending.
        caption: one line.
        head: texts above the columns; the first column holds the rows' names.
        rows: their cells, as many as the head has.
        notes: what to know when reading it.
        numbers: the same unrounded, one line per value, for CSV; keys are its columns.
    """

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str]
    numbers: Sequence[Mapping[str, Number]]


class Columns(Frozen):
    """Which metrics tables show beside those of every comparison."""

    suites: dict[str, list[str]]
    """By the suite's name."""
    optional: list[str]
    """Last, where a run has them."""

    def of(self, suite: str, finished: Iterable[Result]) -> list[str]:
        """The columns of a suite's tables."""
        measured = {key for result in finished for key in result.record.metrics}
        own = [*self.suites.get(suite, []), *(key for key in self.optional if key in measured)]
        return [*COMPARED, *own]


@cache
def columns() -> Columns:
    """`columns.yaml`."""
    return Columns.model_validate(read_yaml(_COLUMNS))


def file_name(*words: str) -> str:
    """A name that every file system takes.

    >>> file_name("adult", "W3.5A8 blocks, HAWQ's bits")
    'adult-w3.5a8-blocks-hawq-s-bits'
    >>> file_name("数据")
    'table'
    """
    text = "-".join(words).lower()
    plain = "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else " " for c in text)
    return "-".join(plain.replace("-", " ").split()).strip(".") or "table"
