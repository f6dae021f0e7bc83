"""A suite's report: what every format says, in the order in which it says it."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cfq_bench.aggregate.comparisons import Compared
from cfq_bench.aggregate.places import Kept, Place, arranged
from cfq_bench.config.suite import SuiteSettings
from cfq_bench.figures.draw import Drawing, draw_figures
from cfq_bench.record.identity import stale_words, version_of
from cfq_bench.report.answer import HOW, SettingAnswer, answer
from cfq_bench.report.cells import cell_table, overview_table
from cfq_bench.report.layout import Table, columns
from cfq_bench.report.paper_side import paper_tables
from cfq_bench.report.reproduced import Reproduced
from cfq_bench.results.collect import Result, Results


@dataclass(frozen=True)
class Report:
    """Everything that a report holds.

    Attributes:
        title: the suite's name.
        about: what it is for.
        state: how many runs there are, what became of them, and what made them; a line each.
        summary: the answer in one sentence.
        answers: the answer by setting.
        how: how to read the answer.
        overviews: a table for every setting with several data sets.
        cells: a table for every data set and setting.
        paper: the paper's tables beside ours.
        drawings: figures.
    """

    title: str
    about: str
    state: Sequence[str]
    summary: str
    answers: Sequence[SettingAnswer]
    how: str
    overviews: Sequence[Table]
    cells: Sequence[Table]
    paper: Sequence[Table]
    drawings: Sequence[Drawing]

    @property
    def tables(self) -> list[Table]:
        """All tables, in order; their names differ."""
        return [*self.overviews, *self.cells, *self.paper]


def build_report(
    suite: SuiteSettings,
    results: Results,
    kept: Kept,
    baseline: str | None = None,
    stale: Mapping[str, str] | None = None,
    reproduced: Reproduced | None = None,
) -> Report:
    """Make a suite's report from its results.

    Args:
        suite: its settings.
        results: its runs beside their records.
        kept: per-row validity by run id, which makes intervals over people as well as seeds.
        baseline: the row that others are compared with; default: each setting's usual one.
        stale: why records are stale, by run id, for those that are; published ones never are.
        reproduced: how those of them agree that were run again elsewhere.

    Raises:
        UserError: no run has the baseline's row.
    """
    stale = stale or {}
    settings = [Compared(setting, kept) for setting in arranged(results.finished, baseline)]
    summary, answers = answer(settings)
    metrics = columns().of(suite.name, results.finished)
    paper = [
        _noted(table, results.finished, stale)
        for table in paper_tables(suite.tables, results.finished)
    ]
    names = {table.name for table in paper}
    return Report(
        title=suite.name,
        about=suite.about,
        state=_state(results, stale, reproduced),
        summary=summary,
        answers=answers,
        how=HOW,
        overviews=_apart(
            (
                _noted(overview_table(one), _results_of(one.setting.places.values()), stale)
                for one in settings
                if len(one.setting.places) > 1
            ),
            names,
        ),
        cells=_apart(
            (
                _noted(cell_table(compared, place, metrics), _results_of([place]), stale)
                for compared in settings
                for place in compared.setting.places.values()
            ),
            names,
        ),
        paper=paper,
        drawings=draw_figures(results),
    )


def _apart(tables: Iterable[Table], taken: set[str]) -> list[Table]:
    """Tables of which no two have one file's name: labels may differ in what a name leaves out."""
    named = []
    for table in tables:
        every = itertools.chain([table.name], (f"{table.name}-{n}" for n in itertools.count(2)))
        name = next(name for name in every if name not in taken)
        taken.add(name)
        named.append(replace(table, name=name))
    return named


def _state(results: Results, stale: Mapping[str, str], reproduced: Reproduced | None) -> list[str]:
    done, skipped = results.finished, results.skipped
    counts = [
        f"{len(done)} finished",
        f"{len(skipped)} skipped",
        f"{len(results.failed)} failed",
        f"{len(results.missing)} missing",
    ]
    lines = [f"Runs: {', '.join(counts)}."]
    seeds = sorted({result.seed for result in done})
    if seeds:
        lines.append(f"Seeds: {', '.join(map(str, seeds))}.")
    if done:
        lines.append(_made(done))
    every = {r.record.run_id for r in (*done, *skipped, *results.failed)}
    words = stale_words({name: why for name, why in stale.items() if name in every}, len(every))
    if words is not None:
        lines.append(words)
    if reproduced is not None:
        lines.append(reproduced.sentence())
    for what, part in (("Skipped", skipped), ("Failed", results.failed)):
        reasons = Counter(f"{r.row} on {r.run.axes['data']}: {r.record.reason}" for r in part)
        lines += [f"{what}: {text} ({count} runs)." for text, count in sorted(reasons.items())]
    return lines


def _made(results: Iterable[Result]) -> str:
    """The versions that made some records, and how many each."""
    versions = Counter(version_of(result.record.provenance) for result in results)
    words = [
        f"{version} ({count} {'run' if count == 1 else 'runs'})"
        for version, count in sorted(versions.items())
    ]
    return f"Made by: {', '.join(words)}."


def _noted(table: Table, results: Iterable[Result], stale: Mapping[str, str]) -> Table:
    """A table with what made its records, and how many of them are stale, beside it."""
    every = list(results)
    ids = {result.record.run_id for result in every}
    words = stale_words({name: why for name, why in stale.items() if name in ids}, len(every))
    return replace(table, notes=[*table.notes, _made(every), *([words] if words else [])])


def _results_of(places: Iterable[Place]) -> Iterator[Result]:
    for place in places:
        for runs in place.results.values():
            yield from runs.values()
