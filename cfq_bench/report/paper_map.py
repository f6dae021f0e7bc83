"""Where the paper's numbers stand in our suites, and its contradictions: two data files, read."""

from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from cfq_bench.config.base import Frozen
from cfq_bench.config.yaml import read_yaml
from cfq_bench.report.paper import PaperValue

_MAP = Path(__file__).with_name("paper_map.yaml")
_NOTES = Path(__file__).with_name("paper_notes.yaml")


class Ratio(Frozen):
    """A sum of metrics over another row's at the same seed."""

    sum: list[str]
    """Keys of metrics."""
    over: str
    """Label of the other row."""
    percent: bool = False
    """As overhead in percent: 1.15 times is 15."""


Source = str | Ratio
"""A metric's key, or something made of several."""


class PaperPlace(Frozen):
    """What a setting of the paper is for us."""

    axes: dict[str, str] = Field(default_factory=dict)
    """Axis -> value."""
    group: dict[str, str] = Field(default_factory=dict)
    """A protected attribute -> its value, where the numbers are about a group."""

    @model_validator(mode="before")
    @classmethod
    def _axes_beside_group(cls, value: dict[str, Any]) -> dict[str, Any]:
        axes = {axis: text for axis, text in value.items() if axis != "group"}
        return {"axes": axes, "group": value.get("group", {})}


class PaperTable(Frozen):
    """One table of the paper."""

    baseline: str
    """Our row that orders are taken to."""
    rows: dict[str, str]
    """The paper's method, or "method | setting" -> our row."""
    settings: dict[str, PaperPlace | None] = Field(default_factory=dict)
    """The paper's setting -> ours; None where we have nothing like it."""
    axes: dict[str, str] = Field(default_factory=dict)
    """Our axes for all of its values."""
    metrics: dict[str, Source | list[Source] | None] = Field(default_factory=dict)
    """The paper's column -> ours, before the map's own."""


class Where(Frozen):
    """The place of one of the paper's values in a suite.

    Two values of one place and metric differ in their row alone.
    """

    row: str
    data: str
    axes: dict[str, str]
    group: dict[str, str]
    sources: list[Source]


class PaperMap(Frozen):
    """All tables."""

    metrics: dict[str, Source | list[Source] | None]
    """The paper's column -> ours."""
    tables: dict[str, PaperTable]
    """By the name that a suite's ``tables`` have, such as table1."""

    def where(self, table: str, value: PaperValue) -> Where | None:
        """The place of a value in our suites; None if they have nothing like it."""
        entry = self.tables[table]
        row = entry.rows.get(f"{value.method} | {value.setting}", entry.rows.get(value.method))
        place = entry.settings.get(value.setting, PaperPlace())
        source = entry.metrics.get(value.metric, self.metrics.get(value.metric))
        if row is None or place is None or source is None:
            return None
        backbone = {"backbone": value.backbone} if value.backbone else {}
        return Where(
            row=row,
            data=value.dataset,
            axes={**entry.axes, **backbone, **place.axes},
            group=place.group,
            sources=source if isinstance(source, list) else [source],
        )


class _Note(Frozen):
    tables: list[str]
    note: str


@cache
def paper_map() -> PaperMap:
    """`paper_map.yaml`."""
    return PaperMap.model_validate(read_yaml(_MAP))


def notes_on(table: str) -> list[str]:
    """What is contradictory or open about a table of the paper, in our words."""
    return [note.note for note in _notes() if table in note.tables]


@cache
def _notes() -> list[_Note]:
    return [_Note.model_validate(entry) for entry in read_yaml(_NOTES)["notes"]]
