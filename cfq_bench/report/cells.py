"""A suite's own tables: one for every cell, and an overview over data sets."""

from collections.abc import Sequence

import numpy as np

from cfq_bench.evaluation.keys import metric_info
from cfq_bench.report.comparisons import METRIC, Compared
from cfq_bench.report.layout import Cell, Number, Table, file_name
from cfq_bench.report.page import format_metric
from cfq_bench.report.places import Place, Setting, label_of
from cfq_bench.statistics.paired import Difference
from cfq_bench.statistics.summary import Summary, summarize

OVERVIEW = ("task/acc", "task/favourable_drift", "recourse/crg_abs", "deploy/avg_bits")
"""Shown beside the boundary error, as means over data sets."""


def cell_table(compared: Compared, place: Place, metrics: Sequence[str]) -> Table:
    """All rows of one cell: mean ± standard deviation over seeds, and the paired difference."""
    setting = compared.setting
    baseline = setting.baseline if setting.baseline in place.rows else None
    summaries = {row: _summaries(place, row, metrics) for row in place.rows}
    best = _best_marks(place, summaries, metrics)
    head = ["row", "seeds", *map(label_of, metrics)]
    if baseline is not None:
        head.append(f"{label_of(METRIC)}: difference to {baseline}")
    lines, numbers, differences = [], [], {}
    for row in place.rows:
        line = [Cell(row), Cell(str(len(place.rows[row])))]
        line += [Cell(spread(m, summaries[row][m]), (row, m) in best) for m in metrics]
        numbers += [_number(place, row, m, summaries[row][m]) for m in metrics]
        if baseline is not None:
            found = compared.by_data.get(row, {}).get(place.data)
            if found is not None:
                differences[row] = found
                numbers.append(_difference_number(place, row, baseline, found))
            line.append(Cell(difference_text(found)))
        lines.append(line)
    words = ", ".join(filter(None, [place.data, setting.title]))
    notes = [f"Shared: {', '.join(place.shared)}.", *_seed_notes(place, differences)]
    name = file_name(place.data, *(value for _, value in place.axes))
    return Table(name, words, head, lines, notes, numbers)


def overview_table(compared: Compared) -> Table:
    """All rows of a setting: the boundary error on every data set, and what it costs elsewhere."""
    setting = compared.setting
    data_sets = list(setting.places)
    errors = {
        data: {row: _summaries(place, row, [METRIC])[METRIC] for row in place.rows}
        for data, place in setting.places.items()
    }
    best = {
        data: _lowest(
            {r: s for r, s in found.items() if not setting.places[data].full_precision(r)}
        )
        for data, found in errors.items()
    }
    head = ["row", *(f"{label_of(METRIC)}, {data}" for data in data_sets)]
    if setting.baseline is not None:
        head.append(f"mean difference to {setting.baseline}")
    head += [f"mean {label_of(metric)}" for metric in OVERVIEW]
    lines: list[list[Cell]] = []
    numbers: list[dict[str, Number]] = []
    for row in setting.rows:
        line = [Cell(row)]
        for data in data_sets:
            summary = errors[data].get(row)
            line.append(Cell(spread(METRIC, summary), row in best[data]))
            numbers.append(_number(setting.places[data], row, METRIC, summary))
        if setting.baseline is not None:
            found = compared.comparisons.get(row)
            line.append(Cell(difference_text(found.difference if found else None)))
        line += [
            Cell(format_metric(metric, _mean_over(setting, row, metric))) for metric in OVERVIEW
        ]
        lines.append(line)
    name = file_name("overview", *(value for _, value in setting.axes))
    caption = "Boundary error by data set" + (f": {setting.title}" if setting.title else "")
    notes = ["Means of the last columns are over the data sets that have the row."]
    return Table(name, caption, head, lines, notes, numbers)


def spread(metric: str, summary: Summary | None) -> str:
    """Mean ± standard deviation; the mean alone with one seed, - without a value."""
    if summary is None:
        return "-"
    mean = format_metric(metric, summary.mean)
    if summary.std is None:
        return mean
    return f"{mean} ± {format_metric(metric, summary.std).lstrip('+')}"


def difference_text(difference: Difference | None) -> str:
    """Mean difference and its 95 % interval.

    >>> difference_text(None)
    '-'
    """
    if difference is None:
        return "-"
    if difference.interval is None:
        return f"{signed(difference.mean)} (one seed)"
    return f"{signed(difference.mean)} [{interval_text(difference)}]"


