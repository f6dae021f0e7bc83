"""``cfq-bench data``: what data sets there are, getting their files, checking and drafting."""

from pathlib import Path

import click

from cfq_bench.cli.options import FILE, FOLDER

_conf_dir = click.option("--conf-dir", type=FOLDER, help="Your own folder of YAML files.")
_data_dir = click.option(
    "--data-dir", type=FOLDER, help="Raw data files.  [default: $CFQ_BENCH_DATA]"
)
_actions = click.option("--actions", help="The action set.  [default: the data set's]")


@click.group()
def data() -> None:
    """Data sets: what there is, what is in them, and a table of your own.

    NAME is a data set's name or the path of a YAML file.

    \b
        cfq-bench data list
        cfq-bench data describe compas
        cfq-bench data init loans.csv
        cfq-bench data check ./loans.yaml
    """  # noqa: D301 (click reads the backspace character)


@data.command("list")
@_conf_dir
@_data_dir
def list_data(conf_dir: Path | None, data_dir: Path | None) -> None:
    """Show the data sets, and where the files of each are."""
    from cfq_bench.report.data import data_list

    click.echo(data_list(conf_dir, data_dir), nl=False)


@data.command()
@click.argument("file", type=FILE)
@click.option("--target", help="The label column.  [default: guessed]")
@click.option("--favourable", help="Its value that a person hopes for.  [default: guessed]")
@click.option("--force", is_flag=True, help="Overwrite the YAML files.")
def init(file: Path, target: str | None, favourable: str | None, force: bool) -> None:
    """Draft the YAML files of a table of your own (CSV and the like, or parquet), beside it.

    Kinds, transforms, the target and what a person may change are guesses; comments in the files
    say what to review.
    """
    from cfq_bench.config.tablefile import TABLE_FILES
    from cfq_bench.data.draft import draft
    from cfq_bench.data.formats import look
    from cfq_bench.errors import UserError
    from cfq_bench.files import write_atomic

    stem = file.name.split(".")[0]
    data_path, actions_path = (file.with_name(f"{stem}{end}.yaml") for end in ("", "-actions"))
    for path in (data_path, actions_path):
        if path.exists() and not force:
            raise UserError(f"{path} exists already: review it, or overwrite it with --force")
    if not file.name.lower().endswith(TABLE_FILES):
        raise UserError(
            f"{file}: the name must end in .csv, .tsv, .tab or .txt (also with .gz, .xz, .bz2 or "
            ".zip behind), or in .parquet"
        )
    found = draft(look(file, target), file.name, actions_path.name, target, favourable)
    write_atomic(data_path, found.data.encode())
    write_atomic(actions_path, found.actions.encode())
    click.echo(f"wrote {data_path} and {actions_path}; review the comments in both")
    for note in found.notes:
        click.echo(f"  {note}")
    click.echo(f"next: cfq-bench data check {data_path}; cfq-bench run --data {data_path}")


@data.command()
@click.argument("name")
@_conf_dir
@_data_dir
def fetch(name: str, conf_dir: Path | None, data_dir: Path | None) -> None:
    """Get the raw files of a data set into the user cache, verified by their checksums."""
    from cfq_bench.config.loader import load_settings
    from cfq_bench.data.sources import named_data_dir, obtain_all

    settings = load_settings(data=name, conf_dir=conf_dir).data
    found = obtain_all(settings.loader, named_data_dir(data_dir))
    for part, path in found.items():
        click.echo(f"{part}: {path}")
    if not found:
        click.echo(f"{settings.name}: nothing to fetch")


@data.command()
@click.argument("name")
@_actions
@_conf_dir
@_data_dir
def check(name: str, actions: str | None, conf_dir: Path | None, data_dir: Path | None) -> None:
    """Check a data set and its action set; say what is wrong in one line, exit code 2."""
    from cfq_bench.config.loader import load_settings
    from cfq_bench.report.data import check_page

    settings = load_settings(data=name, actions=actions, conf_dir=conf_dir)
    click.echo(check_page(settings, data_dir), nl=False)


@data.command()
@click.argument("name")
@_actions
@_conf_dir
@_data_dir
def describe(name: str, actions: str | None, conf_dir: Path | None, data_dir: Path | None) -> None:
    """Show rows, features, units, class balance, missing values and the action set."""
    from cfq_bench.config.loader import load_settings
    from cfq_bench.report.data import description

    settings = load_settings(data=name, actions=actions, conf_dir=conf_dir)
    click.echo(description(settings, data_dir), nl=False)
