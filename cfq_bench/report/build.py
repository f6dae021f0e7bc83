"""A suite's report: what every format says, in the order in which it says it."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cfq_bench.aggregate.comparisons import Compared
from cfq_bench.aggregate.places import Kept, arranged
from cfq_bench.config.suite import SuiteSettings
from cfq_bench.figures.draw import Drawing, draw_figures
from cfq_bench.report.answer import HOW, SettingAnswer, answer
from cfq_bench.report.cells import cell_table, overview_table
from cfq_bench.report.layout import Table, columns
from cfq_bench.report.paper_side import paper_tables
from cfq_bench.results.collect import Results


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
    suite: SuiteSettings, results: Results, kept: Kept, baseline: str | None = None
) -> Report:
    """Make a suite's report from its results.

    Args:
        suite: its settings.
        results: its runs beside their records.
        kept: per-row validity by run id, which makes intervals over people as well as seeds.
        baseline: the row that others are compared with; default: each setting's usual one.

    Raises:
        UserError: no run has the baseline's row.
    """
    settings = [Compared(setting, kept) for setting in arranged(results.finished, baseline)]
    summary, answers = answer(settings)
    metrics = columns().of(suite.name, results.finished)
    paper = paper_tables(suite.tables, results.finished)
    names = {table.name for table in paper}
    return Report(
        title=suite.name,
        about=suite.about,
        state=_state(results),
        summary=summary,
        answers=answers,
        how=HOW,
        overviews=_apart(
            (overview_table(one) for one in settings if len(one.setting.places) > 1), names
        ),
        cells=_apart(
            (
                cell_table(compared, place, metrics)
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


def _state(results: Results) -> list[str]:
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
    versions = Counter(_version(result.record.provenance) for result in done)
    made = ", ".join(f"{version} ({count} runs)" for version, count in sorted(versions.items()))
    if made:
        lines.append(f"Made by: {made}.")
    for what, part in (("Skipped", skipped), ("Failed", results.failed)):
        reasons = Counter(f"{r.row} on {r.run.axes['data']}: {r.record.reason}" for r in part)
        lines += [f"{what}: {text} ({count} runs)." for text, count in sorted(reasons.items())]
    return lines


def _version(provenance: dict[str, object]) -> str:
    """The package's version, and its commit where the records have one."""
    words = f"cfq-bench {provenance.get('version', 'of unknown version')}"
    commit = provenance.get("git_commit")
    if isinstance(commit, str):
        words += f" at {commit[:10]}"
    return f"{words}, with changes of its own" if provenance.get("git_dirty") else words
