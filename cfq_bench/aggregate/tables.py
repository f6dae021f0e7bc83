"""Records as tables: one for every setting, a row for every method, the same in every view.

`cfq-bench compare` prints them, the dashboard shows them, and `assets/aggregate.js` makes them
again in the browser when a filter changes; a test holds all against each other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cfq_bench.aggregate.columns import Column
from cfq_bench.aggregate.labels import Labels
from cfq_bench.aggregate.numbers import Form, spread_of
from cfq_bench.aggregate.rows import Rows, Values, winnable
from cfq_bench.aggregate.runs import GROUP_METRICS, Run
from cfq_bench.statistics.summary import mean_and_sd

Line = tuple[str, str]
"""Label of a row, and the protected group that it is about; empty for all people."""
PAIRED_ABOUT = "boundary error less that of {}, at the same seeds"
PAIRED_LABEL = "paired vs {}"


@dataclass(frozen=True)
class Cell:
    """A number as text, as what the column is sorted by (None where undefined), and its mark."""

    text: str
    value: float | None
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One method, or one group of one.

    Attributes:
        label: the method, with its own settings.
        group: the protected group, ``sex: Female``; empty in other tables.
        seeds: over how many seeds, and of how many.
        count: over how many.
        note: the seeds, where they are not those of the table.
        cells: in the order of the columns.
    """

    label: str
    group: str
    seeds: str
    count: int
    note: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """One setting.

    Attributes:
        title: the setting in words.
        seeds: those that rows are compared on, as text.
        columns: what the cells are.
        rows: in the order of the methods.
    """

    title: str
    seeds: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Wanted:
    """What the tables of a view show.

    Attributes:
        columns: in order; those that no run of a table has are left out, unless `whole`.
        whole: keep all columns.
        by_group: one row for each protected group of each method; nothing is marked.
        paired: add the paired difference to the baseline.
    """

    columns: tuple[Column, ...]
    whole: bool = False
    by_group: bool = False
    paired: bool = False


def tables(runs: Iterable[Run], labels: Labels, wanted: Wanted) -> list[Table]:
    """Every table; settings without a number to show have none."""
    by_table: dict[str, list[Run]] = {key: [] for key in labels.tables}
    for run in runs:
        if run.status == "ok" and run.seed_number is not None:
            by_table[run.table].append(run)
    made = (_table(key, group, labels, wanted) for key, group in by_table.items())
    return [table for table in made if table.rows and table.columns]


def _table(key: str, runs: list[Run], labels: Labels, wanted: Wanted) -> Table:
    baseline = labels.baselines[key]
    rows = _rows(runs, labels, wanted, baseline)
    columns = wanted.columns if wanted.whole else _filled(wanted.columns, rows.by_seed.values())
    best = {column.key: _best(rows, column, wanted) for column in columns}
    lines = []
    for line in rows.by_seed:
        used = rows.used(line)
        note = "" if rows.whole(line) else f"own seeds: {', '.join(map(str, used))}"
        cells = [
            cell_of(
                [rows.by_seed[line][seed].get(column.key) for seed in used],
                column.form,
                len(used),
                line in best[column.key],
            )
            for column in columns
        ]
        if wanted.paired:
            cells.append(cell_of(rows.differences(line), "signed", len(rows.seeds)))
        lines.append(Row(*line, rows.count_text(line), len(used), note, tuple(cells)))
    if wanted.paired:
        columns = (*columns, _paired_column(baseline))
    return Table(labels.tables[key], ", ".join(map(str, rows.seeds)), columns, tuple(lines))


def _best(rows: Rows[Line], column: Column, wanted: Wanted) -> frozenset[Line]:
    marked = not wanted.by_group and winnable(column.key)
    return rows.best(column.key) if marked else frozenset()


def _paired_column(baseline: str | None) -> Column:
    name = baseline or "-"
    return Column("paired", PAIRED_LABEL.format(name), PAIRED_ABOUT.format(name), "signed", False)


def _rows(runs: list[Run], labels: Labels, wanted: Wanted, baseline: str | None) -> Rows[Line]:
    """Values by line and seed; lines in the order of the labels."""
    rank = {text: i for i, text in enumerate(labels.order)}
    lines: dict[Line, dict[int, Values]] = {}
    for run in sorted(runs, key=lambda run: rank[labels.row(run)]):
        assert run.seed_number is not None
        for group, values in _lines_of(run, wanted):
            lines.setdefault((labels.row(run), group), {})[run.seed_number] = values
    return Rows(lines, None if baseline is None else (baseline, ""))


def _lines_of(run: Run, wanted: Wanted) -> Iterator[tuple[str, Values]]:
    if not wanted.by_group:
        yield "", run.values
        return
    for line in run.groups:
        name = f"{line.attribute}: {line.group}"
        yield name, dict(zip(GROUP_METRICS, line.values, strict=True))


def _filled(columns: Iterable[Column], lines: Iterable[Mapping[int, Values]]) -> tuple[Column, ...]:
    every = [values for seeds in lines for values in seeds.values()]
    return tuple(c for c in columns if any(v.get(c.key) is not None for v in every))


def cell_of(values: Sequence[float | None], form: Form, expected: int, best: bool = False) -> Cell:
    """Mean ± standard deviation, with the mean to sort by."""
    known = [value for value in values if value is not None]
    mean = mean_and_sd(known)[0] if known else None
    return Cell(spread_of(values, form, expected), mean, best)
