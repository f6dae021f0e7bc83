"""The table on the screen and the JSON file."""

import json
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.timing import Measurement
from cfq_bench.record.provenance import provenance

HEADER = ("name", "measured", "limit", "met")
_MET = {True: "yes", False: "NO", None: "-"}


def table(measurements: Sequence[Measurement]) -> str:
    """Aligned columns: name, measured, limit, met or not."""
    cells = [HEADER, *map(_cells, measurements)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEADER))]
    lines = ["  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)) for row in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def document(measurements: Sequence[Measurement], repeats: int, threads: int) -> bytes:
    """Everything measured, as JSON; times of the sides are in seconds."""
    content = {
        "provenance": provenance("cpu", threads),
        "repeats": repeats,
        "measurements": [_entry(measurement) for measurement in measurements],
    }
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


def _cells(measurement: Measurement) -> tuple[str, str, str, str]:
    limit = "-"
    if measurement.limit is not None:
        limit = f"{'>=' if measurement.at_least else '<='} {measurement.limit:,g}"
        if measurement.aim is not None:
            limit += f" (aim {measurement.aim:g})"
    value = measurement.value
    number = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return measurement.name, f"{number} {measurement.unit}", limit, _MET[measurement.met]


def _entry(measurement: Measurement) -> dict[str, Any]:
    return {
        "name": measurement.name,
        "value": measurement.value,
        "unit": measurement.unit,
        "limit": measurement.limit,
        "limit_is": "least" if measurement.at_least else "most",
        "aim": measurement.aim,
        "met": measurement.met,
        "note": measurement.note,
        "medians_s": {name: statistics.median(s) for name, s in measurement.repeats.items()},
        "repeats_s": dict(measurement.repeats),
    }
