"""One run's page: its numbers, training history, the rows that broke, and its settings."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cfq_bench.aggregate.numbers import format_metric
from cfq_bench.errors import UserError
from cfq_bench.evaluation.keys import METRICS
from cfq_bench.record.identity import Judge
from cfq_bench.record.store import RecordStore
from cfq_bench.statistics.rates import certain_bounds

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    "row_id direction margin_f margin_q status_f status_q cost_f cost_q changed_f changed_q"
).split()
_HEADS = {
    "row_id": "row",
    "margin_f": "margin on f",
    "margin_q": "margin on f_q",
    "status_f": "status on f",
    "status_q": "status on f_q",
    "cost_f": "cost on f",
    "cost_q": "cost on f_q",
    "changed_f": "changed on f",
    "changed_q": "changed on f_q",
}
_STRIPS = {
    "factual": "The image",
    "reconstruction": "As the autoencoder gives it back",
    "on_f": "Counterfactual under f",
    "on_q": "Counterfactual under f_q",
}
_BETTER = {True: "higher", False: "lower", None: "-"}


@dataclass(frozen=True)
class Chart:
    """A line to draw, and its numbers as a table.

    Attributes:
        title: what is drawn.
        spec: for `assets/charts.js`, as JSON.
        points: the numbers, as text.
    """

    title: str
    spec: str
    points: list[tuple[str, str]]


@dataclass(frozen=True)
class Picture:
    """Images side by side: what they are, and a PNG file in base64."""

    title: str
    png: str


@dataclass(frozen=True)
class Settings:
    """One group of settings as text."""

    name: str
    text: str


@dataclass(frozen=True)
class RunPage:
    """Everything that the template shows of a run, as text.

    Attributes:
        run_id: its name.
        title: method, data, backbone, budget and seed.
        status: ``ok``, ``skipped`` or ``failed``.
        stale: why it is no answer for this code and these data, if it is none.
        reason: why not ok.
        metrics: label, value, rows behind it, direction, meaning.
        bits: layer, weight bits, input bits.
        pictures: of an image data set, a few images and their counterfactuals.
        history: one chart for each logged quantity.
        broke_caption: how many rows broke, or why it is not known.
        broke_heads: column heads of `broke`.
        broke: rows on which the teacher's action fails on f_q, worst first.
        config: the settings by group.
        provenance: code, libraries, machine, time.
    """

    run_id: str
    title: str
    status: str
    stale: str | None
    reason: str | None
    metrics: list[list[str]]
    bits: list[list[str]]
    pictures: list[Picture]
    history: list[Chart]
    broke_caption: str
    broke_heads: list[str]
    broke: list[list[str]]
    config: list[Settings]
    provenance: str


def run_page(store: RecordStore, run_id: str, title: str, most_rows: int) -> RunPage:
    """Read a run in full.

    Args:
        store: where it lies.
        run_id: its whole id.
        title: its title.
        most_rows: how many of the rows that broke are listed.

    Raises:
        UserError: the record is not there (any more), or is no JSON.
    """
    path = store.path(run_id)
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): run it again") from error
    details = record.get("details") or {}
    caption, heads, broke = _broke(store, run_id, most_rows)
    return RunPage(
        run_id=run_id,
        title=title,
        status=str(record.get("status", "failed")),
        stale=Judge().why_stale_content(record),
        reason=record.get("reason"),
        metrics=_metrics(record.get("metrics") or {}, record.get("counts") or {}),
        bits=_bits(details),
        pictures=_pictures(details),
        history=_history(store, run_id),
        broke_caption=caption,
        broke_heads=heads,
        broke=broke,
        config=[_settings(name, part) for name, part in record["config"].items()],
        provenance=_lines(record.get("provenance") or {}),
    )


def _metrics(values: Mapping[str, Any], counts: Mapping[str, Any]) -> list[list[str]]:
    """In the order of the protocol; keys of other versions come last."""
    rank = {key: i for i, key in enumerate(METRICS)}
    lines = []
    for key in sorted(values, key=lambda key: (rank.get(key.split("@")[0], len(rank)), key)):
        info = METRICS.get(key.split("@")[0])
        label = key if info is None else info.label + key[len(key.split("@")[0]) :]
        value = values[key]
        known = value is None or isinstance(value, int | float)
        text = format_metric(key, value) if known else str(value)
        bounds = certain_bounds(key, value, counts) if known else None
        if bounds is not None:
            text += f" [{bounds[0]:.3f}, {bounds[1]:.3f}]"
        about = ("-", "-") if info is None else (_BETTER[info.higher_is_better], info.about)
        lines.append([label, text, str(counts.get(key, "-")), *about])
    return lines


def _bits(details: Mapping[str, Any]) -> list[list[str]]:
    weights = details.get("deploy/bits_per_layer") or {}
    inputs = details.get("deploy/activation_bits") or {}
    return [[name, str(bits), str(inputs.get(name, "-"))] for name, bits in weights.items()]


def _pictures(details: Mapping[str, Any]) -> list[Picture]:
    kept = details.get("pictures") or {}
    return [Picture(title, str(kept[strip])) for strip, title in _STRIPS.items() if strip in kept]


def _history(store: RecordStore, run_id: str) -> list[Chart]:
    """One chart for each quantity that the training logged."""
    charts = []
    for name, points in store.read_history(run_id).items():
        drawn = [{"x": step, "y": value} for step, value in points]
        series = [{"name": name, "look": 0, "line": True, "bare": True, "points": drawn}]
        spec = {"title": name, "x": "optimizer step", "y": name, "series": series}
        table = [(str(step), f"{value:.4g}") for step, value in points]
        charts.append(Chart(f"Training: {name}", json.dumps(spec), table))
    return charts


def _broke(store: RecordStore, run_id: str, most: int) -> tuple[str, list[str], list[list[str]]]:
    """The rows whose action on the teacher fails on f_q, the clearest failures first."""
    try:
        rows = store.read_rows(run_id)
    except UserError as error:
        return f"Rows that broke are not known: {error}.", [], []
    if "valid_q" not in rows.columns:
        return "Rows that broke are not known: the per-row results are of another version.", [], []
    failed = rows[rows["valid_q"].notna() & ~rows["valid_q"].fillna(True).astype(bool)]
    if failed.empty:
        return "No row broke: every action of the teacher holds on f_q.", [], []
    worst = failed.sort_values("margin_q", kind="stable").head(most)
    shown = f", the {most} clearest" if len(failed) > most else ""
    caption = (
        f"Rows that broke: {len(failed)} of {len(rows)}{shown}. The teacher's action fails on f_q."
    )
    names = [name for name in _COLUMNS if name in worst.columns]
    names += [str(name) for name in worst.columns if str(name).startswith("group_")]
    heads = [_HEADS.get(name, name.removeprefix("group_")) for name in names]
    return caption, heads, _cells(worst[names])


def _cells(rows: "pd.DataFrame") -> list[list[str]]:
    return [[_cell(value) for value in row] for row in rows.itertuples(index=False)]


def _cell(value: object) -> str:
    if value is None or value != value or value == "":  # NaN is not itself
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _settings(name: str, part: object) -> Settings:
    return Settings(name, _lines(part) if isinstance(part, dict) else json.dumps(part))


def _lines(part: Mapping[str, Any], indent: str = "") -> str:
    """Nested settings, one a line, in the manner of YAML."""
    lines = []
    for key, value in part.items():
        if isinstance(value, dict) and value:
            lines += [f"{indent}{key}:", _lines(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines)
