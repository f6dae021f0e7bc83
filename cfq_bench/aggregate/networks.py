"""Which rows of a suite are the same networks under two names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from cfq_bench.aggregate.places import Setting
from cfq_bench.results.collect import Result

_NOT_OF_THE_NETWORK = ("time/", "robust/time_ratio")


@dataclass(frozen=True)
class Same:
    """Two rows that are the same networks on some data sets.

    Attributes:
        one: title of its setting, and label of the row.
        other: the same of the other row.
        data: the data sets.
        everywhere: whether these are all on which both are.
    """

    one: tuple[str, str]
    other: tuple[str, str]
    data: tuple[str, ...]
    everywhere: bool


def same_networks(settings: Sequence[Setting]) -> list[Same]:
    """Pairs of quantized rows that differ in their names alone, in the suite's order."""
    rows = [
        (setting, row)
        for setting in settings
        for row in setting.rows
        if not setting.full_precision(row)
    ]
    found = []
    for (first, one), (second, other) in combinations(rows, 2):
        both = [
            data
            for data, place in first.places.items()
            if one in place.results
            and data in second.places
            and other in second.places[data].results
        ]
        data = tuple(
            name
            for name in both
            if same_runs(first.places[name].results[one], second.places[name].results[other])
        )
        if data:
            pair = (first.title, one), (second.title, other)
            found.append(Same(*pair, data, len(data) == len(both)))
    return found


def same_runs(one: Mapping[int, Result], other: Mapping[int, Result]) -> bool:
    """Whether two rows have the same bits per layer and metrics at every seed that both have.

    Times aside: the same network may have taken longer.
    """
    seeds = one.keys() & other.keys()
    return bool(seeds) and all(_measured(one[seed]) == _measured(other[seed]) for seed in seeds)


def _measured(result: Result) -> tuple[Any, dict[str, float | None]]:
    record = result.record
    metrics = {
        key: value
        for key, value in record.metrics.items()
        if not key.startswith(_NOT_OF_THE_NETWORK)
    }
    return record.details.get("deploy/bits_per_layer"), metrics
