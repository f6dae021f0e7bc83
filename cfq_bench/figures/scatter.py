"""Points with an interval both ways."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from cfq_bench.figures.page import WIDTH, category_handle, legend, line_handle, reach
from cfq_bench.figures.style import looks
from cfq_bench.statistics.summary import Summary


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
        handles += [category_handle(k, place, "o") for k, place in enumerate(places)]
    legend(figure, handles, columns=2)
    return figure
