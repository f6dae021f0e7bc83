"""``cfq-bench run``: progress bars, the result, the exit code."""

from pathlib import Path
from typing import Self, cast

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from cfq_bench.config.settings import Settings
from cfq_bench.record.identity import answering
from cfq_bench.record.store import RecordStore
from cfq_bench.report.page import result_table
from cfq_bench.tracking.agent import under_agent
from cfq_bench.tracking.mode import Mode


def run_and_print(
    settings: Settings,
    *,
    results_dir: Path,
    cache_dir: Path | None,
    data_dir: Path | None,
    wandb: str,
    device: str,
    threads: int,
    force: bool,
    accept_stale: bool,
    quiet: bool,
) -> int:
    """Run, or answer from the record; print the result.

    Returns:
        The exit code: 0, or 1 for a failed run.
    """
    store = RecordStore(results_dir)
    record, stale = None, None
    if not force:
        config = settings.model_dump(mode="json")
        record, stale = answering(store, config, data_dir, accept_stale)
    if stale is not None:
        click.echo(stale, err=True)
    # Answered before torch is imported; a W&B sweep still waits for the run that it asked for.
    if record is not None and not under_agent():
        click.echo(result_table(record, store.path(record.run_id)), nl=False)
        if not quiet:
            click.echo(
                "answered from the record; --force runs it again",
                err=True,
            )
        return 0

    from cfq_bench.experiment import Options, answer

    console = Console(stderr=True)
    with RichBar(console, shown=not quiet and console.is_terminal) as bar:
        options = Options(
            results_dir=results_dir,
            cache_dir=cache_dir,
            data_dir=data_dir,
            wandb=cast(Mode, wandb),
            force=force or (stale is not None and record is None),  # it was judged just now
            accept_stale=accept_stale,
            device=device,
            threads=threads,
            progress=bar,
        )
        found = answer(settings, options)
    click.echo(result_table(found.record, found.path), nl=False)
    if not quiet and found.note is not None:
        click.echo(found.note, err=True)
    return 1 if found.record.status == "failed" else 0


class RichBar:
    """One bar per piece of work, on standard error, gone when the work is done."""

    def __init__(self, console: Console, shown: bool) -> None:
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not shown,
        )
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()

    def start(self, what: str, total: int) -> None:
        """Begin a piece of work."""
        self.stop()
        self.task = self.bars.add_task(what, total=total)

    def advance(self, steps: int) -> None:
        """Move the current bar."""
        if self.task is not None:
            self.bars.advance(self.task, steps)

    def stop(self) -> None:
        """Remove the current bar."""
        if self.task is not None:
            self.bars.remove_task(self.task)
            self.task = None
