"""The paper's tables beside ours: its value, ours, the difference, a verdict.

The paper's *spread* is two of its standard deviations, or, where it prints none, the rounding of
its last digit. *Ours* is the 95 % interval over our seeds; half of its width is how far we can
tell. A verdict is one of

- ``agrees``: the paper's mean lies within its spread of our mean, and ours is small enough to tell:
  half of its width is within the paper's spread, or within the gap between the paper's row and the
  paper's baseline row;
- ``same order`` or ``opposite order``: the paper's mean lies outside, by more than its spread and
  our half width together; our row differs clearly from our baseline row (paired over seeds), and
  the paper's row stands on the same (the other) side of its own baseline;
- ``differs``: the paper's mean lies outside, and there is no order to compare: the baseline itself,
  a tie in the paper, or rows of ours that do not differ clearly;
- ``cannot tell``: our seeds decide none of these, as one seed never does;
- ``not run``: our suite has such a row, and no finished run of it;
- ``no counterpart``: our suites have nothing like it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cfq_bench.aggregate.numbers import format_metric, signed, spread_text
from cfq_bench.report.layout import Cell, Number, Table
from cfq_bench.report.paper import PaperValue, paper_table
from cfq_bench.report.paper_map import PaperMap, Source, Where, notes_on, paper_map
from cfq_bench.results.collect import Result
from cfq_bench.statistics.paired import paired_difference
from cfq_bench.statistics.summary import Summary, summarize

HEAD = (
    *("data", "setting", "row", "metric", "paper", "ours", "difference", "verdict"),
    "beside our VD",
)
BESIDE_VD = {
    "recourse/vd_adverse": "VD adverse",
    "recourse/boundary_error": "boundary error",
    "task/favourable_drift": "drift",
}
"""What of ours stands beside a VD, which leniency lowers: it never stands alone."""


VERDICTS = (
    "agrees: the paper's mean is within its own spread of ours, and our interval is small enough "
    "to tell; differs, same order, opposite order: it is outside by more than both; cannot tell: "
    "our seeds decide none of these."
)


@dataclass(frozen=True)
class Beside:
    """One value of the paper beside ours.

    Attributes:
        value: as printed.
        ours: over seeds; None where there is none.
        verdict: see the module.
        beside: of a VD, ours of `BESIDE_VD` in words; else empty.
    """

    value: PaperValue
    ours: Summary | None
    verdict: str
    beside: str = ""


def paper_tables(names: Iterable[str], finished: Iterable[Result]) -> list[Table]:
    """A table for each of the paper's that a suite answers, of `Result`s of that suite.

    Args:
        names: the suite's ``tables``; figures among them are left out.
        finished: its finished runs.
    """
    runs = list(finished)
    known = paper_map().tables
    return [_table(name, beside(name, runs)) for name in names if name in known]


def beside(name: str, finished: Iterable[Result]) -> list[Beside]:
    """Every value of a table of the paper, in its order.

    Args:
        name: such as ``table1``.
        finished: finished runs of a suite that answers it.
    """
    runs, mapped = list(finished), paper_map()
    values = paper_table(int(name.removeprefix("table")))
    places = [mapped.where(name, value) for value in values]
    ours = [None if place is None else _ours(place, runs) for place in places]
    baseline = mapped.tables[name].baseline
    found = []
    for value, place, summary in zip(values, places, ours, strict=True):
        if place is None:
            found.append(Beside(value, None, "no counterpart"))
        elif summary is None:
            found.append(Beside(value, None, "not run"))
        else:
            rival = _rival(place, baseline, values, places, ours)
            words = _beside_vd(place, runs) if value.metric == "vd" else ""
            found.append(Beside(value, summary, _verdict(value, summary, rival), words))
    return found


def _rival(
    place: Where,
    baseline: str,
    values: list[PaperValue],
    places: list[Where | None],
    ours: list[Summary | None],
) -> tuple[PaperValue, Summary] | None:
    """The baseline's value at the same place; None for the baseline itself."""
    if place.row == baseline:
        return None
    wanted = place.model_copy(update={"row": baseline})
    for value, other, summary in zip(values, places, ours, strict=True):
        if other == wanted and summary is not None:
            return value, summary
    return None


def _verdict(value: PaperValue, ours: Summary, rival: tuple[PaperValue, Summary] | None) -> str:
    """See the module."""
    if ours.interval is None:
        return "cannot tell"
    half = (ours.interval.high - ours.interval.low) / 2.0
    spread = value.rounding if value.std is None else 2.0 * value.std
    apart = abs(value.mean - ours.mean)
    theirs = None if rival is None else value.mean - rival[0].mean
    # Decimal digits are not floats: 0.143 is within 0.02 of 0.163.
    if apart <= spread + 1e-9:
        enough = half <= max(spread, abs(theirs or 0.0)) + 1e-9
        return "agrees" if enough else "cannot tell"
    if apart <= spread + half:
        return "cannot tell"
    mine = None if rival is None else _paired_sign(ours, rival[1])
    if not theirs or not mine:
        return "differs"
    return "same order" if theirs * mine > 0.0 else "opposite order"


