"""``cfq-bench results``: folders of records brought together, or packed into one file."""

import sys
from pathlib import Path

import click

from cfq_bench.cli.options import FILE, FOLDER


@click.group()
def results() -> None:
    """Folders of records."""


@results.command("merge")
@click.argument("folders", nargs=-1, required=True, type=FOLDER)
@click.option("--into", type=FOLDER, help="The folder that gets them all.  [default: the first]")
def merge_results(folders: tuple[Path, ...], into: Path | None) -> None:
    """Bring the records of several results folders together.

    Of two records of one run, a finished one is kept before a failed one, then the newer. Exit
    code 1: a file was corrupt and left out.
    """
    from cfq_bench.record.merge import merge

    target = into or folders[0]
    merged = merge(folders, target)
    for note in merged.notes:
        click.echo(note, err=True)
    runs = "1 run" if merged.copied == 1 else f"{merged.copied} runs"
    click.echo(f"{target}: {runs} copied, {merged.same} there already")
    sys.exit(1 if merged.corrupt else 0)


@results.command()
@click.argument("suite")
@click.option("--results-dir", type=FOLDER, default="results", show_default=True)
@click.option("--into", type=FILE, help="The file.  [default: RESULTS_DIR/SUITE/records.jsonl.xz]")
@click.option("--conf-dir", type=FOLDER, help="Your own folder of YAML files, searched first.")
def pack(suite: str, results_dir: Path, into: Path | None, conf_dir: Path | None) -> None:
    """Pack a suite's records into one small file, from which its report can be made again."""
    from cfq_bench.config.suite import expand, load_suite
    from cfq_bench.errors import UserError
    from cfq_bench.files import ensure_writable, write_atomic
    from cfq_bench.record.archive import pack as packed
    from cfq_bench.record.archive import stored
    from cfq_bench.record.identity import Judge, stale_words
    from cfq_bench.record.store import RecordStore

    loaded = load_suite(suite, conf_dir)
    runs = expand(loaded, conf_dir)
    archive = stored(RecordStore(results_dir), [run.run_id for run in runs])
    if not archive.records:
        raise UserError(
            f"{results_dir} has no record of suite {loaded.name}: run `cfq-bench suite {suite}`"
        )
    path = into or results_dir / loaded.name / "records.jsonl.xz"
    ensure_writable(path.parent, "records")
    content = packed(archive)
    write_atomic(path, content)
    left = len(runs) - len(archive.records)
    missing = f"; {left} runs of the suite have no record" if left else ""
    click.echo(f"{path}: {len(archive.records)} records, {len(content) / 1e6:.1f} MB{missing}")
    if words := stale_words(Judge().stale(archive.records), len(archive.records)):
        click.echo(words, err=True)
