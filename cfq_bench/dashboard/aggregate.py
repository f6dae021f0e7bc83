"""Means and spreads over seeds, as the page shows them.

`assets/aggregate.js` does the same in the browser when a filter changes; a test holds both against
each other. Sums are therefore taken in order, without compensation, as JavaScript takes them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cfq_bench.dashboard.labels import Labels
from cfq_bench.dashboard.summary import GROUP_METRICS, Run
from cfq_bench.dashboard.views import BASELINE, PAIRED, Column, Form, View

Values = Mapping[str, float | None]
MISSING = "-"


@dataclass(frozen=True)
class Cell:
    """A number as text, and as what the column is sorted by (None where undefined)."""

    text: str
    value: float | None


@dataclass(frozen=True)
class Row:
    """One method, or one group of one.

    Attributes:
        label: the method, with its own settings.
        group: the protected group, ``sex: Female``; empty in other tables.
        seeds: over how many seeds.
        note: the seeds, where they are not those of the table.
        cells: in the order of the columns.
    """

    label: str
    group: str
    seeds: int
    note: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """One setting.

    Attributes:
        title: the setting in words.
        seeds: the common seeds, as text.
        columns: what the cells are.
        rows: in the order of the methods.
    """

    title: str
    seeds: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def tables(runs: Sequence[Run], labels: Labels, view: View) -> list[Table]:
    """Every table of a view; settings without a number to show have none."""
    finished = [run for run in runs if run.status == "ok"]
    by_table: dict[str, list[Run]] = {key: [] for key in labels.tables}
    for run in finished:
        by_table[run.table].append(run)
    made = (_table(labels.tables[key], group, labels, view) for key, group in by_table.items())
    return [table for table in made if table.rows and table.columns]


def _table(title: str, runs: list[Run], labels: Labels, view: View) -> Table:
    lines = _by_line(runs, labels, view)
    common = common_seeds([list(seeds) for seeds in lines.values()])
    columns = view.columns if view.whole else _filled(view.columns, lines.values())
    baseline = lines.get((BASELINE, ""), {})
    rows = []
    for (row, group), seeds in lines.items():
        used = [seed for seed in common if seed in seeds]
        note = ""
        if len(used) < len(common):
            used = sorted(seeds, key=seed_order)
            note = f"own seeds: {', '.join(used)}"
        cells = [spread([seeds[seed].get(c.key) for seed in used], c.form) for c in columns]
        if view.paired:
            cells.append(_paired(seeds, baseline, used))
        rows.append(Row(row, group, len(used), note, tuple(cells)))
    if view.paired:
        about = f"boundary error less that of {BASELINE}, at the same seeds"
        columns = (*columns, Column("paired", f"paired vs {BASELINE}", about, "signed", False))
    return Table(title, ", ".join(common), columns, tuple(rows))


def _by_line(
    runs: list[Run], labels: Labels, view: View
) -> dict[tuple[str, str], dict[str, Values]]:
    """Values by (row's label, group) and seed; rows in the order of the labels."""
    lines: dict[tuple[str, str], dict[str, Values]] = {}
    rank = {row: i for i, row in enumerate(labels.order())}
    for run in sorted(runs, key=lambda run: rank[labels.row(run)]):
        for group, values in _lines_of(run, view):
            lines.setdefault((labels.row(run), group), {})[run.seed] = values
    return lines


def _lines_of(run: Run, view: View) -> Iterator[tuple[str, Values]]:
    if not view.by_group:
        yield "", run.values
        return
    for line in run.groups:
        name = f"{line.attribute}: {line.group}"
        yield name, dict(zip(GROUP_METRICS, line.values, strict=True))


def _filled(columns: Iterable[Column], lines: Iterable[Mapping[str, Values]]) -> tuple[Column, ...]:
    every = [values for seeds in lines for values in seeds.values()]
    return tuple(c for c in columns if any(v.get(c.key) is not None for v in every))


def seed_order(seed: str) -> tuple[float, str]:
    """Seeds are numbers written as text: 2 comes before 10."""
    return (float(seed) if seed.isdigit() else math.inf, seed)


def common_seeds(rows: Sequence[Sequence[str]]) -> list[str]:
    """The seeds that means are taken over, so that rows can be compared.

    Of the rows' own sets of seeds, the one with most (rows that have all of it) x (seeds), so that
    a row that is not finished costs the others no seeds. Rows without them are marked.

    >>> common_seeds([["0", "1", "2"], ["0", "1", "2", "3"], ["0"]])
    ['0', '1', '2']
    """
    best: list[str] = []
    most = (0, 0)
    for candidate in rows:
        having = sum(all(seed in row for seed in candidate) for row in rows)
        score = (having * len(candidate), len(candidate))
        if score > most:
            most, best = score, sorted(candidate, key=seed_order)
    return best


def _paired(seeds: Mapping[str, Values], baseline: Mapping[str, Values], used: list[str]) -> Cell:
    """Differences of the boundary error to the baseline at the seeds that both have."""
    if seeds is baseline:
        return Cell(MISSING, None)
    differences = []
    for seed in used:
        ours, theirs = seeds[seed].get(PAIRED), baseline.get(seed, {}).get(PAIRED)
        if ours is not None and theirs is not None:
            differences.append(ours - theirs)
    return spread(differences, "signed")


def spread(values: Sequence[float | None], form: Form) -> Cell:
    """Mean ± standard deviation, and how many values where some are undefined.

    >>> spread([0.1, 0.3, None], "rate").text
    '0.200 ± 0.141 (2)'
    """
    known = [value for value in values if value is not None]
    if not known:
        return Cell(MISSING, None)
    mean, sd = mean_and_sd(known)
    text = written(mean, form)
    if sd is not None:
        text += f" ± {written(sd, 'bits' if form == 'bits' else 'rate')}"
    return Cell(text + (f" ({len(known)})" if len(known) < len(values) else ""), mean)


def mean_and_sd(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean, and standard deviation (n - 1) where there are two values or more."""
    total = 0.0
    for value in values:
        total += value
    mean = total / len(values)
    if len(values) == 1:
        return mean, None
    squares = 0.0
    for value in values:
        squares += (value - mean) * (value - mean)
    return mean, math.sqrt(squares / (len(values) - 1))


def written(value: float, form: Form) -> str:
    """A number as people read it: three decimals, two for bits, a sign where the sign matters.

    >>> written(0.0625, "rate"), written(-0.0001, "signed"), written(3.375, "bits")
    ('0.062', '-0.000', '3.38')
    """
    return {"rate": f"{value:.3f}", "signed": f"{value:+.3f}", "bits": f"{value:.2f}"}[form]