def _paired_sign(ours: Summary, baseline: Summary) -> float:
    """Sign of our difference to our baseline at the same seeds; 0 where it is not clear."""
    mine, theirs = (dict(zip(one.seeds, one.values, strict=True)) for one in (ours, baseline))
    found = paired_difference(mine, theirs)
    if found is None or not found.clear:
        return 0.0
    return 1.0 if found.mean > 0.0 else -1.0


def _beside_vd(place: Where, finished: list[Result]) -> str:
    """Means of what stands beside a VD, of the same people."""
    words = []
    for metric, label in BESIDE_VD.items():
        found = _ours(place.model_copy(update={"sources": [metric]}), finished)
        if found is not None:
            words.append(f"{label} {format_metric(metric, found.mean)}")
    return ", ".join(words)


def _ours(place: Where, finished: list[Result]) -> Summary | None:
    """Our value over the compared seeds, from the first source that has one."""
    data = {place.data} if place.data else {result.run.axes["data"] for result in finished}
    there = [
        result
        for result in finished
        if result.run.axes["data"] in data
        and result.compared
        and all(result.run.axes.get(axis) == text for axis, text in place.axes.items())
    ]
    for source in place.sources:
        values = _by_seed(source, place, there)
        found = summarize(values, values)
        if found is not None:
            return found
    return None


def _by_seed(source: Source, place: Where, there: list[Result]) -> dict[int, float | None]:
    own = {result.seed: result for result in there if result.row == place.row}
    if isinstance(source, str):
        return {seed: _value(result, source, place.group) for seed, result in own.items()}
    other = {result.seed: result for result in there if result.row == source.over}
    ratios: dict[int, float | None] = {}
    for seed in own.keys() & other.keys():
        over, under = (_sum(run, source.sum) for run in (own[seed], other[seed]))
        if over is not None and under:
            ratio = over / under
            ratios[seed] = 100.0 * (ratio - 1.0) if source.percent else ratio
    return ratios


def _sum(result: Result, metrics: list[str]) -> float | None:
    values = [result.value(metric) for metric in metrics]
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _value(result: Result, metric: str, group: Mapping[str, str]) -> float | None:
    """A metric of the run, or of one of its protected groups."""
    if not group:
        return result.value(metric)
    ((attribute, name),) = group.items()
    for line in result.record.details.get("groups", []):
        if (line["attribute"], line["group"]) == (attribute, name) and line["metric"] == (
            metric.split("/")[1]
        ):
            return None if line["value"] is None else float(line["value"])
    return None


def _table(name: str, found: list[Beside]) -> Table:
    number = name.removeprefix("table")
    shown = [one for one in found if one.verdict != "no counterpart"]
    rows = [[Cell(text) for text in _texts(one)] for one in shown]
    left_out = len(found) - len(shown)
    counts = dict.fromkeys(("agrees", "same order", "opposite order", "differs", "cannot tell"), 0)
    for one in shown:
        counts[one.verdict] = counts.get(one.verdict, 0) + 1
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    notes = [f"Verdicts: {verdicts or 'none'}. {VERDICTS}"]
    if left_out:
        notes.append(f"{left_out} of the paper's {len(found)} values have no counterpart here.")
    notes += [f"About the paper: {note}" for note in notes_on(name)]
    return Table(
        f"paper-{name}",
        f"The paper's Table {number} beside ours",
        HEAD,
        rows,
        notes,
        [_numbers(one) for one in found],
    )


def _texts(one: Beside) -> list[str]:
    value, ours = one.value, one.ours
    setting = " ".join(filter(None, [value.backbone, value.setting.replace(";", " ")]))
    paper = f"{value.mean:g}" if value.std is None else f"{value.mean:g} ± {value.std:g}"
    mine = "-" if ours is None else spread_text(ours.mean, ours.std, "rate")
    gap = "-" if ours is None else signed(ours.mean - value.mean)
    return [
        value.dataset or "-",
        setting or "-",
        _row_name(value, paper_map()),
        value.metric,
        paper,
        mine,
        gap,
        one.verdict,
        one.beside or "-",
    ]


def _row_name(value: PaperValue, mapped: PaperMap) -> str:
    """Our label of the paper's row."""
    where = mapped.where(f"table{value.table}", value)
    return value.method if where is None else where.row


def _numbers(one: Beside) -> dict[str, Number]:
    value, ours = one.value, one.ours
    return {
        "data": value.dataset,
        "backbone": value.backbone,
        "setting": value.setting,
        "method": value.method,
        "metric": value.metric,
        "paper_mean": value.mean,
        "paper_sd": value.std,
        "mean": None if ours is None else ours.mean,
        "sd": None if ours is None else ours.std,
        "seeds": 0 if ours is None else len(ours.seeds),
        "difference": None if ours is None else ours.mean - value.mean,
        "verdict": one.verdict,
    }
