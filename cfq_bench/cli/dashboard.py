"""``cfq-bench dashboard``: the records as one local page; the same views in W&B."""

import os
from pathlib import Path

import click

from cfq_bench.cli.options import FILE, FOLDER


@click.command()
@click.option("--results-dir", type=FOLDER, default="results", show_default=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="On 127.0.0.1; 0 takes any that is free.",
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--export", "path", type=FILE, help="Write the page to this HTML file instead.")
def dashboard(results_dir: Path, port: int, no_open: bool, path: Path | None) -> None:
    """Show the records as one page: tables, charts, single runs; live while a suite runs.

    The page needs no network, and sends nothing anywhere. Ctrl-C ends it.
    """
    if path is not None:
        from cfq_bench.dashboard.export import export

        click.echo(f"wrote {path}: {export(results_dir, path)} runs")
        return
    import webbrowser

    from cfq_bench.dashboard.server import Dashboard

    with Dashboard(results_dir, port) as server:
        click.echo(f"dashboard of {results_dir}: {server.url} (Ctrl-C ends it)")
        if not no_open:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("", err=True)


@click.command("wandb-workspace")
@click.option("--entity", help="The W&B user or team.  [default: $WANDB_ENTITY]")
@click.option("--project", default="cfq-bench", show_default=True, help="The W&B project.")
@click.option("--print", "shown", is_flag=True, help="Print it as JSON; send nothing.")
def wandb_workspace(entity: str | None, project: str, shown: bool) -> None:
    """Make the dashboard's views a workspace of a W&B project.

    Needs pip install 'cfq-bench[wandb-workspace]', and a W&B key unless --print is given.
    """
    from cfq_bench.dashboard.workspace import as_json, save, workspace
    from cfq_bench.errors import UserError

    entity = entity or os.environ.get("WANDB_ENTITY") or ("entity" if shown else None)
    if entity is None:
        raise UserError("whose W&B project? Give --entity or set WANDB_ENTITY")
    built = workspace(entity, project)
    click.echo(as_json(built) if shown else save(built), nl=not shown)
