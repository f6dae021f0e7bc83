"""Lines over numbers, and quantiles of distributions.

An undefined value is a gap: no mark and a break in the line. Artists carry their row's label, by
which tests and users find them.
"""

from collections.abc import Sequence
from functools import partial
from math import isnan

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cfq_bench.figures.page import (
    Rows,
    categories_on_y,
    ends,
    label_values,
    legend,
    line_handle,
    looks_of,
    means,
    page,
    show_zero,
)


def curves(
    rows: Rows,
    x_label: str,
    *,
    ticks: Sequence[float] = (),
    share: tuple[float, str] | None = None,
) -> Figure:
    """Lines over numbers, with a band for the interval.

    Args:
        rows: the panels.
        x_label: with its unit.
        ticks: where x has few values, these alone are marked.
        share: a second axis above the first row of panels: x over this number, and its label.
    """
    figure, axes = page(rows, [2.3] * len(rows))
    known = looks_of(rows)
    every_x = [float(x) for panel, _ in axes for series in panel.series for x in series.x]
    low_x, high_x = min(every_x), max(every_x)
    margin = 0.05 * (high_x - low_x) or 0.5
    for panel, ax in axes:
        for series in panel.series:
            look, (low, high) = known[series.label], ends(series)
            ax.fill_between(series.x, low, high, color=look.colour, alpha=0.13, linewidth=0.0)
            ax.plot(
                series.x,
                means(series),
                color=look.colour,
                linestyle=look.dash,
                marker=look.marker,
                label=series.label,
            )
        show_zero(ax, panel, across=False)
        ax.set_xlim(low_x - margin, high_x + margin)
        if ticks:
            ax.set_xticks(ticks)
        if share is not None and panel in rows[0]:
            _axis_above(ax, *share)
    label_values(figure, axes, across=False)
    figure.supxlabel(x_label, fontsize="medium")
    if len(known) > 1:
        legend(figure, [line_handle(label, look) for label, look in known.items()])
    return figure


def _axis_above(ax: Axes, whole: float, label: str) -> None:
    scales = (partial(np.multiply, 1.0 / whole), partial(np.multiply, whole))
    ax.secondary_xaxis("top", functions=scales).set_xlabel(label)


def ranges(rows: Rows) -> Figure:
    """Quantiles of a distribution: a thin line 5-95 %, a thick one 25-75 %, a mark for the median.

    Args:
        rows: panels that have the same rows of the table; a series has five quantiles.
    """
    lines = len(rows[0][0].series)
    figure, axes = page(rows, [0.75 + 0.3 * lines] * len(rows), share_y=True)
    known = looks_of(rows)
    for panel, ax in axes:
        for i, series in enumerate(panel.series):
            look, values = known[series.label], means(series)
            if any(map(isnan, values)):
                continue
            ax.hlines(i, values[0], values[4], color=look.colour, linewidth=1.4)
            ax.hlines(i, values[1], values[3], color=look.colour, linewidth=6.0, alpha=0.55)
            ax.plot(values[2], i, color=look.colour, marker=look.marker, label=series.label)
        categories_on_y(ax, [series.label for series in panel.series])
        show_zero(ax, panel, across=True)
    label_values(figure, axes, across=True)
    return figure
