"""One record as text."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cfq_bench.evaluation.keys import METRICS, metric_info
from cfq_bench.record.record import Record
from cfq_bench.report.diagnostics import diagnostic_lines

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
_SIGNED = (
    "recourse/crg",
    "recourse/crg_median",
    "recourse/crg_all",
    "task/favourable_drift",
    "group/crg_worst",
)


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


def format_metric(key: str, value: float | None) -> str:
    """A metric as people read it: three decimals, a sign where the sign matters, - if undefined.

    >>> format_metric("recourse/crg", 0.12)
    '+0.120'
    >>> format_metric("recourse/vd", None)
    '-'
    """
    if value is None:
        return "-"
    if key.startswith("time/"):
        return f"{value:.2f} s"
    if key == "deploy/bops":
        return f"{value:,.0f}"
    if key == "deploy/avg_bits":
        return f"{value:.2f}"
    return f"{value:+.3f}" if key.split("@")[0] in _SIGNED else f"{value:.3f}"


def _title(record: Record) -> str:
    config = record.config
    return (
        f"{config['method']['name']} on {config['data']['name']} "
        f"({config['backbone']['name']}, budget {config['budget']['avg_bits']:g} bits, "
        f"seed {config['seed']})"
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
        lines.append(f"  {info.label + suffix:<16} {value:>8} {rows:<8} {info.about}".rstrip())
    return lines


def _settings_lines(config: dict[str, object]) -> list[str]:
    lines = []
    for group, value in config.items():
        if not isinstance(value, dict):
            lines.append(f"  {group:<16} {value}")
            continue
        text = ", ".join(f"{key}={v}" for key, v in _flat(value))
        lines.append(f"  {group:<16} {text}")
    return lines


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their dotted names; a table's features are a page of their own."""
    for key, value in settings.items():
        if key in ("features", "module"):
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
