"""What an evaluation leaves: scalars with their row counts, and per-row results."""

from dataclasses import dataclass, replace

import pandas as pd
from torch import Tensor

from cfq_bench.actions.outcome import Solution


class Tally:
    """Collects scalars with the number of rows behind them."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def add(self, key: str, value: Tensor | float, rows: int) -> None:
        """Keep a scalar; NaN where no rows are behind it."""
        self.metrics[key] = float(value) if rows else float("nan")
        self.counts[key] = rows


@dataclass(frozen=True)
class Evaluation:
    """What a record keeps of an evaluation.

    Attributes:
        metrics: by key; NaN where undefined.
        counts: rows behind each rate.
        rows: one line per test row and direction.
        on_q: the solver's own actions on f_q, for the rows of the favourable direction.
        solve_s: seconds that it took to find them.
    """

    metrics: dict[str, float]
    counts: dict[str, int]
    rows: pd.DataFrame
    on_q: Solution
    solve_s: float

    def extended(self, tally: "Tally") -> "Evaluation":
        """With more metrics."""
        return replace(
            self,
            metrics={**self.metrics, **tally.metrics},
            counts={**self.counts, **tally.counts},
        )
