"""``python -m benchmarks``: measure every topic, print one table, store JSON."""

import importlib
import sys
from pathlib import Path

import click

TOPICS = (
    "lightning_loop",
    "quantized_steps",
    "methods",
    "overhead",
    "training_memory",
    "solvers",
    "adult",
    "dice",
    "projection",
    "command",
    "dashboard",
    "suite",
    "reports",
)
"""Files of this folder with ``measure(repeats)``, in the order of the table."""


@click.command()
@click.option("--repeats", type=click.IntRange(min=1), default=7, show_default=True)
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default="results/benchmarks.json",
    show_default=True,
)
@click.option("--only", type=click.Choice(TOPICS), multiple=True, help="Repeat for several.")
def main(repeats: int, path: Path, only: tuple[str, ...]) -> None:
    """Measure speed on one CPU thread; the exit code is 1 where a limit is not met.

    Training steps run on generated rows of Adult's size (lines that say so), which is good for
    their time alone; everything else runs on real data. Topics whose data or package are not at
    hand are skipped with a line.
    """
    import torch

    from benchmarks.report import document, table
    from cfq_bench.errors import UserError
    from cfq_bench.files import ensure_writable, write_atomic

    try:
        ensure_writable(path.parent, "benchmarks")
    except UserError as error:
        raise click.UsageError(str(error)) from None
    torch.set_num_threads(1)
    measurements = []
    for name in only or TOPICS:
        click.echo(f"measuring {name} ...", err=True)
        measurements += importlib.import_module(f"benchmarks.{name}").measure(repeats)
    click.echo(table(measurements))
    write_atomic(path, document(measurements, repeats, torch.get_num_threads()))
    sys.exit(1 if any(measurement.met is False for measurement in measurements) else 0)


if __name__ == "__main__":
    main()
