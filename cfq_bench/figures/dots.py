"""Dots with intervals, a line of the page for each row of a table."""

from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from cfq_bench.figures.page import (
    Rows,
    categories_on_y,
    category_handle,
    label_values,
    legend,
    looks_of,
    page,
    reach,
    show_zero,
    values_seen,
)
from cfq_bench.figures.style import CATEGORY_MARKERS

_LINE = 0.225  # inches of one row of the table
_COLUMN = 1.85  # inches of one panel beside others
_ROOM = 0.76  # of a line of the page, for the marks of its categories
_TICKS = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)


def dots(rows: Rows, *, square_root: bool = False) -> Figure:
    """One line of the page for each row of the table, one mark on it for each category.

    Args:
        rows: panels that have the same rows of the table and the same categories.
        square_root: the x axis shows the square root of values, which are not negative: small
            ones, which matter most, are told apart, and zero is still there.
    """
    series_of_one = rows[0][0].series
    longest = max(len(series.label) for series in series_of_one)
    figure, axes = page(
        rows,
        [0.7 + _LINE * len(series_of_one)] * len(rows),
        share_y=True,
        width=0.6 + 0.07 * longest + _COLUMN * len(rows[0]),
    )
    known, categories = looks_of(rows), [str(x) for x in series_of_one[0].x]
    step = _ROOM / len(categories)
    for panel, ax in axes:
        for i, series in enumerate(panel.series):
            colour = known[series.label].colour
            for k, y in enumerate(series.y):
                if y is None:
                    continue
                ax.errorbar(
                    y.mean,
                    i + (k - (len(categories) - 1) / 2) * step,
                    xerr=reach(y),
                    color=colour,
                    marker=CATEGORY_MARKERS[k % len(CATEGORY_MARKERS)],
                    markerfacecolor="white" if k % 2 else colour,
                    markersize=4.5,
                    linestyle="none",
                    elinewidth=1.1,
                    label=", ".join(filter(None, (series.label, categories[k]))),
                )
        for boundary in range(1, len(panel.series)):
            ax.axhline(boundary - 0.5, color="#e4e7eb", linewidth=0.6, zorder=0.5)
        categories_on_y(ax, [series.label for series in panel.series])
        show_zero(ax, panel, across=True)
        if square_root:
            _take_square_root(ax, max(values_seen(panel), default=1.0))
    label_values(figure, axes, across=True)
    if len(categories) > 1:
        marked = zip(categories, cycle(CATEGORY_MARKERS))
        legend(figure, [category_handle(k, *pair) for k, pair in enumerate(marked)])
    return figure


def _take_square_root(ax: Axes, greatest: float) -> None:
    """Draw the x axis in square roots, with few round ticks.

    Args:
        ax: where.
        greatest: value that is shown.
    """
    high = max(1.08 * greatest, 1e-3)
    ticks = [0.0]
    for tick in _TICKS[1:]:
        if tick <= high and np.sqrt(tick) - np.sqrt(ticks[-1]) > 0.14 * np.sqrt(high):
            ticks.append(tick)
    ax.set_xscale("function", functions=(_signed_root, _signed_square))
    ax.set_xlim(-0.001 * high, high)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])


def _signed_root(values: ArrayLike) -> NDArray[np.float64]:
    return np.sign(values) * np.sqrt(np.abs(values))


def _signed_square(values: ArrayLike) -> NDArray[np.float64]:
    return np.sign(values) * np.square(values)
