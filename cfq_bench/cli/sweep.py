"""``cfq-bench sweep``: grids, searches and W&B sweeps."""

import sys
from pathlib import Path
from typing import cast

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cfq_bench.cli.options import FILE, FOLDER
from cfq_bench.text import visible
from cfq_bench.tracking.mode import Mode


@click.command()
@click.argument("file", type=FILE)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--wandb", "at_wandb", is_flag=True, help="FILE is a W&B sweep: create it.")
@click.option("--agents", type=click.IntRange(min=1), help="Of a W&B sweep, to run here.")
@click.option("--conf-dir", type=FOLDER, help="Your own folder of YAML files, searched first.")
@click.option("--data-dir", type=FOLDER, help="Raw data files.  [default: $CFQ_BENCH_DATA]")
@click.option("--results-dir", type=FOLDER, default="results", show_default=True)
@click.option("--cache-dir", type=FOLDER, help="Teachers.  [default: the user cache]")
@click.option(
    "--tracking",
    type=click.Choice(["auto", "online", "offline", "disabled"]),
    default="auto",
    show_default=True,
    help="W&B mode of the runs, as --wandb of `cfq-bench run`.",
)
@click.option("--device", default="cpu", show_default=True, help="A torch device, such as cuda.")
@click.option("--accept-stale", is_flag=True, help="Take records of other code or data.")
@click.option("-q", "--quiet", is_flag=True, help="Print the report and nothing else.")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
def sweep(
    file: Path,
    workers: int,
    at_wandb: bool,
    agents: int | None,
    conf_dir: Path | None,
    data_dir: Path | None,
    results_dir: Path,
    cache_dir: Path | None,
    tracking: str,
    device: str,
    accept_stale: bool,
    quiet: bool,
    overrides: tuple[str, ...],
) -> None:
    r"""Try many settings on validation rows, and measure the best on test rows.

    FILE says what varies, and what makes a point the best (sweeps/ has examples). KEY=VALUE
    changes what all points share. A sweep that was interrupted, or killed, goes on where it
    stopped; every point is a trial that optuna-dashboard shows.

    \b
        cfq-bench sweep sweeps/eta_lambda.yaml --workers 2
        cfq-bench sweep sweeps/search.yaml data=german
        cfq-bench sweep --wandb sweeps/wandb/eta_lambda.yaml --agents 2
    """
    from cfq_bench.errors import UserError

    if agents is not None and not at_wandb:
        raise UserError("--agents is for --wandb; a sweep of ours has --workers")
    if at_wandb:
        if overrides:
            raise UserError(f"{overrides[0]}: a W&B sweep takes its settings from {file} alone")
        sys.exit(_at_wandb(file, agents, results_dir))
    from cfq_bench.sweeps.settings import load_sweep

    settings = load_sweep(file, overrides)
    from cfq_bench.sweeps.execution import Place
    from cfq_bench.sweeps.points import Space
    from cfq_bench.sweeps.sweep import run_sweep
    from cfq_bench.tracking.mode import resolve_mode

    mode, note = resolve_mode(cast(Mode, tracking))
    if note is not None and not quiet:
        click.echo(note, err=True)
    place = Place(results_dir, cache_dir, data_dir, mode, device, accept_stale)
    with _Bar(quiet) as bar:
        try:
            result = run_sweep(Space(settings, conf_dir, data_dir), place, workers, bar.show)
        except KeyboardInterrupt:
            click.echo("interrupted; the same command goes on from here", err=True)
            sys.exit(130)
    click.echo(result.report, nl=False)
    if result.unfinished:
        click.echo(f"{result.unfinished} left: the same command goes on from here", err=True)
    for line in result.failures:
        click.echo(visible(line), err=True)
    sys.exit(1 if result.unfinished or result.failures or result.chosen is None else 0)


def _at_wandb(file: Path, agents: int | None, results_dir: Path) -> int:
    from cfq_bench.sweeps.wandb import create_sweep, run_agents

    identity = create_sweep(file)
    click.echo(f"wandb agent {identity}")
    if agents is None:
        return 0
    return 0 if run_agents(identity, agents, results_dir) else 1


class _Bar:
    """One bar for the whole sweep, on a terminal's standard error, gone when it is done."""

    def __init__(self, quiet: bool) -> None:
        console = Console(stderr=True)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self.tasks: dict[str, int] = {}

    def __enter__(self) -> "_Bar":
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()

    def show(self, what: str, done: int, total: int) -> None:
        """Move the bar of a part of the sweep."""
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(what, total=total)
        self.bars.update(self.bars.task_ids[list(self.tasks).index(what)], completed=done)
