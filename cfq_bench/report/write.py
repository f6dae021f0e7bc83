"""A report's files: Markdown, HTML, LaTeX, CSV, figures. The same records give the same bytes."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from cfq_bench.files import ensure_writable, write_atomic
from cfq_bench.report.build import Report
from cfq_bench.report.html import html
from cfq_bench.report.latex import latex_table
from cfq_bench.report.layout import Number, Table
from cfq_bench.report.markdown import markdown
from cfq_bench.text import visible

PARTS = ("tables", "figures")
"""Folders of a report; what an earlier one left in them is removed."""
_FORMULA = tuple("=+-@＝＋－＠")
"""What begins a formula in a spreadsheet, in East Asian width too."""


def texts_of(report: Report) -> dict[str, bytes]:
    """The files that hold no figure, by their path in the report's folder."""
    files = {"report.md": markdown(report).encode()}
    for table in report.tables:
        files[f"tables/{table.name}.tex"] = latex_table(table).encode()
        files[f"tables/{table.name}.csv"] = _csv(table)
    return files


def files_of(report: Report) -> Mapping[str, bytes]:
    """Every file of a report by its path in the report's folder."""
    files = {**texts_of(report), "report.html": html(report).encode()}
    for drawing in report.drawings:
        files[f"figures/{drawing.name}.svg"] = drawing.svg
        files[f"figures/{drawing.name}.pdf"] = drawing.pdf
    return files


def write_report(report: Report, folder: Path) -> int:
    """Write all files, and remove those that an earlier report has left.

    Returns:
        How many files there are.

    Raises:
        UserError: the folder cannot be written.
    """
    files = files_of(report)
    for part in (".", *PARTS):
        ensure_writable(folder / part, "a report")
    for name, content in files.items():
        write_atomic(folder / name, content)
    for part in PARTS:
        for path in (folder / part).iterdir():
            if f"{part}/{path.name}" not in files and path.is_file():
                path.unlink()
    return len(files)


def _csv(table: Table) -> bytes:
    """Unrounded numbers; an undefined one is empty."""
    head = list(dict.fromkeys(key for line in table.numbers for key in line))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_csv_cell, head))
    writer.writerows([_csv_cell(line.get(key)) for key in head] for line in table.numbers)
    return text.getvalue().encode()


def _csv_cell(value: Number) -> str | int | float:
    """A number as it is; a text that a spreadsheet would compute has an apostrophe before it."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = visible(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
