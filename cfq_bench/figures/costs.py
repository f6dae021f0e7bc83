"""Figures of what a method costs: time, and the price of a robust action."""

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from cfq_bench.figures.dots import dots
from cfq_bench.figures.kinds import method_name
from cfq_bench.figures.scatter import Cloud, Point, scatter
from cfq_bench.figures.series import (
    Measure,
    Series,
    axis_label,
    metric,
    of_row,
    on_axis,
    one_kind,
    over_seeds,
    panels_of,
    rows_of,
    tabulate,
)
from cfq_bench.results.collect import Result


def is_ptq(result: Result) -> bool:
    """Whether it is post-training quantization as such, the unit of an overhead."""
    return method_name(result) == "ptq"


def is_plain_qat(result: Result) -> bool:
    """Whether it is CFQ without its term: the same steps, quantizer and bits."""
    return bool(result.record.config["method"].get("eta") == 0.0)


def training_time(results: Sequence[Result]) -> Figure | None:
    """Fitting time of every row, relative to training without the term of recourse."""
    measure, rows = relative_time(results, is_plain_qat), rows_of(results)
    if all(measure(result) is None for result in results):
        return None

    def series(part: list[Result]) -> tuple[Series, ...]:
        return tabulate(rows, [""], lambda row, _: over_seeds(of_row(part, row), measure))

    return dots(one_kind(results, "fitting time (QAT = 1)", series))


def overhead(results: Sequence[Result]) -> Figure | None:
    """VD and its twin against the fitting time, relative to post-training quantization."""
    measure = relative_time(results, is_ptq)
    clouds = [
        _cloud(title, part, "fitting time (PTQ = 1)", measure, key)
        for title, part in panels_of(results).items()
        for key in ("recourse/vd", "recourse/vd_adverse")
    ]
    return scatter(clouds, log_x=True)


def robustness(results: Sequence[Result]) -> Figure | None:
    """How often an action works on fresh variants of f_q, against what it costs."""
    cost, key = "recourse/crg", "robust/success"
    clouds = [
        _cloud(title, part, axis_label(cost), metric(cost), key, axis="kappa")
        for title, part in panels_of(results, "kappa").items()
    ]
    return scatter(clouds)


def _cloud(
    title: str,
    part: Sequence[Result],
    x_label: str,
    x: Measure,
    key: str,
    *,
    axis: str | None = None,
) -> Cloud:
    """One point for each row of the table and value of the axis that has both coordinates."""
    points = []
    for place in dict.fromkeys(on_axis(axis, r) for r in part):
        for row, method in rows_of(part).items():
            cell = [r for r in of_row(part, row) if on_axis(axis, r) == place]
            across, up = over_seeds(cell, x), over_seeds(cell, metric(key))
            if across is not None and up is not None:
                points.append(Point(row, method, f"{axis} {place}" if axis else "", across, up))
    return Cloud(title, x_label, axis_label(key), tuple(points))


def relative_time(results: Sequence[Result], is_unit: Callable[[Result], bool]) -> Measure:
    """Fitting time over that of the first row that is the unit, at the same seed and cell."""
    unit: dict[tuple[object, int], float] = {}
    for result in filter(is_unit, results):
        seconds = result.value("time/fit_s")
        if seconds:
            unit.setdefault((result.cell, result.seed), seconds)

    def measure(result: Result) -> float | None:
        own, other = result.value("time/fit_s"), unit.get((result.cell, result.seed))
        return None if own is None or other is None else own / other

    return measure
