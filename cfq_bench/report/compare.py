"""Tables that compare methods: mean and spread over seeds, paired differences to a baseline.

The last column pairs each row's boundary error with the baseline's at the same seeds.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cfq_bench.config.loader import known_names, load_settings
from cfq_bench.errors import UserError
from cfq_bench.evaluation.keys import metric_info
from cfq_bench.files import canonical_json
from cfq_bench.record.record import Record
from cfq_bench.report.markdown import plain
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
BASELINE = "lsq"
"""Paired differences are against this method's usual row."""
PAIRED = "recourse/boundary_error"
_OF_A_ROW = ("method", "training", "policy", "allocator")
"""Settings in which the rows of one table may differ."""
_NOT_A_SETTING = ("module",)
_ORDER = (
    "fp32 ft32 ptq mixed_ptq cf_ptq lsq pact mixed_hawq mixed_haq kd_qat cfq cfq_distilled"
).split()


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
        tables.setdefault(canonical_json(_shared(record.config)), []).append(record)
    render = _markdown if markdown else _plain
    titled = zip(_titles(list(tables.values())), tables.values(), strict=True)
    return "\n".join(render(title, _rows(group)) for title, group in sorted(titled, key=_first))


def _first(pair: tuple[str, list[Record]]) -> str:
    return pair[0]


def _shared(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that all rows of a table have in common, flat, without the descriptions."""
    return {
        key: value
        for key, value in _flat(config).items()
        if key.split(".")[0] not in ("seed", *_OF_A_ROW) and not key.endswith(_NOT_A_SETTING)
    }


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _titles(tables: list[list[Record]]) -> list[str]:
    """A title for each table; what the words do not tell apart is added as settings."""
    words = [", ".join(setting_words(table[0].config)) for table in tables]
    titles = []
    for word, table in zip(words, tables, strict=True):
        alike = [t for w, t in zip(words, tables, strict=True) if w == word]
        mine, usual = _shared(table[0].config), _shared(max(alike, key=len)[0].config)
        changes = [f"{key}={value}" for key, value in mine.items() if usual.get(key) != value]
        titles.append(", ".join([word, *changes]))
    return titles


def setting_words(config: dict[str, Any]) -> list[str]:
    """What may tell tables apart, in words: data, network, bits, actions, solver, margin."""
    quantization, budget = config["quantization"], config["budget"]
    words = [config["data"]["name"], config["backbone"]["name"], _bits_label(config)]
    if budget["bits"] is not None:
        words.append(f"at {budget['bits']}")
    elif budget["allocator"] != "auto":
        words.append(budget["allocator"])
    if quantization["input_blocks"]:
        words.append("input blocks")
    if quantization.get("layers", "all") == "first_last_8":
        words.append("first and last layer at 8 bits")
    words.append(f"actions {config['actions']['name'].split('/')[-1]}")
    if not config["actions"].get("grid", True):
        words.append("off the integer grid")
    words.append(f"solver {config['solver']['name']}")
    words.append(f"kappa {config['evaluation']['kappa']:g}")
    return words


def _bits_label(config: dict[str, Any]) -> str:
    """Weight and activation bits, as in W4A8; tied activations have the weights' bits."""
    weights = f"{config['budget']['avg_bits']:g}"
    activations = config["quantization"]["activation_bits"]
    if activations != "tied":
        return f"W{weights}A{activations}"
    uniform = config["budget"]["avg_bits"] in config["quantization"]["candidates"]
    return f"W{weights}A{weights if uniform else '=W'} (tied)"


def _rows(records: list[Record]) -> list[list[str]]:
    """Method, seeds, then mean and standard deviation of each column."""
    variants: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        own = {part: record.config.get(part, {}) for part in _OF_A_ROW}
        variants.setdefault(own["method"]["name"], {}).setdefault(canonical_json(own), []).append(
            record
        )
    usual = {name: _usual(list(groups.values())) for name, groups in variants.items()}
    rows = []
    for name in sorted(variants, key=_rank):
        for group in sorted(variants[name].values(), key=lambda g: g is not usual[name]):
            label = name + _differences(group[0], usual[name][0])
            cells = [_cell(key, [r.metrics.get(key) for r in group]) for key in COLUMNS]
            paired = _paired(group, usual.get(BASELINE, []))
            rows.append([label, str(len(group)), *cells, paired])
    return rows


def _paired(group: list[Record], baseline: list[Record]) -> str:
    """Mean and standard deviation of the differences to the baseline at the same seeds."""
    theirs = {record.config["seed"]: record.metrics.get(PAIRED) for record in baseline}
    differences = []
    for record in group:
        ours, other = record.metrics.get(PAIRED), theirs.get(record.config["seed"])
        if group is not baseline and ours is not None and other is not None:
            differences.append(ours - other)
    if not differences:
        return "-"
    mean = f"{np.mean(differences):+.3f}"
    return mean if len(differences) == 1 else f"{mean} ± {np.std(differences, ddof=1):.3f}"


def _rank(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _usual(groups: list[list[Record]]) -> list[Record]:
    """The variant with the most seeds, then the one with the packaged settings' plainest values."""
    return max(groups, key=lambda group: (len(group), _plainness(group[0])))


def _plainness(record: Record) -> int:
    """How many settings of the row are the packaged ones."""
    name = record.config["method"]["name"]
    if name not in known_names("method"):
        return 0
    packaged = load_settings(name).model_dump(mode="json")
    return sum(
        record.config.get(part, {}).get(key) == value
        for part in _OF_A_ROW
        for key, value in packaged[part].items()
    )


def _differences(record: Record, usual: Record) -> str:
    """The settings in which a variant differs from the method's usual one."""
    words = []
    for part in _OF_A_ROW:
        mine, theirs = (r.config.get(part, {}) for r in (record, usual))
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


def _head() -> list[str]:
    labels = [metric_info(key).label for key in COLUMNS]
    return ["method", "seeds", *labels, f"paired vs {BASELINE}"]


def _plain(title: str, rows: list[list[str]]) -> str:
    head = _head()
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    lines = [title]
    for row in table:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells))
    return "\n".join(lines) + "\n"


def _markdown(title: str, rows: list[list[str]]) -> str:
    head = map(plain, _head())
    lines = [f"**{plain(title)}**", "", "| " + " | ".join(head) + " |"]
    lines.append("| --- |" + " ---: |" * (len(_head()) - 1))
    lines += ["| " + " | ".join(map(plain, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"
