"""Timing on a busy machine: sides alternate, and ratios are taken pair by pair."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Side = Callable[[], float]
"""Does a piece of work once; returns the seconds that count."""


@dataclass(frozen=True)
class Measurement:
    """One line of the table.

    Attributes:
        name: what is measured.
        value: a ratio, seconds, rows per second and the like; `unit` says which.
        unit: ``x`` for ratios.
        repeats: every repeat of every side, in seconds.
        limit: None for lines that only inform.
        at_least: the limit is a lower bound.
        aim: what one would like beyond the limit.
        note: anything to know when reading the line.
    """

    name: str
    value: float
    unit: str
    repeats: Mapping[str, list[float]] = field(default_factory=dict)
    limit: float | None = None
    at_least: bool = False
    aim: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the limit is met; None without one."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def wall(work: Callable[[], object]) -> Side:
    """A side that counts the wall time of all its work."""

    def timed() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return timed


def interleave(sides: Mapping[str, Side], repeats: int, warmups: int = 1) -> dict[str, list[float]]:
    """Measure the sides alternately, so that load on the machine meets all of them.

    Args:
        sides: what to measure, by name.
        repeats: rounds that count; every second one runs in reverse order.
        warmups: rounds before them that do not.

    Returns:
        Seconds of each side, in order of rounds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(-warmups, repeats):
        for name in list(sides) if turn % 2 == 0 else reversed(list(sides)):
            gc.collect()  # one side's garbage is not another side's time
            taken = sides[name]()
            if turn >= 0:
                seconds[name].append(taken)
    return seconds


def ratio(seconds: Mapping[str, list[float]], over: str, under: str) -> float:
    """Median over rounds of one side's time divided by another's."""
    pairs = zip(seconds[over], seconds[under], strict=True)
    return statistics.median(a / b for a, b in pairs)


def compare(
    name: str,
    seconds: Mapping[str, list[float]],
    over: str,
    under: str,
    *,
    limit: float | None = None,
    aim: float | None = None,
    note: str = "",
) -> Measurement:
    """The line for the ratio of two sides."""
    repeats = {over: seconds[over], under: seconds[under]}
    value = ratio(seconds, over, under)
    return Measurement(name, value, "x", repeats, limit=limit, aim=aim, note=note)
