"""``cfq-bench report``: a suite's answer in every format."""

from pathlib import Path

import click

from cfq_bench.cli.options import FILE, FOLDER


@click.command()
@click.argument("suite")
@click.option("--results-dir", type=FOLDER, default="results", show_default=True)
@click.option("--archive", type=FILE, help="Records from a file of `results pack` instead.")
@click.option("--into", type=FOLDER, help="Where to write.  [default: RESULTS_DIR/SUITE/report]")
@click.option("--baseline", help="The row that others are compared with.  [default: LSQ, or FP32]")
@click.option("--conf-dir", type=FOLDER, help="Your own folder of YAML files, searched first.")
def report(
    suite: str,
    results_dir: Path,
    archive: Path | None,
    into: Path | None,
    baseline: str | None,
    conf_dir: Path | None,
) -> None:
    """Report on a suite: Markdown, HTML, LaTeX and CSV tables, figures, the paper beside.

    \b
        cfq-bench suite table1
        cfq-bench report table1

    At the top stands in plain words what holds, what does not, and how sure that is. The same
    records give the same bytes.
    """  # noqa: D301 (click reads the backspace character)
    from cfq_bench.config.suite import expand, load_suite
    from cfq_bench.errors import UserError
    from cfq_bench.record.archive import read_archive, stored
    from cfq_bench.record.identity import Judge
    from cfq_bench.record.store import RecordStore
    from cfq_bench.report.build import build_report
    from cfq_bench.report.reproduced import REPRODUCED, Reproduced
    from cfq_bench.report.write import write_report
    from cfq_bench.results.collect import collect

    loaded = load_suite(suite, conf_dir)
    runs = expand(loaded, conf_dir)
    if archive is None:
        known = stored(RecordStore(results_dir), [run.run_id for run in runs])
        where, hint = str(results_dir), f"run `cfq-bench suite {suite}` first"
    else:
        known = read_archive(archive)
        where, hint = str(archive), "it is of another suite, or of other settings"
    results = collect(loaded.name, runs, known.records)
    if not results.finished:
        raise UserError(f"{where} has no finished run of suite {loaded.name}: {hint}")
    # An archive is read as it is: its records answer for the version that made them.
    stale = Judge().stale(known.records) if archive is None else {}
    again = None if archive is None else Reproduced.read(archive.with_name(REPRODUCED))
    made = build_report(loaded, results, known.rows, baseline, stale, again)
    folder = into or results_dir / loaded.name / "report"
    count = write_report(made, folder)
    click.echo(made.summary)
    click.echo(f"wrote {count} files: {folder / 'report.html'} and others")
