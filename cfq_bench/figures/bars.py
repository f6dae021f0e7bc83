"""Horizontal bars: names of groups and layers are read without turning one's head."""

from matplotlib.figure import Figure

from cfq_bench.figures.page import (
    Rows,
    bar_handle,
    categories_on_y,
    ends,
    label_values,
    legend,
    looks_of,
    means,
    page,
    show_zero,
)
from cfq_bench.figures.style import NEUTRAL

_ROOM = 0.8  # between two categories, for their bars
_BAR = 0.2  # inches of one bar


def grouped_bars(rows: Rows) -> Figure:
    """Categories on the y axis, one bar for each row of the table, a line for the interval.

    Args:
        rows: panels; those that stand side by side have the same categories.
    """
    heights = [0.75 + len(row[0].series) * _BAR * len(row[0].series[0].x) / _ROOM for row in rows]
    figure, axes = page(rows, heights, share_y=True)
    known = looks_of(rows)
    for panel, ax in axes:
        thickness = _ROOM / len(panel.series)
        for i, series in enumerate(panel.series):
            look = known[series.label]
            places = [k + (i + 0.5) * thickness - _ROOM / 2 for k in range(len(series.x))]
            ax.barh(
                places,
                means(series),
                thickness * 0.92,
                color=look.colour,
                hatch=look.hatch,
                edgecolor="white",
                linewidth=0.4,
                label=series.label,
            )
            ax.hlines(places, *ends(series), color=NEUTRAL, linewidth=1.2)
        categories_on_y(ax, [str(name) for name in panel.series[0].x])
        show_zero(ax, panel, across=True)
    label_values(figure, axes, across=True)
    if len(known) > 1:
        legend(figure, [bar_handle(label, look) for label, look in known.items()])
    return figure
