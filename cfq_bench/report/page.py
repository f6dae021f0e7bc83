"""One record as text."""

from pathlib import Path

from cfq_bench.aggregate.numbers import format_metric
from cfq_bench.aggregate.runs import NOT_A_SETTING, split_words
from cfq_bench.evaluation.keys import METRICS, metric_info
from cfq_bench.record.record import Record
from cfq_bench.report.diagnostics import diagnostic_lines
from cfq_bench.results.differences import flat
from cfq_bench.statistics.rates import certain_bounds

HEADLINE = [
    "task/acc",
    "task/agreement",
    "task/favourable_drift",
    "recourse/vd",
    "recourse/vd_adverse",
    "recourse/boundary_error",
    "recourse/crg",
    "recourse/crg_abs",
    "recourse/dirsim",
    "recourse/lost",
    "deploy/avg_bits",
]
"""VD never stands alone: its twin, signed and absolute CRG and the drift stand beside it."""


def result_table(record: Record, path: Path) -> str:
    """What a run prints: the headline metrics, the time, and where the record lies."""
    lines = [_title(record)]
    if record.status != "ok":
        lines.append(f"{record.status}: {record.reason}")
    else:
        lines += _metric_lines(record, HEADLINE)
        lines.append(f"  {'time':<16} {record.seconds:8.1f} s")
    lines.append(f"record: {path}")
    return "\n".join(lines) + "\n"


def record_page(record: Record, stale: str | None) -> str:
    """Everything that a person would look up in a record.

    Args:
        record: the record.
        stale: why it is no answer for this code and these data, if it is none.
    """
    lines = [_title(record), f"  run {record.run_id}, status {record.status}"]
    if stale is not None:
        lines.append(f"  stale: {stale}")
    if record.reason is not None:
        lines.append(f"  reason: {record.reason}")
    for group in dict.fromkeys(key.split("/")[0] for key in METRICS):
        keys = [key for key in _ordered(record.metrics) if key.startswith(f"{group}/")]
        if keys:
            lines += ["", group, *_metric_lines(record, keys)]
    lines += diagnostic_lines(record.details)
    bits = record.details.get("deploy/bits_per_layer")
    if bits:
        lines += ["", "bits per layer (weights / inputs)"]
        inputs = record.details["deploy/activation_bits"]
        lines += [f"  {name:<16} {value:>3} / {inputs[name]}" for name, value in bits.items()]
    lines += ["", "settings", *_settings_lines(record.config)]
    lines += ["", "made by"]
    made = {} if record.made_by is None else {"code": record.made_by.code}
    made |= {} if record.made_by is None else (record.made_by.data or {})
    lines += [f"  {key:<16} {value}" for key, value in made.items()] or ["  not recorded"]
    lines += ["", "provenance"]
    for key, value in record.provenance.items():
        if isinstance(value, dict):
            value = ", ".join(f"{name} {version}" for name, version in value.items())
        lines.append(f"  {key:<16} {value}")
    return "\n".join(lines) + "\n"


def _title(record: Record) -> str:
    config = record.config
    words = [
        config["backbone"]["name"],
        f"budget {config['budget']['avg_bits']:g} bits",
        f"seed {config['seed']}",
        split_words(config),
    ]
    return (
        f"{config['method']['name']} on {config['data']['name']} ({', '.join(filter(None, words))})"
    )


def _ordered(keys: dict[str, float | None]) -> list[str]:
    rank = {key: i for i, key in enumerate(METRICS)}
    return sorted(keys, key=lambda key: (rank[key.split("@")[0]], key))


def _metric_lines(record: Record, keys: list[str]) -> list[str]:
    lines = []
    for key in keys:
        info = metric_info(key)
        suffix = f"@{key.split('@')[1]}" if "@" in key else ""
        value = format_metric(key, record.metrics.get(key))
        rows = f"n={record.counts[key]}" if key in record.counts else ""
        about = _about(info.about, record)
        bounds = certain_bounds(key, record.metrics.get(key), record.counts)
        if bounds is not None:
            about = f"[{bounds[0]:.3f}, {bounds[1]:.3f}] {about}"
        lines.append(f"  {info.label + suffix:<16} {value:>8} {rows:<8} {about}".rstrip())
    return lines


def _about(text: str, record: Record) -> str:
    """What a metric means, over the rows that were measured: those of the test split, usually."""
    split = record.config["evaluation"].get("split", "test")
    return text.replace("test split", f"{split} split").replace("test rows", f"{split} rows")


def _settings_lines(config: dict[str, object]) -> list[str]:
    lines = []
    for group, value in config.items():
        if not isinstance(value, dict):
            lines.append(f"  {group:<16} {value}")
            continue
        # A table's features are a page of their own.
        settings = flat(value, skip=("features", *NOT_A_SETTING))
        text = ", ".join(f"{key}={v}" for key, v in settings.items())
        lines.append(f"  {group:<16} {text}")
    return lines
