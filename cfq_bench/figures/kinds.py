"""What a kind of figure is: what it needs of the results, how it is built, what it says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from cfq_bench.results.collect import Result, Results

Builder = Callable[[Sequence[Result]], Figure | None]
"""None where results that have all that is needed still leave nothing to plot."""


def everything(result: Result) -> bool:
    """No condition."""
    return True


@dataclass(frozen=True)
class Needs:
    """What results must have for a figure to be drawn.

    Attributes:
        suites: one of these; any suite where empty.
        plain: the suite has no axis but data set and seed.
        axes: results stand on these axes, and each has at least two values.
        numbers: those values are numbers, of which a curve needs three.
        metrics: some result has a value of each.
        details: results have these entries of a record's details.
        settings: numbers among the method's settings that take at least two values.
        only: which results count.
    """

    suites: tuple[str, ...] = ()
    plain: bool = False
    axes: tuple[str, ...] = ()
    numbers: bool = False
    metrics: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    only: Callable[[Result], bool] = everything

    def pick(self, results: Results) -> tuple[Result, ...]:
        """The results to draw, in the suite's order; none where something is lacking."""
        if self.suites and results.suite not in self.suites:
            return ()
        if self.plain and any({*dict(r.cell)} - {"split"} != {"data"} for r in results.finished):
            return ()
        found = tuple(r for r in results.finished if self._has_all(r) and self.only(r))
        varied: list[set[str] | set[float]] = [
            *({dict(r.cell)[axis] for r in found} for axis in self.axes),
            *({number_setting(name, r) for r in found} for name in self.settings),
        ]
        known = all(any(r.value(key) is not None for r in found) for key in self.metrics)
        least = 3 if self.numbers else 2
        return found if known and all(len(values) >= least for values in varied) else ()

    def _has_all(self, result: Result) -> bool:
        cell = dict(result.cell)
        return (
            all(axis in cell and (not self.numbers or _is_number(cell[axis])) for axis in self.axes)
            and all(result.record.details.get(entry) for entry in self.details)
            and all(name in result.record.config["method"] for name in self.settings)
        )


@dataclass(frozen=True)
class FigureKind:
    """One kind of figure.

    Attributes:
        name: of its files.
        title: a line.
        caption: what is plotted; ``{seeds}`` stands for their number.
        build: from the results that `needs` picked, at least one.
        needs: what must be there.
    """

    name: str
    title: str
    caption: str
    build: Builder
    needs: Needs = field(default_factory=Needs)


def method_name(result: Result) -> str:
    """Name of its method."""
    return str(result.record.config["method"]["name"])


def number_setting(name: str, result: Result) -> float:
    """A setting of its method, such as ``steps``."""
    return float(result.record.config["method"][name])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
