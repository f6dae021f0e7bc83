"""Kinds of plots over numbers and over the rows of a table, without pyplot and its state.

An undefined value is a gap: no mark and a break in the line. Artists carry their row's label, by
which tests and users find them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from math import ceil, isnan

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from cfq_bench.figures.page import (
    WIDTH,
    Rows,
    categories_on_y,
    ends,
    label_values,
    legend,
    line_handle,
    looks_of,
    means,
    page,
    reach,
    show_zero,
)
from cfq_bench.figures.style import CATEGORY_MARKERS, NEUTRAL, looks
from cfq_bench.statistics.summary import Summary

_LINE = 0.225  # inches of one row of the table
_COLUMN = 1.85  # inches of one panel beside others
_ROOM = 0.76  # of a line of the page, for the marks of its categories


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


def dots(rows: Rows) -> Figure:
    """One line of the page for each row of the table, one mark on it for each category.

    Args:
        rows: panels that have the same rows of the table and the same categories.
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
    label_values(figure, axes, across=True)
    if len(categories) > 1:
        marked = zip(categories, cycle(CATEGORY_MARKERS))
        legend(figure, [_category_handle(k, *pair) for k, pair in enumerate(marked)])
    return figure


def _category_handle(k: int, name: str, marker: str) -> Line2D:
    return Line2D(
        [],
        [],
        color=NEUTRAL,
        marker=marker,
        markerfacecolor="white" if k % 2 else NEUTRAL,
        linestyle="none",
        label=name,
    )


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


@dataclass(frozen=True)
class Point:
    """One point of a scatter plot: a row of the table, at one place of an axis."""

    label: str
    method: str
    place: str
    x: Summary
    y: Summary


@dataclass(frozen=True)
class Cloud:
    """One pair of axes with points."""

    title: str
    x_label: str
    y_label: str
    points: tuple[Point, ...]


def scatter(clouds: Sequence[Cloud], *, log_x: bool = False) -> Figure | None:
    """Points with both intervals; the mark is the row's, filled at the first place alone.

    Args:
        clouds: one pair of axes each, side by side in twos.
        log_x: whether the x axis is logarithmic.

    Returns:
        None without a point; clouds without one are left out.
    """
    clouds = [cloud for cloud in clouds if cloud.points]
    if not clouds:
        return None
    height = 2.7 * ceil(len(clouds) / 2) + 1.2
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    every = [point for cloud in clouds for point in cloud.points]
    known = looks({point.label: point.method for point in every})
    places = list(dict.fromkeys(point.place for point in every))
    spec = figure.add_gridspec(ceil(len(clouds) / 2), min(len(clouds), 2))
    for n, cloud in enumerate(clouds):
        ax = figure.add_subplot(spec[n // 2, n % 2])
        for point in cloud.points:
            look = known[point.label]
            ax.errorbar(
                point.x.mean,
                point.y.mean,
                xerr=reach(point.x),
                yerr=reach(point.y),
                color=look.colour,
                marker=look.marker,
                markersize=7.0,
                markerfacecolor=look.colour if point.place == places[0] else "white",
                linestyle="none",
                elinewidth=0.9,
                label=point.label,
            )
        ax.set_title(cloud.title, loc="left")
        ax.set_xlabel(cloud.x_label)
        ax.set_ylabel(cloud.y_label)
        if log_x:
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_locator(NullLocator())
    handles = [line_handle(label, look) for label, look in known.items()]
    for handle in handles:
        handle.set_linestyle("none")
    if len(places) > 1:
        handles += [_category_handle(k, place, "o") for k, place in enumerate(places)]
    legend(figure, handles, columns=2)
    return figure
