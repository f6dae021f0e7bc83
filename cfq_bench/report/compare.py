"""Tables that compare methods: mean and spread over seeds, paired differences to a baseline.

The last column pairs each row's boundary error with the baseline's at the same seeds.
"""

from collections.abc import Iterable, Mapping, Sequence

from cfq_bench.aggregate.columns import COMPARED, metric_column
from cfq_bench.aggregate.labels import label
from cfq_bench.aggregate.runs import Run, read_run
from cfq_bench.aggregate.tables import Cell, Row, Table, Wanted, tables
from cfq_bench.errors import UserError
from cfq_bench.record.identity import stale_words
from cfq_bench.record.record import Record
from cfq_bench.report.markdown import plain

COMPARISON = Wanted(tuple(map(metric_column, COMPARED)), whole=True, paired=True)
"""What the tables of methods show, here and in the dashboard."""
BEST = "*"
"""After the best values of a column, in plain text."""


def comparison(
    records: Iterable[Record],
    *,
    data: Sequence[str] = (),
    method: Sequence[str] = (),
    markdown: bool = False,
    stale: Mapping[str, str] | None = None,
) -> str:
    """One table for every data set and shared setting, one row per method.

    Rows of a table share everything but the method and the seed, so that they are comparable;
    methods that differ in their own settings are rows of their own. A line below says how many
    are stale.

    Raises:
        UserError: no record fits.
    """
    runs = [read_run(record.model_dump(mode="json"), record.run_id) for record in records]
    chosen = [run for run in runs if _fits(run, data, method)]
    made = tables(chosen, label(runs), COMPARISON)
    if not made:
        raise UserError("no finished records fit: run some first, or choose another --results-dir")
    render = _markdown if markdown else _plain
    old = {run.run_id: why for run in chosen if (why := (stale or {}).get(run.run_id))}
    words = stale_words(old, len(chosen))
    return "\n".join([*map(render, made), *([f"{words}\n"] if words else [])])


def _fits(run: Run, data: Sequence[str], method: Sequence[str]) -> bool:
    return (not data or run.data in data) and (not method or run.method in method)


def _title(table: Table) -> str:
    return f"{table.title}, {'seeds' if ',' in table.seeds else 'seed'} {table.seeds}"


def _head(table: Table) -> list[str]:
    return ["method", "seeds", *(column.label for column in table.columns)]


def _name(row: Row) -> str:
    return f"{row.label} [{row.note}]" if row.note else row.label


def _plain(table: Table) -> str:
    lines = [_head(table)]
    for row in table.rows:
        lines.append([_name(row), row.seeds, *(_marked(cell) for cell in row.cells)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    texts = [_title(table)]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        texts.append("  ".join(cells).rstrip())
    if any(cell.best for row in table.rows for cell in row.cells):
        texts.append(f"{BEST} best of the rows at these seeds and bits")
    return "\n".join(texts) + "\n"


def _marked(cell: Cell) -> str:
    return cell.text + (BEST if cell.best else "")


def _markdown(table: Table) -> str:
    head = [plain(label) for label in _head(table)]
    lines = [f"**{plain(_title(table))}**", "", "| " + " | ".join(head) + " |"]
    lines.append("| --- |" + " ---: |" * (len(head) - 1))
    for row in table.rows:
        cells = [f"**{cell.text}**" if cell.best else cell.text for cell in row.cells]
        lines.append("| " + " | ".join([plain(_name(row)), row.seeds, *cells]) + " |")
    return "\n".join(lines) + "\n"
