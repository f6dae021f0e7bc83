"""Figures as files whose bytes depend on the figure alone: no dates, no random names."""

import re
from html import escape
from io import BytesIO

import matplotlib
from matplotlib.figure import Figure

from cfq_bench.text import visible


def to_svg(figure: Figure, name: str, title: str, description: str) -> bytes:
    """SVG with a title and a description; several may stand in one page.

    Args:
        figure: drawn under `cfq_bench.figures.style.styled`.
        name: goes before every id, so that those of two figures in one page differ.
        title: a line.
        description: what a screen reader says beyond it.
    """
    file, prefix = BytesIO(), re.sub(r"[^\w-]", "-", name)
    with matplotlib.rc_context({"svg.hashsalt": prefix}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = visible(file.getvalue().decode(), keep="\n\t")  # XML has no control characters
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", _numbered(text))
    ids = f'role="img" aria-labelledby="{prefix}-title {prefix}-caption"'
    words = (
        f'<title id="{prefix}-title">{escape(visible(title))}</title>\n'
        f'<desc id="{prefix}-caption">{escape(visible(description))}</desc>\n'
    )
    before, head, rest = re.split(r"<svg ([^>]*)>\n?", text, maxsplit=1)
    return f"{before}<svg {ids} {head}>\n{words}{rest}".encode()


def _numbered(svg: str) -> str:
    """Ids that matplotlib takes from hashes, numbered as they appear.

    It hashes coordinates before they are rounded, and the last bit of a layout is not always the
    same.
    """
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        before, name, hashed = found.groups()
        return f"{before}{name}-{numbers.setdefault(name + hashed, len(numbers) + 1)}"

    return re.sub(r'(\bid="|href="#|url\(#)([\w.]*?)([0-9a-f]{10})(?=["\)])', number, svg)


def to_pdf(figure: Figure) -> bytes:
    """PDF with its fonts embedded."""
    file = BytesIO()
    nothing = dict.fromkeys(("Creator", "Producer", "CreationDate"))
    figure.savefig(file, format="pdf", metadata=nothing)
    return file.getvalue()