def interval_text(difference: Difference) -> str:
    """The ends of a difference's interval."""
    assert difference.interval is not None
    return f"{signed(difference.interval.low)} to {signed(difference.interval.high)}"


def signed(value: float) -> str:
    """Three decimals with a sign, but no sign at 0.

    >>> signed(-0.12), signed(0.00001), signed(-0.00001)
    ('-0.120', '0.000', '0.000')
    """
    text = f"{value:+.3f}"
    return "0.000" if float(text) == 0 else text


def _summaries(place: Place, row: str, metrics: Sequence[str]) -> dict[str, Summary | None]:
    found = {}
    for metric in metrics:
        values = place.by_seed(row, metric)
        found[metric] = summarize(values, values)
    return found


def _best_marks(
    place: Place, summaries: dict[str, dict[str, Summary | None]], metrics: Sequence[str]
) -> set[tuple[str, str]]:
    """(row, metric) of the best means among quantized rows; of none where all are alike.

    Means that print alike are alike. FP32 would win every column of what quantization breaks.
    """
    marks = set()
    rows = [row for row in summaries if not place.full_precision(row)]
    for metric in metrics:
        direction = metric_info(metric).higher_is_better
        if direction is None:
            continue
        printed = {
            row: _printed(metric, summary.mean)
            for row in rows
            if (summary := summaries[row][metric]) is not None
        }
        if len(set(printed.values())) > 1:
            top = (max if direction else min)(printed.values())
            marks |= {(row, metric) for row, value in printed.items() if value == top}
    return marks


def _lowest(found: dict[str, Summary | None]) -> set[str]:
    printed = {row: _printed(METRIC, s.mean) for row, s in found.items() if s is not None}
    if len(set(printed.values())) < 2:
        return set()
    return {row for row, value in printed.items() if value == min(printed.values())}


def _printed(metric: str, value: float) -> float:
    """The value as rounded as it is printed."""
    return float(format_metric(metric, value).removesuffix(" s").replace(",", ""))


def _seed_notes(place: Place, differences: dict[str, Difference]) -> list[str]:
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for row, runs in place.rows.items():
        by_seeds.setdefault(tuple(sorted(runs)), []).append(row)
    notes = []
    if len(by_seeds) > 1:
        parts = [f"{seeds_text(seeds)}: {', '.join(rows)}" for seeds, rows in by_seeds.items()]
        notes.append(
            f"Rows differ in their seeds ({'; '.join(parts)}): differences are over common seeds."
        )
    over_seeds = [
        row for row, found in differences.items() if found.interval and not found.over_rows
    ]
    if over_seeds and len(over_seeds) < len(differences):
        notes.append(f"Intervals over seeds alone, rows were not kept: {', '.join(over_seeds)}.")
    elif over_seeds:
        notes.append("Intervals are over seeds alone: rows were not kept.")
    return notes


def seeds_text(seeds: Sequence[int]) -> str:
    """Seeds as a person writes them.

    >>> seeds_text((0, 1, 2, 3, 4)), seeds_text((0, 2)), seeds_text((7,))
    ('seeds 0-4', 'seeds 0, 2', 'seed 7')
    """
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]}-{seeds[-1]}"
    return f"seeds {', '.join(map(str, seeds))}"


def _mean_over(setting: Setting, row: str, metric: str) -> float | None:
    """Mean over data sets of the means over seeds."""
    by_data = [list(p.by_seed(row, metric).values()) for p in setting.places.values()]
    means = [np.mean(values) for values in by_data if values]
    return float(np.mean(means)) if means else None


def _number(place: Place, row: str, metric: str, summary: Summary | None) -> dict[str, Number]:
    interval = summary.interval if summary else None
    return {
        **_where(place, row),
        "metric": metric,
        "mean": summary.mean if summary else None,
        "sd": summary.std if summary else None,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "seeds": len(summary.seeds) if summary else 0,
    }


def _difference_number(
    place: Place, row: str, baseline: str, difference: Difference
) -> dict[str, Number]:
    interval = difference.interval
    return {
        **_where(place, row),
        "metric": f"{METRIC} minus {baseline}'s",
        "mean": difference.mean,
        "sd": float(np.std(difference.by_seed, ddof=1)) if len(difference.by_seed) > 1 else None,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "seeds": len(difference.seeds),
    }


def _where(place: Place, row: str) -> dict[str, Number]:
    axes = {axis: value for axis, value in place.axes if axis not in ("row", "metric")}
    return {"data": place.data, **axes, "row": row}
