"""A suite's results as figures, in SVG for pages and PDF for papers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from matplotlib.figure import Figure

from cfq_bench.aggregate.runs import split_words
from cfq_bench.figures.catalogue import FIGURES
from cfq_bench.figures.export import to_pdf, to_svg
from cfq_bench.figures.kinds import FigureKind
from cfq_bench.figures.style import styled
from cfq_bench.results.collect import Result, Results


@dataclass(frozen=True)
class Drawing:
    """One figure; it takes its time to become a file, so that it does so when asked.

    Attributes:
        name: of its files, without an ending; unique in a suite.
        title: a line.
        caption: what is plotted, over how many seeds, what bands or lines mean, what is missing.
        suite: whose results it shows.
        figure: to look at or to change.
    """

    name: str
    title: str
    caption: str
    suite: str
    figure: Figure

    @cached_property
    def svg(self) -> bytes:
        """Text stays text; the title and the caption are read aloud by screen readers."""
        with styled():
            return to_svg(self.figure, f"{self.suite}-{self.name}", self.title, self.caption)

    @cached_property
    def pdf(self) -> bytes:
        """The same, with its fonts."""
        _ = self.svg  # a layout depends on what was drawn before: always in this order
        with styled():
            return to_pdf(self.figure)


def draw_figures(results: Results) -> list[Drawing]:
    """Every figure that a suite's results have all for; the same results give the same bytes."""
    drawings = []
    for kind in FIGURES:
        picked = kind.needs.pick(results)
        with styled():
            figure = kind.build(picked) if picked else None
        if figure is not None:
            caption = describe(kind, picked, results)
            drawings.append(Drawing(kind.name, kind.title, caption, results.suite, figure))
    return drawings


def build_figure(name: str, results: Results) -> Figure | None:
    """One figure by its name, to look at or to change; None where the results lack something."""
    kind = next(kind for kind in FIGURES if kind.name == name)
    picked = kind.needs.pick(results)
    with styled():
        return kind.build(picked) if picked else None


def describe(kind: FigureKind, picked: Sequence[Result], results: Results) -> str:
    """The caption, with the number of seeds and of runs that are not there."""
    text = kind.caption.format(seeds=_seeds(picked))
    lost = len(results.missing) + len(results.failed)
    total = lost + len(results.finished) + len(results.skipped)
    splits = {split_words(result.record.config) for result in picked}
    if splits != {""}:
        text += f" Measured on {' and '.join(sorted(one or 'test rows' for one in splits))}."
    return text + (f" {lost} of the suite's {total} runs are missing or failed." if lost else "")


def _seeds(picked: Sequence[Result]) -> str:
    """Seeds behind a value, the least and the most.

    One seed has no interval.
    """
    counts = Counter((result.cell, result.row) for result in picked if result.compared).values()
    least, most = min(counts), max(counts)
    if most == 1:
        return "1 seed, hence without intervals"
    return f"{most} seeds" if least == most else f"{least} to {most} seeds"
