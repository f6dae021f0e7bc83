"""How figures look: one colour for a method everywhere, marks and dashes for its variants."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import matplotlib.style

from cfq_bench.seeds import derive_seed

_RC = {
    # The first comes with matplotlib, hence the same layout everywhere; a browser may lack it.
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 10.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 10.0,
    "legend.fontsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#57606a",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e7eb",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched, copied
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a dollar in the name of a group is a dollar
}

# Okabe and Ito's and Tol's colour-blind-safe colours, without those too light for a white page.
_COLOURS = {
    "fp32": "#000000",
    "ft32": "#6e7781",
    "ptq": "#999933",
    "mixed_ptq": "#b8860b",
    "cf_ptq": "#44aa99",
    "lsq": "#0072b2",
    "pact": "#56b4e9",
    "mixed_hawq": "#e69f00",
    "mixed_haq": "#aa7700",
    "kd_qat": "#cc79a7",
    "kd_quant": "#aa4499",
    "prune_quant": "#332288",
    "cfq": "#d55e00",
    "cfq_distilled": "#882255",
    "cfq_group": "#117733",
    "cfq_prune": "#009e73",
    "cfq_student": "#cc6677",
}
_SPARE = ("#332288", "#44aa99", "#117733", "#999933", "#aa4499", "#cc6677")
_MARKERS = {
    "fp32": "P",
    "ft32": "X",
    "ptq": "p",
    "mixed_ptq": "<",
    "cf_ptq": ">",
    "lsq": "o",
    "pact": "s",
    "mixed_hawq": "^",
    "mixed_haq": "H",
    "kd_qat": "D",
    "cfq": "v",
    "cfq_distilled": "*",
}
_SPARE_MARKERS = ("h", "8", "d", "1", "+")
Dash = Literal["-", "--", ":", "-."]
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++")
CATEGORY_MARKERS = ("o", "s", "^", "D", "v", "P")
"""Where a mark tells categories apart instead of methods."""
NEUTRAL = "#57606a"


@dataclass(frozen=True)
class Look:
    """How one row of a table is drawn.

    Attributes:
        colour: its method's.
        marker: its method's; variants of a method differ in it,
        dash: and in this, of a line,
        hatch: and in this, of a bar.
    """

    colour: str
    marker: str
    dash: Dash
    hatch: str


def looks(methods: Mapping[str, str]) -> dict[str, Look]:
    """A look for every row of one figure.

    Args:
        methods: the method by the row's label, in the order of the table. A user's own method has
            a colour that depends on its name alone.

    >>> found = looks({"CFQ (K=1)": "cfq", "CFQ (K=3)": "cfq"})
    >>> found["CFQ (K=1)"].colour == found["CFQ (K=3)"].colour
    True
    >>> [look.dash for look in found.values()]
    ['-', '--']
    """
    seen: Counter[str] = Counter()
    taken = {_MARKERS.get(method) for method in methods.values()}
    free = iter([m for m in (*_MARKERS.values(), *_SPARE_MARKERS) if m not in taken])
    out = {}
    for label, method in methods.items():
        n = seen[method]
        seen[method] += 1
        colour = _COLOURS.get(method, _SPARE[derive_seed(0, method) % len(_SPARE)])
        own = _SPARE_MARKERS[derive_seed(1, method) % len(_SPARE_MARKERS)]
        marker = _MARKERS.get(method, own) if n == 0 else next(free, own)
        out[label] = Look(colour, marker, DASHES[n % len(DASHES)], HATCHES[n % len(HATCHES)])
    return out


@contextmanager
def styled() -> Iterator[None]:
    """Draw by this module alone: no user's matplotlibrc changes a figure."""
    with matplotlib.style.context(_RC, after_reset=True):
        yield
