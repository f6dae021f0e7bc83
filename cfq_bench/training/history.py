"""What a training logs, kept beside the record: W&B's offline file has no public reader."""

from typing import Any

import pandas as pd
from lightning.pytorch.loggers import Logger

MOST_POINTS = 200
"""Points kept of each quantity; of a longer history every second, third, ... one."""


class History(Logger):
    """A Lightning logger that remembers, and writes no files."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[str, int, float]] = []

    @property
    def name(self) -> None:
        """Lightning would name a folder by it."""

    @property
    def version(self) -> None:
        """As for `name`."""

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """The record has them."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Remember one row; Lightning's count of epochs is left out."""
        self.points += [
            (name, step or 0, float(value)) for name, value in metrics.items() if name != "epoch"
        ]

    def frame(self) -> pd.DataFrame | None:
        """Columns `name`, `step` (optimizer step of the phase) and `value`; None if empty."""
        if not self.points:
            return None
        frame = pd.DataFrame(self.points, columns=["name", "step", "value"])
        sizes = frame.groupby("name")["step"].transform("size")
        every = (sizes - 1) // MOST_POINTS + 1
        return frame[frame.groupby("name").cumcount() % every == 0].reset_index(drop=True)
