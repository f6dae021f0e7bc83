"""``cfq-bench``: the entry point, and the errors that end it."""

import sys
from pathlib import Path

import click

from cfq_bench import __version__
from cfq_bench.cli.dashboard import dashboard, wandb_workspace
from cfq_bench.cli.data import data
from cfq_bench.cli.options import FOLDER
from cfq_bench.cli.report import report
from cfq_bench.cli.reproduce import reproduce
from cfq_bench.cli.results import results
from cfq_bench.cli.sweep import sweep
from cfq_bench.errors import UserError
from cfq_bench.files import explain


class _Group(click.Group):
    """Turns `UserError` into one line and exit code 2, and Ctrl-C into exit code 130.

    What the operating system refuses, a folder that turned read-only or a full disk, is one line
    too.
    """

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(2)
        except BrokenPipeError:
            raise  # who reads along has had enough: click knows
        except OSError as error:
            if error.filename is None:
                raise  # not of a file: nothing that another folder would mend
            click.echo(f"error: {explain(f'use {error.filename}', error)}", err=True)
            ctx.exit(2)
        except KeyboardInterrupt:
            click.echo("interrupted; nothing was recorded", err=True)
            ctx.exit(130)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Does algorithmic recourse survive quantization? Measure it, and repair it.

    A first run needs no account and no network:

    \b
        cfq-bench run --method cfq_distilled --data compas
        cfq-bench run --method lsq --data compas
        cfq-bench compare
    """  # noqa: D301 (click reads the backspace character)


@main.command()
@click.option("--method", help="What quantizes: a name, or a YAML file.  [default: cfq]")
@click.option("--data", help="The data set: a name, or a YAML file.  [default: compas]")
@click.option("--backbone", help="The network.  [default: mlp2]")
@click.option("--teacher", help="How the full-precision model is trained.  [default: standard]")
@click.option("--solver", help="What searches for evaluation actions.  [default: search]")
@click.option("--actions", help="The action set.  [default: the data set's]")
@click.option("--regime", help="How much may change.  [default: as the action set says]")
@click.option("--conf-dir", type=FOLDER, help="Your own folder of YAML files, searched first.")
@click.option("--data-dir", type=FOLDER, help="Raw data files.  [default: $CFQ_BENCH_DATA]")
@click.option("--results-dir", type=FOLDER, default="results", show_default=True)
@click.option(
    "--cache-dir", type=FOLDER, help="Teachers and their actions.  [default: the user cache]"
)
@click.option(
    "--wandb",
    type=click.Choice(["auto", "online", "offline", "disabled"]),
    default="auto",
    show_default=True,
    help="auto: online with a key and a server that answers, else offline.",
)
@click.option("--device", default="cpu", show_default=True, help="A torch device, such as cuda.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--force", is_flag=True, help="Run again where a record exists.")
@click.option("--accept-stale", is_flag=True, help="Take a record of other code or data.")
@click.option("-q", "--quiet", is_flag=True, help="Print the result and nothing else.")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
def run(
    method: str | None,
    data: str | None,
    backbone: str | None,
    teacher: str | None,
    solver: str | None,
    actions: str | None,
    regime: str | None,
    conf_dir: Path | None,
    data_dir: Path | None,
    results_dir: Path,
    cache_dir: Path | None,
    wandb: str,
    device: str,
    threads: int,
    force: bool,
    accept_stale: bool,
    quiet: bool,
    overrides: tuple[str, ...],
) -> None:
    """Train, quantize and evaluate one configuration; write its record.

    KEY=VALUE changes any setting (they are described in conf/base.yaml and the other YAML files):

    \b
        cfq-bench run --method lsq budget.avg_bits=4 seed=1
        cfq-bench run --method cfq method.eta=2 method.target=favourable
        cfq-bench run --data german quantization.input_blocks=true

    The same configuration a second time is answered from its record, unless its code or its data
    have changed since: a stale record is run again.
    """  # noqa: D301 (click reads the backspace character)
    from cfq_bench.config.loader import load_settings
    from cfq_bench.tracking.agent import sweep_overrides

    settings = load_settings(
        method,
        data,
        backbone=backbone,
        teacher=teacher,
        solver=solver,
        actions=actions,
        regime=regime,
        overrides=[*overrides, *sweep_overrides()],
        conf_dir=conf_dir,
    )
    from cfq_bench.cli.run import run_and_print

    code = run_and_print(
        settings,
        results_dir=results_dir,
        cache_dir=cache_dir,
        data_dir=data_dir,
        wandb=wandb,
        device=device,
        threads=threads,
        force=force,
        accept_stale=accept_stale,
        quiet=quiet,
    )
    sys.exit(code)


main.add_command(data)
main.add_command(dashboard)
main.add_command(wandb_workspace)
main.add_command(sweep)
main.add_command(report)
main.add_command(results)
main.add_command(reproduce)


@main.command()
@click.argument("name", required=False, metavar="[SUITE]")
@click.option("--list", "listed", is_flag=True, help="Show the suites: runs and minutes of each.")
@click.option(
    "--executor",
    type=click.Choice(["local", "ray", "submitit"]),
    default="local",
    show_default=True,
    help="Where workers run: this machine, a Ray cluster, SLURM jobs.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Runs at once.  [default: the cores]")
@click.option("--address", default="auto", show_default=True, help="ray: the cluster, or local.")
@click.option(
    "--cluster",
    type=click.Choice(["slurm", "local"]),
    default="slurm",
    show_default=True,
    help="submitit: SLURM, or processes of this machine.",
)
@click.option("--seeds", help="Only these seeds, such as 0,1.")
@click.option("--only", multiple=True, help="AXIS=VALUE or row=LABEL: only these (repeat it).")
@click.option("--retry-failed", is_flag=True, help="Run again what has failed before.")
@click.option("--accept-stale", is_flag=True, help="Take records of other code or data.")
@click.option("--conf-dir", type=FOLDER, help="Your own folder of YAML files, searched first.")
@click.option("--data-dir", type=FOLDER, help="Raw data files.  [default: $CFQ_BENCH_DATA]")
@click.option("--results-dir", type=FOLDER, default="results", show_default=True)
@click.option(
    "--cache-dir", type=FOLDER, help="Teachers and their actions.  [default: the user cache]"
)
@click.option(
    "--wandb",
    type=click.Choice(["auto", "online", "offline", "disabled"]),
    default="auto",
    show_default=True,
    help="As for cfq-bench run: one W&B run per run.",
)
@click.option("--device", default="cpu", show_default=True, help="A torch device, such as cuda.")
def suite(
    name: str | None,
    listed: bool,
    executor: str,
    workers: int | None,
    address: str,
    cluster: str,
    seeds: str | None,
    only: tuple[str, ...],
    retry_failed: bool,
    accept_stale: bool,
    conf_dir: Path | None,
    data_dir: Path | None,
    results_dir: Path,
    cache_dir: Path | None,
    wandb: str,
    device: str,
) -> None:
    """Run a named grid, conf/suite/<SUITE>.yaml: the runs that have no record yet, or a stale one.

    \b
        cfq-bench suite --list
        cfq-bench suite smoke
        cfq-bench suite table1 --workers 4 --only data=compas --seeds 0,1

    An interrupted suite goes on where it was; several machines may run the same one on a shared
    --results-dir. A failed run is a record with its reason and is run again with --retry-failed
    alone; a worker that is killed is replaced, and its run taken over once. Exit code 1: a run
    failed.
    """  # noqa: D301 (click reads the backspace character)
    import os
    from typing import cast

    from cfq_bench.cli.suite import chosen, run_and_report, suite_list
    from cfq_bench.config.suite import expand, load_suite
    from cfq_bench.errors import UserError
    from cfq_bench.suites.run import ExecutorName, SuiteOptions

    workers = workers or os.cpu_count() or 1
    if listed:
        click.echo(suite_list(results_dir, conf_dir, workers))
        return
    if name is None:
        raise UserError("which suite? `cfq-bench suite --list` shows them")
    loaded = load_suite(name, conf_dir)
    runs = chosen(expand(loaded, conf_dir), seeds, only)
    options = SuiteOptions(
        executor=cast(ExecutorName, executor),
        workers=workers,
        results_dir=results_dir,
        cache_dir=cache_dir,
        data_dir=data_dir,
        wandb=wandb,
        device=device,
        retry_failed=retry_failed,
        accept_stale=accept_stale,
        address=address,
        cluster=cluster,
    )
    sys.exit(run_and_report(loaded.name, runs, options))


@main.command("list")
@click.argument(
    "group",
    required=False,
    type=click.Choice(
        ["method", "allocator", "data", "backbone", "solver", "teacher", "actions", "regime"]
    ),
)
@click.option("--conf-dir", type=FOLDER, help="Your own folder of YAML files, listed too.")
def list_names(group: str | None, conf_dir: Path | None) -> None:
    """Show the methods, bit allocators, data sets, backbones and more, with one line each."""
    from cfq_bench.cli.listing import listing

    click.echo(listing(group, conf_dir))


@main.command()
@click.argument("run_id", metavar="RUN")
@click.option("--results-dir", type=FOLDER, default="results", show_default=True)
def show(run_id: str, results_dir: Path) -> None:
    """Show one record. RUN is its id, or the first digits of it."""
    from cfq_bench.record.identity import Judge
    from cfq_bench.record.store import RecordStore
    from cfq_bench.report.page import record_page

    record = RecordStore(results_dir).find(run_id)
    click.echo(record_page(record, Judge().why_stale(record)), nl=False)


@main.command()
@click.argument("row", metavar="ROW")
@click.option(
    "--run", "run_id", help="A finished run: its settings, and does the action hold on it?"
)
@click.option("--data", help="The data set: a name, or a YAML file.  [default: compas]")
@click.option("--backbone", help="The network.  [default: mlp2]")
@click.option("--solver", help="What searches.  [default: search]")
@click.option("--actions", help="The action set.  [default: the data set's]")
@click.option("--data-dir", type=FOLDER, help="Raw data files.  [default: $CFQ_BENCH_DATA]")
@click.option("--results-dir", type=FOLDER, default="results", show_default=True)
@click.option("--cache-dir", type=FOLDER, help="Teachers.  [default: the user cache]")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
def solve(
    row: str,
    run_id: str | None,
    data: str | None,
    backbone: str | None,
    solver: str | None,
    actions: str | None,
    data_dir: Path | None,
    results_dir: Path,
    cache_dir: Path | None,
    overrides: tuple[str, ...],
) -> None:
    r"""Show one person's action: what to change, at which cost, and whether it holds.

    ROW is a row's id in the table, or the person's raw values as JSON:

    \b
        cfq-bench solve 12 --data german
        cfq-bench solve 12 --run 0edbca
        cfq-bench solve '{"age": 30, "sex": "Male", ...}' --data compas
    """
    from cfq_bench.config.loader import load_settings

    settings = load_settings(
        "fp32",
        data,
        backbone=backbone,
        solver=solver,
        actions=actions,
        overrides=overrides,
    )
    from cfq_bench.cli.solve import solve_and_print

    solve_and_print(settings, row, run_id, data_dir, results_dir, cache_dir)


@main.command()
@click.option("--results-dir", type=FOLDER, default="results", show_default=True)
@click.option("--data", multiple=True, help="Only these data sets (repeat the option).")
@click.option("--method", multiple=True, help="Only these methods (repeat the option).")
@click.option("--markdown", is_flag=True, help="Print Markdown tables.")
def compare(
    results_dir: Path, data: tuple[str, ...], method: tuple[str, ...], markdown: bool
) -> None:
    """Compare records: mean and spread over seeds, one table per data set and setting.

    Rows of a table share everything but the method and the seed, and are compared at the same
    seeds ("3 of 5": a row has more; "own": it lacks some, and is shown on its own). The last column
    is the paired difference of the boundary error to label training.
    """
    from cfq_bench.record.identity import Judge
    from cfq_bench.record.store import RecordStore
    from cfq_bench.report.compare import comparison

    records = RecordStore(results_dir).all()
    stale = Judge().stale(records)
    text = comparison(records, data=data, method=method, markdown=markdown, stale=stale)
    click.echo(text, nl=False)
