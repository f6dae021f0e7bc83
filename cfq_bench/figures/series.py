"""Results as what a plot needs: panels of series of summaries over seeds. No drawing here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cfq_bench.aggregate.places import axis_text, ordered
from cfq_bench.evaluation.keys import METRICS
from cfq_bench.results.collect import Result
from cfq_bench.statistics.summary import Summary, summarize

Place = float | str
Measure = Callable[[Result], float | None]
"""What is read of one result; None where it is undefined."""


@dataclass(frozen=True)
class Series:
    """One row of a table along the x axis of a panel.

    Attributes:
        label: the row's.
        method: its method's name, which gives the colour.
        x: numbers, or categories.
        y: for each, the summary over seeds; None where no seed has a value.
    """

    label: str
    method: str
    x: tuple[Place, ...]
    y: tuple[Summary | None, ...]


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: what the panel is about, such as its data set.
        value: label of the values' axis, with its unit.
        series: in the order of the table's rows.
    """

    title: str
    value: str
    series: tuple[Series, ...]

    @property
    def shares(self) -> bool:
        """Whether values lie between 0 and 1, whatever the ends of an interval say."""
        return self.value.endswith(f"({_SHARE})")


_SHARE = "share"


def axis_label(key: str) -> str:
    """A metric's short name with its unit.

    >>> axis_label("recourse/vd"), axis_label("recourse/crg")
    ('VD (share)', 'CRG (relative)')
    """
    return f"{METRICS[key].label} ({_UNITS[key]})" if key in _UNITS else METRICS[key].label


_UNITS = {
    "recourse/vd": _SHARE,
    "recourse/vd_adverse": _SHARE,
    "recourse/boundary_error": _SHARE,
    "recourse/crg": "relative",
    "recourse/crg_abs": "relative",
    "recourse/frr": _SHARE,
    "task/acc": _SHARE,
    "robust/success": _SHARE,
}


def metric(key: str) -> Measure:
    """Read a metric by its key."""
    return lambda result: result.value(key)


def over_seeds(results: Iterable[Result], measure: Measure) -> Summary | None:
    """Summary over the seeds of results that differ in nothing else, those of the tables."""
    values = {result.seed: measure(result) for result in results if result.compared}
    return summarize(values, values)


def on_axis(axis: str | None, result: Result) -> str:
    """A result's place on one of the suite's axes; without an axis there is but one place."""
    return "" if axis is None else dict(result.cell)[axis]


def rows_of(results: Iterable[Result]) -> dict[str, str]:
    """The method of each row, in the suite's order."""
    cells: dict[object, dict[str, str]] = {}
    for result in results:
        rows = cells.setdefault(result.cell, {})
        rows[result.row] = result.record.config["method"]["name"]
    methods = {row: method for rows in cells.values() for row, method in rows.items()}
    return {row: methods[row] for row in ordered(cells.values())}


def of_row(results: Iterable[Result], row: str) -> list[Result]:
    """Results of one row of the table."""
    return [result for result in results if result.row == row]


def panels_of(results: Iterable[Result], *axes: str) -> dict[str, list[Result]]:
    """Results by their place on all axes but the given ones; titles are the places."""
    found: dict[str, list[Result]] = {}
    for result in results:
        title = ", ".join(
            axis_text(axis, value) if axis == "split" else value
            for axis, value in result.cell
            if axis not in axes
        )
        found.setdefault(title, []).append(result)
    return found


def tabulate(
    rows: Mapping[str, str],
    places: Sequence[Place],
    value: Callable[[str, Place], Summary | None],
) -> tuple[Series, ...]:
    """One series for each row of the table.

    Args:
        rows: labels and methods, of all panels: a row that one panel lacks is a series of gaps.
        places: along the x axis, of all panels.
        value: of a row at a place.
    """
    return tuple(
        Series(row, method, tuple(places), tuple(value(row, place) for place in places))
        for row, method in rows.items()
    )


def laid_out(
    results: Sequence[Result],
    metrics: Sequence[str],
    series: Callable[[list[Result], str], tuple[Series, ...]],
    *,
    along: Sequence[str] = (),
    columns: int = 2,
) -> list[list[Panel]]:
    """Panels on a page: pairs of metrics stand side by side, one alone is wrapped.

    Args:
        results: of the figure.
        metrics: keys, one or pairs; one panel each for every place on the axes not plotted.
        series: of one panel's results and a metric.
        along: axes of the suite that are plotted within a panel.
        columns: of a page with one metric.
    """
    panels = [
        Panel(title, axis_label(key), series(part, key))
        for title, part in panels_of(results, *along).items()
        for key in metrics
    ]
    return wrapped(panels, columns if len(metrics) == 1 else 2)


def one_kind(
    results: Sequence[Result], value: str, series: Callable[[list[Result]], tuple[Series, ...]]
) -> list[list[Panel]]:
    """Panels, two in a row of the page, that show one kind of value, which is no metric.

    Args:
        results: of the figure.
        value: label of the values' axis.
        series: of one panel's results.
    """
    panels = [Panel(title, value, series(part)) for title, part in panels_of(results).items()]
    return wrapped(panels, 2)


def wrapped(panels: Sequence[Panel], columns: int) -> list[list[Panel]]:
    """Panels in rows of a few."""
    return [list(panels[i : i + columns]) for i in range(0, len(panels), columns)]
