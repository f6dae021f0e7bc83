"""Peak memory of every method's training beside full-precision training, on the widest table."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.memory import peaks_of
from benchmarks.task import at_hand
from benchmarks.timing import Measurement
from cfq_bench.config.loader import known_names

SHORT = ("data.fit.teacher_epochs=1", "data.fit.epochs=1")
"""A peak is reached within one epoch."""


def measure(repeats: int) -> Iterator[Measurement]:
    """A peak has no spread worth repeating for; `repeats` is not used."""
    if not at_hand("adult"):
        print("skipped training_memory: Adult's raw files are not at hand", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        teacher = peaks_of("teacher", "adult", Path(folder), SHORT)
        base = teacher["done_mib"] - teacher["imported_mib"]
        for name in known_names("method"):
            if name == "fp32":
                continue
            peaks = peaks_of(name, "adult", Path(folder), SHORT)
            own = peaks["done_mib"] - peaks["imported_mib"]
            yield Measurement(
                f"peak memory, {name} / FP32 training, adult",
                own / base,
                "x",
                limit=2.0,
                note=f"over imports: {own:.0f} MiB and {base:.0f} MiB",
            )
