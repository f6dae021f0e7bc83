"""Tables that compare methods: mean and spread over seeds, paired differences to a baseline."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cfq_bench.errors import UserError
from cfq_bench.evaluation.keys import metric_info
from cfq_bench.record.record import Record
from cfq_bench.report.page import format_metric

COLUMNS = [
    "task/acc",
    "task/favourable_drift",
    "recourse/vd",
    "recourse/vd_adverse",
    "recourse/boundary_error",
    "recourse/crg",
    "recourse/crg_abs",
    "recourse/lost",
    "deploy/avg_bits",
]
_NOT_A_SETTING = ("about", "module")
_ORDER = ["fp32", "ft32", "lsq", "pact", "kd_qat", "cfq", "cfq_distilled"]


def comparison(
    records: Iterable[Record],
    *,
    data: Sequence[str] = (),
    method: Sequence[str] = (),
    markdown: bool = False,
) -> str:
    """One table for every data set and shared setting, one row per method.

    Rows of a table share everything but the method and the seed, so that they are comparable;
    methods that differ in their own settings are rows of their own.

    Raises:
        UserError: no record fits.
    """
    chosen = [
        record
        for record in records
        if record.status == "ok"
        and (not data or record.config["data"]["name"] in data)
        and (not method or record.config["method"]["name"] in method)
    ]
    if not chosen:
        raise UserError("no finished records fit: run some first, or choose another --results-dir")
    tables: dict[str, list[Record]] = {}
    for record in chosen:
        tables.setdefault(_setting(record.config), []).append(record)
    render = _markdown if markdown else _plain
    blocks = [render(title, _rows(group)) for title, group in sorted(tables.items())]
    return "\n".join(blocks)


def _setting(config: dict[str, Any]) -> str:
    """What the rows of one table share, in words."""
    quantization, budget = config["quantization"], config["budget"]
    words = [config["data"]["name"], config["backbone"]["name"], f"{budget['avg_bits']:g} bits"]
    if budget["bits"] is not None:
        words.append(f"at {budget['bits']}")
    elif budget["allocator"] != "auto":
        words.append(budget["allocator"])
    tied = quantization["activation_bits"] == "tied"
    words.append("tied activations" if tied else f"A{quantization['activation_bits']}")
    if quantization["input_blocks"]:
        words.append("input blocks")
    words.append(f"actions {config['actions']['name'].split('/')[-1]}")
    if not config["actions"]["grid"]:
        words.append("off the integer grid")
    words.append(f"solver {config['solver']['name']}, kappa {config['evaluation']['kappa']:g}")
    return ", ".join(words)


def _rows(records: list[Record]) -> list[list[str]]:
    """Method, seeds, then mean and standard deviation of each column."""
    variants: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        settings = record.config["method"]
        key = repr(
            [
                {k: v for k, v in settings.items() if k not in _NOT_A_SETTING},
                {k: v for k, v in record.config["training"].items() if k != "log_every"},
            ]
        )
        variants.setdefault(settings["name"], {}).setdefault(key, []).append(record)
    rows = []
    for name in sorted(variants, key=_rank):
        usual = _most_common(list(variants[name].values()))
        for group in variants[name].values():
            label = name + _differences(group[0], usual)
            cells = [_cell(key, [r.metrics.get(key) for r in group]) for key in COLUMNS]
            rows.append([label, str(len(group)), *cells])
    return rows


def _rank(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _most_common(groups: list[list[Record]]) -> Record:
    return max(groups, key=len)[0]


def _differences(record: Record, usual: Record) -> str:
    """The settings in which a variant differs from the method's usual one."""
    words = []
    for part in ("method", "training"):
        mine, theirs = record.config[part], usual.config[part]
        words += [f"{k}={v}" for k, v in mine.items() if theirs.get(k) != v]
    return f" ({', '.join(words)})" if words else ""


def _cell(key: str, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    mean = format_metric(key, float(np.mean(known)))
    if len(known) == 1:
        return mean
    spread = format_metric(key, float(np.std(known, ddof=1))).lstrip("+")
    return f"{mean} ± {spread}"


def _plain(title: str, rows: list[list[str]]) -> str:
    head = ["method", "seeds", *(metric_info(key).label for key in COLUMNS)]
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    lines = [title]
    for row in table:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells))
    return "\n".join(lines) + "\n"


def _markdown(title: str, rows: list[list[str]]) -> str:
    head = ["method", "seeds", *(metric_info(key).label for key in COLUMNS)]
    lines = [f"**{title}**", "", "| " + " | ".join(head) + " |"]
    lines.append("| --- |" + " ---: |" * (len(head) - 1))
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
