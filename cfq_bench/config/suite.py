"""A suite: a named grid of runs, ``conf/suite/<name>.yaml``, and the runs that it stands for.

A grid is rows (what a table compares) times axes (what it is compared on). An axis is one of
`NAMES` and `KEYS`, which take values, or any other word, whose values are labels that stand for
``key=value`` overrides. A suite that is ``like`` another one has its grid, but for the keys that
its own file gives::

    about: table 1 on my data
    like: table1
    axes: {data: [mine.yaml], seed: [0, 1]}

``every_method: true`` adds the methods that have no row, so that a new one need not be listed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from cfq_bench.config.base import Frozen, Label, Named
from cfq_bench.config.explain import explain
from cfq_bench.config.loader import known_names, load_settings
from cfq_bench.config.settings import Settings
from cfq_bench.config.yaml import read_named
from cfq_bench.errors import UserError, unknown_name
from cfq_bench.files import run_id

NAMES = ("data", "backbone", "teacher", "solver", "actions", "regime")
"""Axes whose values name a YAML file."""
KEYS = {"budget": "budget.avg_bits", "cost": "actions.cost", "shift": "evaluation.shift"}
"""Axes whose values are those of one setting."""

GRID = ("overrides", "axes", "rows", "every_method", "include", "exclude")
"""What a suite takes from the one that it is like."""

Value = str | int | float
Axis = (
    Annotated[list[Value], Field(min_length=1)]
    | Annotated[dict[Label, list[str]], Field(min_length=1)]
)

Condition = dict[str, Value | list[Value]]


class Row(Frozen):
    """One row of the tables that a suite answers."""

    label: Label
    """What tables call it."""
    method: str
    """A name of ``conf/method``, or the path of a YAML file."""
    overrides: list[str] = Field(default_factory=list)
    """``key=value`` lines of this row alone; they win over those of axes and of the suite."""


class Grid(Frozen):
    """Rows times axes."""

    overrides: list[str] = Field(default_factory=list)
    """``key=value`` lines of every run."""
    axes: dict[Label, Axis] = Field(default_factory=dict)
    """What rows are compared on: values, or labels with the overrides that they stand for."""
    rows: Annotated[list[Row], Field(min_length=1)]

    @model_validator(mode="after")
    def _values_fit(self) -> "Grid":
        for axis, values in self.axes.items():
            plain = isinstance(values, list)
            if not plain and axis in (*NAMES, "seed"):
                raise ValueError(f"axis {axis!r} takes a list of values, not overrides")
            if plain and axis not in (*NAMES, *KEYS, "seed"):
                known = ", ".join((*NAMES, *KEYS, "seed"))
                raise ValueError(
                    f"axis {axis!r} is none of {known}: give each of its values the overrides "
                    "that it stands for, as in {label: [key=value]}"
                )
            if axis == "seed" and not all(type(v) is int and v >= 0 for v in values):
                raise ValueError(f"axis 'seed' takes whole numbers from 0 on, got {values}")
        return self


class SuiteSettings(Grid, Named):
    """One suite."""

    every_method: bool = False
    """Whether methods that no row has get a row of their own, after the others: all that
    ``conf/method`` has, yours of ``--conf-dir`` included, labelled by their names."""
    tables: list[str] = Field(default_factory=list)
    """What it answers in the paper, such as table1 or figure3."""
    include: list[Grid] = Field(default_factory=list)
    """Further grids; `overrides` of the suite hold for them too, its axes do not."""
    exclude: list[Condition] = Field(default_factory=list)
    """Cells that are left out: those that have all of these values (``row`` is a row's label)."""
    like: str | None = None
    """Another suite, whose overrides, axes, rows, include and exclude hold where this file gives
    none of its own."""


@dataclass(frozen=True)
class SuiteRun:
    """One run of a suite.

    Attributes:
        row: label of its row in tables.
        axes: where it stands on the suite's axes, as text; ``data`` and ``seed`` always.
        settings: its whole configuration.
        run_id: the name of its record.
    """

    row: str
    axes: dict[str, str]
    settings: Settings
    run_id: str


def load_suite(name: str, conf_dir: Path | None = None) -> SuiteSettings:
    """Read a suite by its name, or by its path where `name` ends in .yaml or .yml.

    Raises:
        UserError: there is none, or it is not a suite.
    """
    path, raw = _read(name, conf_dir, [])
    try:
        suite = SuiteSettings.model_validate(raw)
    except ValidationError as error:
        raise explain(error, SuiteSettings, "", str(path), set()) from None
    if not suite.every_method:
        return suite
    there = {row.method for row in suite.rows}
    others = [Row(label=m, method=m) for m in known_names("method", conf_dir) if m not in there]
    return suite.model_copy(update={"rows": [*suite.rows, *others]})


def _read(name: str, conf_dir: Path | None, above: list[str]) -> tuple[Path, dict[str, Any]]:
    """A suite's file and what it says, with what it takes from the suite that it is like.

    `above` are the suites that lead to this one.
    """
    if name in above:
        raise UserError(f"suite {above[0]} is like itself: {' -> '.join([*above, name])}")
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
    else:
        known = known_names("suite", conf_dir)
        if name not in known:
            raise unknown_name("suite", name, known, f"(suite {above[-1]}, like)" if above else "")
        path = known[name]
    raw = read_named(path, path.stem)
    other = raw.get("like")
    if not isinstance(other, str):  # a slip of another kind is explained with the rest
        return path, raw
    _, theirs = _read(other, conf_dir, [*above, name])
    return path, {key: theirs[key] for key in GRID if key in theirs} | raw


def expand(suite: SuiteSettings, conf_dir: Path | None = None) -> list[SuiteRun]:
    """The runs of a suite, each once, in the order of its rows' tables: axes first, then rows.

    Of cells that come to the same configuration, the first one names it.

    Raises:
        UserError: a cell names or sets something that does not exist; the message says which.
    """
    _refuse_unknown_conditions(suite)
    runs: dict[str, SuiteRun] = {}
    for grid in (suite, *suite.include):
        common = suite.overrides if grid is suite else [*suite.overrides, *grid.overrides]
        for cell, row in _cells(grid, suite.exclude):
            try:
                for run in _seeds(grid, common, cell, row, suite.exclude, conf_dir):
                    runs.setdefault(run.run_id, run)
            except UserError as error:
                place = ", ".join(f"{axis} {value}" for axis, value in cell.items())
                where = f"suite {suite.name}, row {row.label!r}" + (f", {place}" if place else "")
                raise UserError(f"{where}: {error}") from None
    if not runs:
        raise UserError(f"suite {suite.name}: its exclusions leave no run")
    return list(runs.values())


def select(runs: Iterable[SuiteRun], conditions: Mapping[str, Iterable[str]]) -> list[SuiteRun]:
    """The runs that have one of the given values on every given axis (or ``row``).

    Raises:
        UserError: an axis that no run has, or a value that no run has there.
    """
    every = list(runs)
    for axis, values in conditions.items():
        found = {_place(run, axis) for run in every} - {None}
        if not found:
            axes = {"row", *(name for run in every for name in run.axes)}
            raise unknown_name("axis", axis, axes)
        for value in values:
            if value not in found:
                raise unknown_name(axis, value, (str(name) for name in found))
    return [
        run
        for run in every
        if all(_place(run, axis) in set(values) for axis, values in conditions.items())
    ]


def _place(run: SuiteRun, axis: str) -> str | None:
    return run.row if axis == "row" else run.axes.get(axis)


def _cells(grid: Grid, exclude: list[Condition]) -> Iterator[tuple[dict[str, str], Row]]:
    """Places on the axes but the seed, times rows, without those that are left out."""
    axes = {axis: [_text(v) for v in values] for axis, values in grid.axes.items()}
    axes.pop("seed", None)
    for values in product(*axes.values()):
        cell = dict(zip(axes, values, strict=True))
        for row in grid.rows:
            if not _left_out({**cell, "row": row.label}, exclude):
                yield cell, row


def _seeds(
    grid: Grid,
    common: list[str],
    cell: dict[str, str],
    row: Row,
    exclude: list[Condition],
    conf_dir: Path | None,
) -> Iterator[SuiteRun]:
    """The runs of one cell: its settings are read once, and differ in the seed alone."""
    lines = list(common)
    for axis, value in cell.items():
        values = grid.axes[axis]
        if isinstance(values, dict):
            lines += values[value]
        elif axis in KEYS:
            lines.append(f"{KEYS[axis]}={value}")
    names = {axis: value for axis, value in cell.items() if axis in NAMES}
    settings = load_settings(
        row.method, **names, overrides=[*lines, *row.overrides], conf_dir=conf_dir
    )
    config = settings.model_dump(mode="json")
    seeds = grid.axes.get("seed", [settings.seed])
    for seed in seeds:
        places = {"data": settings.data.name, **cell, "seed": str(seed)}
        if not _left_out({**places, "row": row.label}, exclude):
            one = settings.model_copy(update={"seed": seed})
            yield SuiteRun(row.label, places, one, run_id({**config, "seed": seed}))


def _left_out(places: dict[str, str], exclude: list[Condition]) -> bool:
    return any(
        all(places.get(axis) in _texts(value) for axis, value in condition.items())
        for condition in exclude
    )


def _refuse_unknown_conditions(suite: SuiteSettings) -> None:
    """An exclusion that can fit nothing is a slip of the pen."""
    grids = (suite, *suite.include)
    known: dict[str, set[str]] = {"row": {row.label for grid in grids for row in grid.rows}}
    for grid in grids:
        for axis, values in grid.axes.items():
            known.setdefault(axis, set()).update(_text(value) for value in values)
    for condition in suite.exclude:
        for axis, value in condition.items():
            if axis not in known:
                raise unknown_name("axis", axis, known, f"(suite {suite.name}, exclude)")
            for text in _texts(value):
                if text not in known[axis]:
                    where = f"(suite {suite.name}, exclude)"
                    raise unknown_name(axis, text, known[axis], where)


def _texts(value: Value | list[Value]) -> list[str]:
    return [_text(item) for item in (value if isinstance(value, list) else [value])]


def _text(value: Any) -> str:
    """As a person writes it: 4 and 4.0 are the same budget.

    >>> _text(4.0), _text(3.5), _text("compas")
    ('4', '3.5', 'compas')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)
