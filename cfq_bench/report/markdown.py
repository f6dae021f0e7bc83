"""A report as Markdown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cfq_bench.report.layout import Cell, Table

if TYPE_CHECKING:
    from cfq_bench.report.build import Report


def markdown(report: "Report") -> str:
    """The whole report; figures are beside it in ``figures``."""
    parts = [f"# {report.title}: {report.about}", _bullets(report.state), "## In short"]
    parts.append(report.summary)
    for one in report.answers:
        parts += [f"### {one.title}"] if one.title else []
        for finding in one.findings:
            parts += [f"**{finding.title}**", _bullets(finding.sentences)]
    parts.append(f"*{report.how}*")
    if report.overviews:
        parts += ["## Over data sets", *map(markdown_table, report.overviews)]
    if report.drawings:
        parts.append("## Figures")
    for drawing in report.drawings:
        parts += [f"![{drawing.title}](figures/{drawing.name}.svg)", f"*{drawing.caption}*"]
    parts += ["## Tables", *map(markdown_table, report.cells)]
    if report.paper:
        parts += ["## The paper's tables", *map(markdown_table, report.paper)]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """A table with its caption and its notes; best values are bold."""
    align = ["---", *["---:"] * (len(table.head) - 1)]
    lines = [_line(map(_plain, table.head)), _line(align)]
    lines += [_line(map(_cell, row)) for row in table.rows]
    parts = [f"**{_plain(table.caption)}**", "\n".join(lines)]
    if table.notes:
        parts.append(_bullets(table.notes))
    return "\n\n".join(parts)


def _line(texts: "Sequence[str] | map[str]") -> str:
    return f"| {' | '.join(texts)} |"


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {_plain(text)}" for text in texts)


def _cell(cell: Cell) -> str:
    text = _plain(cell.text)
    return f"**{text}**" if cell.best else text


def _plain(text: str) -> str:
    """A bar would end the cell, a star or an underscore begin emphasis."""
    for mark in ("\\", "|", "*", "_"):
        text = text.replace(mark, f"\\{mark}")
    return text
