"""A report as Markdown."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cfq_bench.report.layout import Cell, Table
from cfq_bench.text import visible

if TYPE_CHECKING:
    from cfq_bench.report.build import Report


def markdown(report: "Report") -> str:
    """The whole report; figures are beside it in ``figures``."""
    parts = [f"# {plain(f'{report.title}: {report.about}')}", _bullets(report.state)]
    parts += ["## In short", _line_start(report.summary)]
    for one in report.answers:
        parts += [f"### {plain(one.title)}"] if one.title else []
        for finding in one.findings:
            parts += [f"**{plain(finding.title)}**", _bullets(finding.sentences)]
    parts.append(f"*{report.how}*")
    if report.overviews:
        parts += ["## Over data sets", *map(markdown_table, report.overviews)]
    if report.drawings:
        parts.append("## Figures")
    for drawing in report.drawings:
        parts.append(f"![{plain(drawing.title)}](figures/{drawing.name}.svg)")
        parts.append(f"*{plain(drawing.caption)}*")
    parts += ["## Tables", *map(markdown_table, report.cells)]
    if report.paper:
        parts += ["## The paper's tables", *map(markdown_table, report.paper)]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """A table with its caption and its notes; best values are bold."""
    align = ["---", *["---:"] * (len(table.head) - 1)]
    lines = [_line(map(plain, table.head)), _line(align)]
    lines += [_line(map(_cell, row)) for row in table.rows]
    parts = [f"**{plain(table.caption)}**", "\n".join(lines)]
    if table.notes:
        parts.append(_bullets(table.notes))
    return "\n\n".join(parts)


def _line(texts: "Sequence[str] | map[str]") -> str:
    return f"| {' | '.join(texts)} |"


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {_line_start(text)}" for text in texts)


def _cell(cell: Cell) -> str:
    text = plain(cell.text)
    return f"**{text}**" if cell.best else text


def plain(text: str) -> str:
    r"""Text that Markdown shows as it is: no tag, link, emphasis, code, formula or end of a cell.

    >>> plain("<b> a_b | [x](y) & $1$")
    '&lt;b&gt; a\\_b \\| [x\\](y) &amp; \\$1\\$'
    """
    return re.sub(r"\](?=[(\[:])", r"\]", visible(text).translate(_MARKS))


_MARKS = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "\\|*_`~$"},
        "<": "&lt;",
        ">": "&gt;",
        "&": "&amp;",
    }
)


def _line_start(text: str) -> str:
    """As `plain`, where a line begins: there a hash or a dash makes a heading, a list or a rule."""
    return re.sub(r"^([-+#=]+|\d+[.)])(?=\s|$)", _guarded, plain(text).lstrip())


def _guarded(found: re.Match[str]) -> str:
    return f"{found[0][:-1]}\\{found[0][-1]}"
