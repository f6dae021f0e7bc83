"""A suite's own tables: one for every cell, and an overview over data sets."""

from collections.abc import Iterable, Mapping, Sequence

from cfq_bench.aggregate.comparisons import Compared
from cfq_bench.aggregate.numbers import (
    MISSING,
    form_of,
    format_metric,
    label_of,
    signed,
    spread_of,
    written,
)
from cfq_bench.aggregate.places import Place
from cfq_bench.aggregate.rows import PAIRED
from cfq_bench.report.layout import Cell, Number, Table, file_name
from cfq_bench.statistics.paired import Difference
from cfq_bench.statistics.rates import certain_bounds
from cfq_bench.statistics.seeds import seeds_text
from cfq_bench.statistics.summary import Summary, mean_and_sd

OVERVIEW = ("task/acc", "task/favourable_drift", "recourse/crg_abs", "deploy/avg_bits")
"""Shown beside the boundary error, as means over data sets."""
FAILURES = (PAIRED, "recourse/vd", "recourse/vd_adverse")
"""Shares of failures: 0 in every seed is not 0."""


def cell_table(compared: Compared, place: Place, metrics: Sequence[str]) -> Table:
    """All rows of one cell: mean ± standard deviation over seeds, and the paired difference."""
    rows = place.rows
    best = {metric: rows.best(metric) for metric in metrics}
    head = ["row", "seeds", *map(label_of, metrics)]
    if place.baseline is not None:
        head.append(f"{label_of(PAIRED)}: difference to {place.baseline}")
    lines, numbers, differences = [], [], {}
    for row in rows.by_seed:
        line = [Cell(row), Cell(rows.count_text(row))]
        line += [Cell(_spread(place, row, m), row in best[m]) for m in metrics]
        numbers += [_number(place, row, m) for m in metrics]
        if place.baseline is not None:
            found = compared.by_data.get(row, {}).get(place.data)
            if found is not None:
                differences[row] = found
                numbers.append(_difference_number(place, row, found))
            line.append(Cell(difference_text(found, len(rows.seeds))))
        lines.append(line)
    words = ", ".join(filter(None, [place.data, compared.setting.title]))
    notes = [
        f"Shared: {', '.join(place.shared)}.",
        *_seed_notes(place),
        *_interval_notes(differences),
        *_failure_notes([place], FAILURES),
    ]
    name = file_name(place.data, *(value for _, value in place.axes))
    return Table(name, words, head, lines, notes, numbers)


def overview_table(compared: Compared) -> Table:
    """All rows of a setting: the boundary error on every data set, and what it costs elsewhere."""
    setting = compared.setting
    best = {data: place.rows.best(PAIRED) for data, place in setting.places.items()}
    head = ["row", *(f"{label_of(PAIRED)}, {data}" for data in setting.places)]
    if setting.baseline is not None:
        head.append(f"mean difference to {setting.baseline}")
    head += [f"mean {label_of(metric)}" for metric in OVERVIEW]
    lines: list[list[Cell]] = []
    numbers: list[dict[str, Number]] = []
    for row in setting.rows:
        line = [Cell(row)]
        for data, place in setting.places.items():
            there = row in place.results
            text = _spread(place, row, PAIRED) if there else MISSING
            line.append(Cell(text, row in best[data]))
            if there:
                numbers.append(_number(place, row, PAIRED))
        seeds = compared.seeds_over_data(row)
        if setting.baseline is not None:
            found = compared.comparisons.get(row)
            line.append(Cell(difference_text(found.difference if found else None, len(seeds))))
        line += [Cell(_mean_over(compared, row, metric, seeds)) for metric in OVERVIEW]
        lines.append(line)
    name = file_name("overview", *(value for _, value in setting.axes))
    caption = "Boundary error by data set" + (f": {setting.title}" if setting.title else "")
    places = list(setting.places.values())
    notes = [*_overview_notes(compared), *_failure_notes(places)]
    return Table(name, caption, head, lines, notes, numbers)


def difference_text(difference: Difference | None, expected: int) -> str:
    """Mean difference and its 95 % interval, and over how many seeds where some are missing.

    >>> difference_text(None, 5)
    '-'
    """
    if difference is None:
        return MISSING
    if difference.interval is None:
        return f"{signed(difference.mean)} (one seed)"
    count = len(difference.seeds)
    few = f" ({count} seeds)" if count < expected else ""
    return f"{signed(difference.mean)} [{interval_text(difference)}]{few}"


def interval_text(difference: Difference) -> str:
    """The ends of a difference's interval."""
    assert difference.interval is not None
    return f"{signed(difference.interval.low)} to {signed(difference.interval.high)}"


def _spread(place: Place, row: str, metric: str) -> str:
    """Mean ± standard deviation over the seeds that a row is shown on."""
    values = list(place.rows.values(row, metric).values())
    return spread_of(values, form_of(metric), len(place.rows.used(row)))


def _mean_over(compared: Compared, row: str, metric: str, seeds: Iterable[int]) -> str:
    """Mean over data sets of the means over the same seeds, and of how many runs if not of all."""
    wanted, means, known = list(seeds), [], 0
    places = [place for place in compared.setting.places.values() if row in place.results]
    for place in places:
        values = place.rows.by_seed[row]
        found = [v for seed in wanted if (v := values.get(seed, {}).get(metric)) is not None]
        known += len(found)
        means += [mean_and_sd(found)[0]] if found else []
    if not means:
        return MISSING
    total = len(wanted) * len(places)
    return format_metric(metric, mean_and_sd(means)[0]) + (
        f" ({known} of {total})" if known < total else ""
    )


