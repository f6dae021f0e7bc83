"""The command line as a user meets it, imports included."""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Measurement, Side, interleave, wall

ENTRY = "from cfq_bench.cli.main import main; main()"
MOST_WHOLE_RUNS = 3
"""Repeats of the whole command: it is long enough for load on the machine to even out."""


def measure(repeats: int) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        sides = _first_and_again(Path(folder))
        seconds = interleave(sides, min(repeats, MOST_WHOLE_RUNS), warmups=0)
    yield Measurement(
        "cfq-bench run, empty cache",
        statistics.median(seconds["first"]),
        "s",
        {"first": seconds["first"]},
        limit=30.0,
        note="--method cfq --data compas --wandb offline, with its teacher and evaluation",
    )
    yield Measurement(
        "cfq-bench run, again",
        statistics.median(seconds["again"]),
        "s",
        {"again": seconds["again"]},
        note="the identical command, answered from its record",
    )
    seconds = interleave({"help": wall(lambda: call("--help"))}, max(repeats, 5))
    yield Measurement(
        "cfq-bench --help", statistics.median(seconds["help"]), "s", seconds, limit=0.4
    )


def _first_and_again(folder: Path) -> dict[str, Side]:
    """The same command in a new folder, and once more in the folder of the last first time."""
    used: list[Path] = []

    def run(where: Path) -> None:
        call(
            *("run", "--method", "cfq", "--data", "compas", "--wandb", "offline"),
            *("--results-dir", str(where / "results"), "--cache-dir", str(where / "cache")),
        )

    def first() -> float:
        used.append(folder / str(len(used)))
        return wall(lambda: run(used[-1]))()

    def again() -> float:
        if not used:  # reversed rounds start with this side
            first()
        return wall(lambda: run(used[-1]))()

    return {"first": first, "again": again}


def call(*arguments: str) -> None:
    """Run the command in a fresh interpreter.

    Raises:
        RuntimeError: it failed; a time would mean nothing.
    """
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"cfq-bench {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
