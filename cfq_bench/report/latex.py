"""A report's tables as LaTeX, with the rules of the package booktabs."""

from cfq_bench.report.layout import Cell, Table
from cfq_bench.text import visible

_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "−": "$-$",
    "“": "``",
    "”": "''",
}


def latex_table(table: Table) -> str:
    """One floating table; needs ``booktabs``, and ``graphicx`` to fit the width."""
    columns = "l" + "r" * (len(table.head) - 1)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _line(map(escaped, table.head)),
        r"\midrule",
        *(_line(map(_cell, row)) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}}",
        *(rf"\par\footnotesize {escaped(note)}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Text without LaTeX's special characters.

    >>> escaped("50 % of a_b & c")
    '50 \\% of a\\_b \\& c'
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in visible(text))


def _line(texts: "map[str]") -> str:
    line = " & ".join(texts)
    # Behind the end of the line above, a bracket or a star would be an option of that end.
    return ("{}" if line.lstrip().startswith(("[", "*")) else "") + line + r" \\"


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    return rf"\textbf{{{text}}}" if cell.best else text