def _seed_notes(place: Place) -> list[str]:
    """Which rows are shown on which seeds, where they are not all the same."""
    rows = place.rows
    if len({rows.own(row) for row in rows.by_seed}) == 1:
        return []
    own = [row for row in rows.by_seed if not rows.whole(row)]
    notes = [f"Compared on {seeds_text(rows.seeds)}, which most rows have."]
    if own:
        parts = [f"{row} ({seeds_text(rows.used(row))})" for row in own]
        notes.append(
            f"On seeds of their own, never marked as best: {', '.join(parts)}; their differences "
            "are over the seeds that the baseline has too."
        )
    return notes


def _interval_notes(differences: Mapping[str, Difference]) -> list[str]:
    """Where rows of people could not refine an interval."""
    over_seeds = [
        row for row, found in differences.items() if found.interval and not found.over_rows
    ]
    if over_seeds and len(over_seeds) < len(differences):
        return [f"Intervals over seeds alone, rows were not kept: {', '.join(over_seeds)}."]
    return ["Intervals are over seeds alone: rows were not kept."] if over_seeds else []


def _overview_notes(compared: Compared) -> list[str]:
    """What the last columns are means over."""
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for row in compared.setting.rows:
        by_seeds.setdefault(compared.seeds_over_data(row), []).append(row)
    if len(by_seeds) == 1:
        (seeds,) = by_seeds
        where = f"at {seeds_text(seeds)}" if seeds else "at no common seed"
    else:
        parts = [
            f"{', '.join(rows)}: {seeds_text(seeds) if seeds else 'none'}"
            for seeds, rows in by_seeds.items()
        ]
        where = f"at the seeds that these have in common ({'; '.join(parts)})"
    notes = [
        f"The mean difference and the means after it are over the data sets that have the row, "
        f"{where}."
    ]
    places = compared.setting.places
    own = {data: place.rows.seeds for data, place in places.items()}
    if len(set(own.values())) > 1:
        parts = [f"{data}: {seeds_text(seeds)}" for data, seeds in own.items()]
        notes.append(f"Data sets differ in their seeds ({'; '.join(parts)}).")
    parts = [
        f"{row} on {data} ({seeds_text(place.rows.used(row))})"
        for data, place in places.items()
        for row in place.results
        if not place.rows.whole(row)
    ]
    if parts:
        notes.append(f"On seeds of their own, never marked as best: {', '.join(parts)}.")
    return notes


def _failure_notes(places: Sequence[Place], metrics: Sequence[str] = (PAIRED,)) -> list[str]:
    """How large rates may be that are 0 in every seed.

    A row without a boundary error is named for that alone, and not for both of its halves. The
    teacher is not named: as f_q it has no failures by definition.
    """
    parts = []
    for place in places:
        named = f" on {place.data}" if len(places) > 1 else ""
        said: set[str] = set()
        for metric in metrics:
            by_bound: dict[str, list[str]] = {}
            for row in place.results:
                bounds = _pooled_bounds(place, row, metric)
                if bounds is None or bounds[0] > 0.0 or row in said or place.is_teacher(row):
                    continue
                by_bound.setdefault(written(bounds[1], "rate"), []).append(row)
            said |= {row for rows in by_bound.values() for row in rows}
            parts += [
                f"{label_of(metric)} of {', '.join(rows)}{named}: {high}"
                for high, rows in by_bound.items()
            ]
    if not parts:
        return []
    bounds_text = "; ".join(parts)
    return [
        f"0 in every seed is not 0: with people pooled over seeds, Wilson's 95 % upper bounds are "
        f"{bounds_text}."
    ]


def _pooled_bounds(place: Place, row: str, metric: str) -> tuple[float, float] | None:
    """Wilson's bounds of a rate that is 0, or 1, at every seed that the row is shown on."""
    values = set(place.rows.values(row, metric).values())
    if metric not in FAILURES or len(values) != 1:
        return None
    counts = {name: place.count(row, name) for name in FAILURES}
    return certain_bounds(metric, values.pop(), counts)


def _number(place: Place, row: str, metric: str) -> dict[str, Number]:
    summary: Summary | None = place.rows.summary(row, metric)
    interval = summary.interval if summary else None
    bounds = _pooled_bounds(place, row, metric)
    return {
        **_where(place, row),
        "metric": metric,
        "mean": summary.mean if summary else None,
        "sd": summary.std if summary else None,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "seeds": len(summary.seeds) if summary else 0,
        "of_seeds": len(place.results[row]),
        "wilson_low": bounds[0] if bounds else None,
        "wilson_high": bounds[1] if bounds else None,
    }


def _difference_number(place: Place, row: str, difference: Difference) -> dict[str, Number]:
    interval = difference.interval
    return {
        **_where(place, row),
        "metric": f"{PAIRED} minus {place.baseline}'s",
        "mean": difference.mean,
        "sd": difference.std,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "seeds": len(difference.seeds),
        "of_seeds": len(place.results[row]),
    }


def _where(place: Place, row: str) -> dict[str, Number]:
    axes = {axis: value for axis, value in place.axes if axis not in ("row", "metric")}
    return {"data": place.data, **axes, "row": row}
