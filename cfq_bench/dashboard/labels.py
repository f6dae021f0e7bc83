"""Titles of tables and labels of rows, as short as they may be and still tell all apart."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from cfq_bench.config.loader import known_names, load_settings
from cfq_bench.dashboard.summary import OF_A_ROW, Run, setting

_ORDER = "fp32 ft32 ptq mixed_ptq cf_ptq lsq pact mixed_hawq mixed_haq kd_qat cfq".split()
"""Baselines come before what is compared with them; other methods follow by name."""


@dataclass(frozen=True)
class Labels:
    """Words for the keys of `Run`.

    Attributes:
        tables: title by `Run.table`, in the order of the page.
        curves: title by `Run.curve`, in the order of the page.
        rows: label by `Run.table` and `Run.row`.
    """

    tables: dict[str, str]
    curves: dict[str, str]
    rows: dict[tuple[str, str], str]

    def row(self, run: Run) -> str:
        """The label of the row that a run belongs to, unique within its table."""
        return self.rows[run.table, run.row]

    def order(self) -> list[str]:
        """Every label once, in the order of the tables' rows."""
        return sorted(set(self.rows.values()), key=_rank)


def label(runs: Iterable[Run]) -> Labels:
    """Name the tables, curves and rows of runs."""
    every = list(runs)
    return Labels(
        tables=_titles({run.table: run for run in every}, [run.table for run in every], True),
        curves=_titles({run.curve: run for run in every}, [run.curve for run in every], False),
        rows=_row_labels(every),
    )


def _titles(examples: dict[str, Run], keys: list[str], budget: bool) -> dict[str, str]:
    """Words, and in full those settings that the words do not tell apart."""
    count = Counter(keys)
    alike: dict[str, list[str]] = {}
    for key, run in examples.items():
        alike.setdefault(_words(run.config, budget), []).append(key)
    titles: dict[str, str] = {}
    for words, group in alike.items():
        usual = max(group, key=lambda key: (count[key], key))
        for key in group:
            changes = _changes(json.loads(key), json.loads(usual))
            titles[key] = ", ".join([words, *changes])
    return dict(sorted(titles.items(), key=lambda item: item[1]))


def _words(config: dict[str, Any], budget: bool) -> str:
    """What the rows of a table share, in words."""
    activations = setting(config, "quantization", "activation_bits")
    weights = _bits(setting(config, "budget", "avg_bits")) if budget else ""
    tied = activations == "tied"
    precision = f"W{weights}" if budget else ""
    precision += " tied activations" if tied else f"A{activations}"
    words = [
        str(setting(config, "data", "name")),
        str(setting(config, "backbone", "name")),
        precision.strip(),
        f"actions {str(setting(config, 'actions', 'name')).split('/')[-1]}",
        f"solver {setting(config, 'solver', 'name')}",
    ]
    exceptions = [
        (("teacher", "name"), ("standard", "-"), "teacher {}"),
        (("budget", "allocator"), ("auto", "-"), "allocator {}"),
        (("budget", "bits"), (None, "-"), "at {}"),
        (("quantization", "input_blocks"), (False, "-"), "input blocks"),
        (("quantization", "layers"), ("all", "-"), "layers {}"),
        (("actions", "grid"), (True, "-"), "off the integer grid"),
        (("evaluation", "split"), ("test", "-"), "{} rows"),
        (("evaluation", "shift"), ("none", "-"), "shift {}"),
    ]
    for path, usual, form in exceptions:
        value = setting(config, *path)
        if value not in usual:
            words.append(form.format(value))
    return ", ".join(words)


def _bits(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _changes(mine: dict[str, Any], usual: dict[str, Any]) -> list[str]:
    """Settings that differ, as ``key=value``; a setting that one of both lacks is a difference."""
    ours, theirs = _flat(mine), _flat(usual)
    keys = [key for key in (ours | theirs) if ours.get(key, "-") != theirs.get(key, "-")]
    return [f"{key}={ours.get(key, '-')}" for key in keys]


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= (
            _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        )
    return flat


def _row_labels(runs: list[Run]) -> dict[tuple[str, str], str]:
    """The method, with the settings in which a row differs from the method's usual row there."""
    count = Counter((run.table, run.row) for run in runs)
    variants: dict[tuple[str, str], list[str]] = {}
    for run in {(run.table, run.row): run for run in runs}.values():
        variants.setdefault((run.table, run.method), []).append(run.row)
    labels: dict[tuple[str, str], str] = {}
    for (table, method), group in variants.items():
        usual = group[0]
        if len(group) > 1:
            ranks = {row: (count[table, row], _plainness(method, row), row) for row in group}
            usual = max(group, key=lambda row: ranks[row])
        for row in group:
            changes = _own_changes(json.loads(row), json.loads(usual))
            labels[table, row] = method + (f" ({', '.join(changes)})" if changes else "")
    return labels


def _own_changes(mine: dict[str, Any], usual: dict[str, Any]) -> list[str]:
    """As `_changes`, without the group's name; of another allocator, its name alone."""
    words = []
    if setting(mine, "allocator", "name") != setting(usual, "allocator", "name"):
        words = [f"allocator={setting(mine, 'allocator', 'name')}"]
        mine, usual = ({k: v for k, v in c.items() if k != "allocator"} for c in (mine, usual))
    return words + [change.split(".", 1)[1] for change in _changes(mine, usual)]


def _rank(label: str) -> tuple[int, str]:
    """Baselines first; a method's usual row before its variants."""
    method = label.split(" ")[0]
    return (_ORDER.index(method) if method in _ORDER else len(_ORDER), label)


def _plainness(method: str, row: str) -> int:
    """How many settings of the row are the packaged ones: ties are broken by it."""
    packaged, own = _packaged(method), _flat(json.loads(row))
    return sum(own.get(key, "-") == value for key, value in packaged.items())


@cache
def _packaged(method: str) -> dict[str, Any]:
    if method not in known_names("method"):
        return {}
    settings = load_settings(method).model_dump(mode="json")
    return _flat({part: settings.get(part) for part in OF_A_ROW})
