"""``cfq-bench reproduce``: records run again, and how far both agree."""

import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cfq_bench.cli.options import FILE, FOLDER

if TYPE_CHECKING:
    from cfq_bench.experiment import Options
    from cfq_bench.record.record import Record
    from cfq_bench.report.reproduced import Reproduced


@click.command()
@click.argument("run_ids", nargs=-1, metavar="[RUN]...")
@click.option("--results-dir", type=FOLDER, default="results", show_default=True)
@click.option("--archive", help="A published suite, or a file of `results pack`.")
@click.option("--sample", type=click.IntRange(min=1), help="So many of them, drawn by chance.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of --sample.")
@click.option("--data-dir", type=FOLDER, help="Raw data files.  [default: $CFQ_BENCH_DATA]")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--write", type=FILE, help="Store it too; a report shows SUITE/reproduced.json.")
def reproduce(
    run_ids: tuple[str, ...],
    results_dir: Path,
    archive: str | None,
    sample: int | None,
    seed: int,
    data_dir: Path | None,
    threads: int,
    as_json: bool,
    write: Path | None,
) -> None:
    r"""Run records again, and say which metrics agree.

    RUN is a run's id, or the first digits of it, in the results folder or the archive. The
    records stay as they are: everything is computed anew in a folder that is removed.

    \b
        cfq-bench reproduce 0edbca
        cfq-bench reproduce --archive headline 0edbca
        cfq-bench reproduce --archive headline --sample 8 --write results/headline/reproduced.json

    Spread is the standard deviation over the seeds of the record's row. Exit code 1: a metric
    differs by more, or a run ended otherwise.
    """
    from cfq_bench.errors import UserError
    from cfq_bench.files import ensure_writable

    known = _known(results_dir, archive)
    chosen = _chosen(known, run_ids, sample, seed)
    if write is not None:
        ensure_writable(write.parent, "the comparison")

    from cfq_bench.experiment import Options
    from cfq_bench.report.reproduced import gather

    with tempfile.TemporaryDirectory(prefix="cfq-bench-reproduce-") as folder:
        options = Options(
            Path(folder),
            cache_dir=Path(folder) / "cache",
            data_dir=data_dir,
            wandb="disabled",
            threads=threads,
        )
        try:
            after = _run_again(chosen, options, lambda line: click.echo(line, err=True))
        except KeyboardInterrupt:
            raise UserError("interrupted; nothing was written") from None
    found = gather(chosen, after, known)
    if write is not None:
        found.write(write)
    click.echo(found.model_dump_json(indent=1) if as_json else _page(found))
    sys.exit(0 if found.agrees else 1)


def _known(results_dir: Path, archive: str | None) -> "list[Record]":
    from cfq_bench.record.archive import read_archive
    from cfq_bench.record.store import RecordStore

    if archive is None:
        return RecordStore(results_dir).all()
    named = Path(archive)
    path = named if named.is_file() else results_dir / archive / "records.jsonl.xz"
    return list(read_archive(path).records)


def _chosen(
    known: "Sequence[Record]", run_ids: Sequence[str], sample: int | None, seed: int
) -> "list[Record]":
    """The records to run again: those that are named, or a sample of those that are ok."""
    from cfq_bench.errors import UserError

    if bool(run_ids) == (sample is not None):
        raise UserError("name runs, or give --sample N: one of the two")
    if sample is not None:
        finished = sorted((one for one in known if one.status == "ok"), key=lambda one: one.run_id)
        if not finished:
            raise UserError("there is no finished record to run again")
        return random.Random(seed).sample(finished, min(sample, len(finished)))
    chosen = {}
    for prefix in run_ids:
        fitting = [record for record in known if record.run_id.startswith(prefix)]
        if len(fitting) != 1:
            raise UserError(
                f"{len(fitting) or 'none'} of {len(known)} records start with {prefix!r}: "
                "expected one; `cfq-bench reproduce --archive SUITE RUN` looks into an archive"
            )
        chosen[fitting[0].run_id] = fitting[0]
    return list(chosen.values())


def _run_again(
    records: "Sequence[Record]", options: "Options", say: Callable[[str], None]
) -> "list[Record]":
    from cfq_bench.config.loader import settings_from_config
    from cfq_bench.errors import UserError
    from cfq_bench.experiment import run

    every = [(record, settings_from_config(record.config)) for record in records]
    after = []
    for number, (record, settings) in enumerate(every, start=1):
        device = str(record.provenance.get("device", "cpu"))
        try:
            after.append(run(settings, replace(options, device=device)))
        except UserError as error:
            raise UserError(f"run {record.run_id} cannot be run again here: {error}") from None
        say(f"{number} of {len(every)}: {record.run_id}, {after[-1].seconds:.0f} s")
    return after


def _page(found: "Reproduced") -> str:
    """One table, the metrics that are beyond the spread, and the machines."""
    from cfq_bench.aggregate.numbers import format_metric
    from cfq_bench.report.reproduced import SPREADS

    heads = ("run", "what", "metrics", "equal", "printed", "within", "beyond")
    rows: list[tuple[str, ...]] = [heads]
    for run in found.runs:
        counts = [run.count(one) for one in ("equal", "printed", "within", "beyond")]
        rows.append((run.run_id[:8], run.what, *map(str, (run.metrics, *counts))))
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    lines = [
        "  ".join(
            text.ljust(width) if i < 2 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    for run in found.runs:
        if run.before != run.after:
            lines.append(f"{run.run_id[:8]}: was {run.before}, is {run.after}")
        for key, one in run.differences.items():
            if one.agreement == "beyond":
                spread = "no spread" if one.spread is None else f"spread {one.spread:.2g}"
                before, after = (format_metric(key, value) for value in (one.before, one.after))
                lines.append(f"{run.run_id[:8]}: {key} was {before}, is {after} ({spread})")
    lines += [
        "equal: to the last bit; printed: to the digits of a table; within: by no more than "
        f"{SPREADS:g} standard deviations over seeds",
        f"here: {found.machine}, {found.made_by}",
        f"records: {'; '.join(found.original)}",
    ]
    return "\n".join(lines)
