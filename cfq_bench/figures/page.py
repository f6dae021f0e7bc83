"""What all plots share: axes on a page, looks of rows, intervals, legends."""

from collections.abc import Iterator, Sequence
from math import inf, nan

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from cfq_bench.figures.series import Panel, Series
from cfq_bench.figures.style import NEUTRAL, Look, looks
from cfq_bench.statistics.summary import Summary

WIDTH = 6.4
"""Inches; with 10 points of type, a telephone's screen still shows it."""

Rows = Sequence[Sequence[Panel]]
"""Panels as they stand on the page."""


def page(
    rows: Rows, heights: Sequence[float], *, share_y: bool = False, width: float = WIDTH
) -> tuple[Figure, list[tuple[Panel, Axes]]]:
    """A figure with axes for every panel.

    Args:
        rows: the panels.
        heights: inches of each row of the page.
        share_y: the panels of one row have the same categories on the y axis.
        width: inches.
    """
    figure = Figure(figsize=(width, sum(heights) + 0.5), layout="constrained")
    spec = figure.add_gridspec(len(rows), max(map(len, rows)), height_ratios=list(heights))
    axes = []
    for r, row in enumerate(rows):
        first: Axes | None = None
        for c, panel in enumerate(row):
            ax = figure.add_subplot(spec[r, c], sharey=first if share_y else None)
            if share_y and first is not None:
                ax.tick_params(labelleft=False)
            first = first or ax
            ax.set_title(panel.title, loc="left")
            axes.append((panel, ax))
    return figure, axes


def looks_of(rows: Rows) -> dict[str, Look]:
    """The look of every row of the table that the panels show."""
    every = (series for row in rows for panel in row for series in panel.series)
    return looks({series.label: series.method for series in every})


def means(series: Series) -> list[float]:
    """Values to plot; NaN, which is not drawn, where undefined."""
    return [nan if y is None else y.mean for y in series.y]


def ends(series: Series) -> tuple[list[float], list[float]]:
    """Lower and upper ends of the intervals; NaN where there is none, as with one seed."""
    found = [None if y is None else y.interval for y in series.y]
    return [nan if i is None else i.low for i in found], [
        nan if i is None else i.high for i in found
    ]


def reach(value: Summary) -> list[list[float]] | None:
    """What `errorbar` wants: distances to the ends, (2, 1); None where there is no interval."""
    if value.interval is None:
        return None
    return [[value.mean - value.interval.low], [value.interval.high - value.mean]]


def values_seen(panel: Panel) -> Iterator[float]:
    """Means and ends of a panel, those of shares from 0 to 1."""
    low, high = (0.0, 1.0) if panel.shares else (-inf, inf)
    for series in panel.series:
        for y in series.y:
            if y is not None:
                yield y.mean
                if y.interval is not None:
                    yield from (max(y.interval.low, low), min(y.interval.high, high))


def categories_on_y(ax: Axes, names: Sequence[str]) -> None:
    """Name the y axis's places 0, 1, ..., the first at the top."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(False, axis="y")
    ax.tick_params(axis="y", length=0)


def show_zero(ax: Axes, panel: Panel, *, across: bool) -> None:
    """A line at 0, where the axis begins unless there are values below; shares end at 1.

    Args:
        ax: where.
        panel: what it shows.
        across: whether values run along the x axis.
    """
    (ax.axvline if across else ax.axhline)(0.0, color=NEUTRAL, linewidth=0.9, zorder=1.5)
    values = list(values_seen(panel))
    if min(values, default=0.0) >= 0.0:
        low = -0.025 * max(values, default=1.0)  # so that marks at 0 are whole
        (ax.set_xlim if across else ax.set_ylim)(low)
    if panel.shares:
        get, put = (ax.get_xlim, ax.set_xlim) if across else (ax.get_ylim, ax.set_ylim)
        put(get()[0], min(get()[1], 1.025))


def label_values(figure: Figure, axes: Sequence[tuple[Panel, Axes]], *, across: bool) -> None:
    """Label the values' axes: once for the page where all panels show the same.

    Args:
        figure: of the panels.
        axes: from `page`.
        across: whether values run along the x axis.
    """
    if len(axes) > 1 and len({panel.value for panel, _ in axes}) == 1:
        (figure.supxlabel if across else figure.supylabel)(axes[0][0].value, fontsize="medium")
        return
    for panel, ax in axes:
        (ax.set_xlabel if across else ax.set_ylabel)(panel.value)


def legend(figure: Figure, handles: Sequence[Artist], *, columns: int = 3) -> None:
    """One legend for all panels, above them: it hides no data."""
    if handles:
        figure.legend(
            handles=list(handles), loc="outside upper center", ncols=min(columns, len(handles))
        )


def line_handle(label: str, look: Look) -> Line2D:
    """A legend's line."""
    return Line2D([], [], color=look.colour, linestyle=look.dash, marker=look.marker, label=label)


def bar_handle(label: str, look: Look) -> Patch:
    """A legend's bar."""
    return Patch(facecolor=look.colour, hatch=look.hatch, edgecolor="white", label=label)


def category_handle(k: int, name: str, marker: str) -> Line2D:
    """A legend's mark of the k-th category: every second one is open."""
    return Line2D(
        [],
        [],
        color=NEUTRAL,
        marker=marker,
        markerfacecolor="white" if k % 2 else NEUTRAL,
        linestyle="none",
        label=name,
    )
