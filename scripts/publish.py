"""Publish suites: their records in one file each, the reports made from these, README's tables.

Usage::

    python scripts/publish.py SUITE... [--from DIR]      # of the runs in DIR (default: results)
    python scripts/publish.py --render [SUITE...]        # of what is published (default: all)
    python scripts/publish.py --check                    # are reports and README what records give?

Of figures and CSV files the check asks only that they are there: their last digits depend on the
machine and on the version of matplotlib.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import click

from cfq_bench.config.suite import expand, load_suite
from cfq_bench.errors import UserError
from cfq_bench.files import write_atomic
from cfq_bench.record.archive import pack, read_archive, stored
from cfq_bench.record.store import RecordStore
from cfq_bench.report.build import Report, build_report
from cfq_bench.report.markdown import markdown_table
from cfq_bench.report.reproduced import REPRODUCED, Reproduced
from cfq_bench.report.write import texts_of, write_report
from cfq_bench.results.collect import collect

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
README = ROOT / "README.md"
FORMATS = ("svg", "pdf")


class Shown(NamedTuple):
    """What the README shows of a suite, between two comments that hold the mark."""

    mark: str
    table: str
    figure: str | None = None


IN_README = {
    "headline": Shown("main table", "overview-w3.5a8-blocks", "headline"),
    "table30": Shown("table of images", "overview"),
}


@click.command()
@click.argument("suites", nargs=-1)
@click.option("--from", "source", type=click.Path(path_type=Path), default=RESULTS)
@click.option("--render", is_flag=True, help="Leave records as they are; draw reports again.")
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 where something differs.")
def main(suites: tuple[str, ...], source: Path, render: bool, check: bool) -> None:
    """Publish suites, draw the reports of published ones again, or check what is published."""
    if check:
        found = stale()
        for name in found:
            click.echo(f"{name} is not what the published records give", err=True)
        sys.exit(1 if found else 0)
    for suite in suites or (published() if render else ()):
        if not render:
            ids = [run.run_id for run in expand(load_suite(suite))]
            write_atomic(archive_of(suite), pack(stored(RecordStore(source), ids)))
        report = report_of(suite)
        count = write_report(report, RESULTS / suite / "report")
        click.echo(f"{suite}: {report.state[0]} {count} files")
        if suite in IN_README:
            readme = README.read_text(encoding="utf-8")
            write_atomic(README, with_table(readme, suite, report).encode())


def published() -> list[str]:
    """Suites that have an archive of their records."""
    return sorted(path.parent.name for path in RESULTS.glob("*/records.jsonl.xz"))


def archive_of(suite: str) -> Path:
    """Where a suite's published records are."""
    folder = RESULTS / suite
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "records.jsonl.xz"


def report_of(suite: str) -> Report:
    """The report of the published records."""
    archive, settings = read_archive(archive_of(suite)), load_suite(suite)
    results = collect(suite, expand(settings), archive.records)
    if not results.finished:
        raise UserError(f"the published records of {suite} are none of its runs: publish it again")
    again = Reproduced.read(archive_of(suite).with_name(REPRODUCED))
    return build_report(settings, results, archive.rows, reproduced=again)


def stale() -> list[str]:
    """Published files that differ from what the published records give."""
    found = []
    for suite in published():
        report = report_of(suite)
        folder, texts = RESULTS / suite / "report", texts_of(report)
        drawn = (f"figures/{one.name}.{ending}" for one in report.drawings for ending in FORMATS)
        for name in (*texts, "report.html", *drawn):
            exact = name.endswith((".md", ".tex"))
            path = folder / name
            if not path.exists() or (exact and path.read_bytes() != texts[name]):
                found.append(str(path.relative_to(ROOT)))
        if suite in IN_README:
            readme = README.read_text(encoding="utf-8")
            if with_table(readme, suite, report) != readme:
                found.append(f"{README.name}, {IN_README[suite].mark}")
    return found


def with_table(readme: str, suite: str, report: Report) -> str:
    """The README with a suite's table, and its figure, as a report gives them."""
    shown = IN_README[suite]
    begin, end = f"<!-- {shown.mark}: begin (scripts/publish.py) -->", f"<!-- {shown.mark}: end -->"
    before, rest = readme.split(begin)
    after = rest.split(end)[1]
    (table,) = (table for table in report.overviews if table.name == shown.table)
    parts = [begin, markdown_table(table)]
    if shown.figure is not None:
        (drawing,) = (drawing for drawing in report.drawings if drawing.name == shown.figure)
        picture = f"results/{suite}/report/figures/{shown.figure}.svg"
        parts += [f"![{drawing.title}]({picture})", f"*{drawing.caption}*"]
    return before + "\n\n".join([*parts, end]) + after


if __name__ == "__main__":
    main()
