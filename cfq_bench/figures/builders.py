"""From metrics to figures: a builder is made for metrics and what they are plotted against."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from cfq_bench.figures.bars import grouped_bars
from cfq_bench.figures.curves import curves
from cfq_bench.figures.dots import dots
from cfq_bench.figures.kinds import Builder, method_name, number_setting
from cfq_bench.figures.series import (
    Panel,
    Place,
    Series,
    laid_out,
    metric,
    on_axis,
    over_seeds,
    rows_of,
    tabulate,
)
from cfq_bench.results.collect import Result
from cfq_bench.statistics.summary import Summary

TEACHER = "teacher f"


def against_bits(*metrics: str) -> Builder:
    """Metrics against the bits that networks really have, at the budgets of the suite."""

    def build(results: Sequence[Result]) -> Figure:
        rows = rows_of(results)
        budgets = sorted({on_axis("budget", r) for r in results}, key=float)

        def line(part: list[Result], key: str, row: str) -> Series:
            points: list[tuple[float, Summary | None]] = []
            for budget in budgets:
                cell = [r for r in part if r.row == row and on_axis("budget", r) == budget]
                bits = over_seeds(cell, metric("deploy/avg_bits"))
                if bits is not None:
                    points.append((bits.mean, over_seeds(cell, metric(key))))
            return Series(row, rows[row], tuple(x for x, _ in points), tuple(y for _, y in points))

        def lines(part: list[Result], key: str) -> tuple[Series, ...]:
            return tuple(line(part, key, row) for row in rows)

        page = laid_out(results, metrics, lines, along=["budget"])
        return curves(page, "average weight bits", share=(32.0, "BitCost / BitCost FP32"))

    return build


def against_setting(name: str, x_label: str, *metrics: str) -> Builder:
    """Metrics against a number among the method's settings; every method is one line."""

    def build(results: Sequence[Result]) -> Figure:
        values = sorted({number_setting(name, r) for r in results})
        methods = {method: method for method in rows_of(results).values()}

        def lines(part: list[Result], key: str) -> tuple[Series, ...]:
            def value(method: str, place: Place) -> Summary | None:
                cell = (
                    r for r in part if (method_name(r), number_setting(name, r)) == (method, place)
                )
                return over_seeds(cell, metric(key))

            return tabulate(methods, values, value)

        return curves(laid_out(results, metrics, lines), x_label, ticks=values)

    return build


def over_axis(axis: str, *metrics: str) -> Builder:
    """Bars by the values of one axis, one bar for each row of the table."""

    def build(results: Sequence[Result]) -> Figure:
        return grouped_bars(_over_axis(results, axis, metrics))

    return build


def teacher_over_axis(axis: str, key: str) -> Builder:
    """Bars of a metric that depends on the teacher alone: every row of the table has it."""

    def build(results: Sequence[Result]) -> Figure:
        def bars(part: list[Result], key: str) -> tuple[Series, ...]:
            def value(_: str, place: Place) -> Summary | None:
                return over_seeds((r for r in part if on_axis(axis, r) == place), metric(key))

            return tabulate({TEACHER: "fp32"}, _values(results, axis), value)

        return grouped_bars(laid_out(results, [key], bars, along=[axis]))

    return build


def by_row(
    *metrics: str, axis: str | None = None, columns: int = 2, square_root: bool = False
) -> Builder:
    """Dots, one line for each row of the table, one mark for each value of an axis."""

    def build(results: Sequence[Result]) -> Figure:
        return dots(_over_axis(results, axis, metrics, columns), square_root=square_root)

    return build


def _over_axis(
    results: Sequence[Result], axis: str | None, metrics: Sequence[str], columns: int = 2
) -> list[list[Panel]]:
    """Panels of every row of the table at every value of an axis; without one, at one place."""
    rows, places = rows_of(results), _values(results, axis)

    def series(part: list[Result], key: str) -> tuple[Series, ...]:
        def value(row: str, place: Place) -> Summary | None:
            cell = (r for r in part if r.row == row and on_axis(axis, r) == place)
            return over_seeds(cell, metric(key))

        return tabulate(rows, places, value)

    return laid_out(results, metrics, series, along=[axis] if axis else [], columns=columns)


def _values(results: Sequence[Result], axis: str | None) -> list[str]:
    """Values of an axis, in the suite's order."""
    return list(dict.fromkeys(on_axis(axis, result) for result in results))
