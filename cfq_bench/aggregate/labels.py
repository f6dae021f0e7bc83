"""Titles of tables and labels of rows, as short as they may be and still tell all apart.

A label stands for the same settings everywhere on a page: a method's usual row has its name alone,
the others have the settings beside it in which they differ from that row.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from cfq_bench.aggregate.rows import BITS, baseline_of
from cfq_bench.aggregate.runs import (
    NOT_A_SETTING,
    OF_A_ROW,
    Run,
    setting,
    several_splits,
    split_words,
)
from cfq_bench.config.loader import known_names, load_settings
from cfq_bench.results.differences import ABSENT, changes, flat
from cfq_bench.statistics.summary import mean_and_sd

ORDER = (
    "fp32 ft32 ptq mixed_ptq cf_ptq lsq pact mixed_hawq mixed_haq kd_qat cfq cfq_distilled"
).split()
"""Baselines come before what is compared with them; other methods follow by name."""


@dataclass(frozen=True)
class Labels:
    """Words for the keys of `Run`.

    Attributes:
        tables: title by `Run.table`, in the order of the page; all differ.
        curves: title by `Run.curve`, in the order of the page; all differ.
        rows: label by `Run.row`, in the order of the tables' rows; two rows of one label differ
            in nothing but the allocator that follows from their table's budget.
        baselines: label of the row that the others are compared with, by `Run.table`.
    """

    tables: dict[str, str]
    curves: dict[str, str]
    rows: dict[str, str]
    baselines: dict[str, str | None]

    def row(self, run: Run) -> str:
        """The label of the row that a run belongs to."""
        return self.rows[run.row]

    @property
    def order(self) -> list[str]:
        """Every label of a row once, in the order of the tables' rows."""
        return list(dict.fromkeys(self.rows.values()))


def label(runs: Iterable[Run]) -> Labels:
    """Name the tables, curves and rows of runs."""
    every = list(runs)
    rows = _row_labels(every)
    return Labels(
        tables=_titles(every, [run.table for run in every], budget=True),
        curves=_titles(every, [run.curve for run in every], budget=False),
        rows=rows,
        baselines=_baselines(every, rows),
    )


def setting_words(
    config: Mapping[str, Any], *, budget: bool = True, several: bool = False
) -> list[str]:
    """What the rows of a table share, in words: data, network, bits, actions, solver, margin.

    Rows of a split that is not the test split are named, and whatever else is not usual.

    Args:
        config: of a record, also of another version.
        budget: whether the weights' bits are shared too.
        several: whether other tables are about other splits.
    """
    kappa = setting(config, "evaluation", "kappa")
    words = [
        str(setting(config, "data", "name")),
        str(setting(config, "backbone", "name")),
        *_bits_words(config, budget),
        f"actions {str(setting(config, 'actions', 'name')).split('/')[-1]}",
        f"solver {setting(config, 'solver', 'name')}",
        f"kappa {_number(kappa)}",
    ]
    unusual = [
        (("teacher", "name"), ("standard",), "teacher {}"),
        (("quantization", "input_blocks"), (False,), "input blocks"),
        (("quantization", "layers"), ("all",), "layers {}"),
        (("actions", "grid"), (True,), "off the integer grid"),
        (("evaluation", "shift"), ("none",), "shift {}"),
    ]
    for path, usual, form in unusual:
        value = setting(config, *path)
        if value not in (*usual, ABSENT):
            words.append(form.format(value))
    split = split_words(config, several=several)
    return [*words, split] if split else words


def _bits_words(config: Mapping[str, Any], budget: bool) -> list[str]:
    """Weight and activation bits, as in W4A8, and how weights get theirs where that is said."""
    average = setting(config, "budget", "avg_bits")
    activations = setting(config, "quantization", "activation_bits")
    weights = f"W{_number(average)}" if budget else ""
    tied = activations == "tied"
    words = [f"{weights} tied activations".strip() if tied else f"{weights}A{activations}"]
    fixed = setting(config, "budget", "bits")
    allocator = setting(config, "budget", "allocator")
    if fixed not in (None, ABSENT):
        words.append(f"at {fixed}")
    elif allocator not in ("auto", ABSENT):
        words.append(f"allocator {allocator}")
    return words


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _titles(runs: list[Run], keys: list[str], *, budget: bool) -> dict[str, str]:
    """Words, and in full those settings that the words do not tell apart; by key of every run."""
    count, several = Counter(keys), several_splits(run.config for run in runs)
    alike: dict[str, list[str]] = {}
    for key, run in dict(zip(keys, runs, strict=True)).items():
        words = ", ".join(setting_words(run.config, budget=budget, several=several))
        alike.setdefault(words, []).append(key)
    titles: dict[str, str] = {}
    for words, group in alike.items():
        usual = max(group, key=lambda key: (count[key], key))
        for key in group:
            titles[key] = ", ".join([words, *changes(json.loads(key), json.loads(usual))])
    return _unique(dict(sorted(titles.items(), key=lambda item: (item[1], item[0]))))


def _row_labels(runs: list[Run]) -> dict[str, str]:
    """The method, with the settings in which a row differs from the method's usual row.

    Usual is the row of the packaged settings; where no run has these, the one with most finished
    runs on the page, then the one with most of these settings. The allocator follows from a table's
    budget, which its title tells, so that it is no difference by its name alone.
    """
    count = Counter(run.row for run in runs if run.status == "ok")
    by_method: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        rows = by_method.setdefault(run.method, {}).setdefault(_core(run.row), [])
        if run.row not in rows:
            rows.append(run.row)
    labels: dict[str, str] = {}
    for method in sorted(by_method, key=_rank):
        cores = by_method[method]
        ranks = {
            core: (*_plainness(method, core, sum(count[row] for row in rows)), core)
            for core, rows in cores.items()
        }
        usual = max(ranks, key=lambda core: ranks[core])
        words = {core: _short(changes(json.loads(core), json.loads(usual))) for core in cores}
        found = {
            row: [*words[core], *own]
            for core, rows in cores.items()
            for row, own in _allocations(rows, count, runs).items()
        }
        named = {
            row: method + (f" ({', '.join(own)})" if own else "") for row, own in found.items()
        }
        labels |= dict(sorted(named.items(), key=lambda item: (item[1], item[0])))
    return _apart(labels, runs)


def _core(row: str) -> str:
    """A row's settings without its allocator's."""
    own = {k: v for k, v in json.loads(row).items() if not k.startswith("allocator.")}
    return json.dumps(own, sort_keys=True)


def _short(words: list[str]) -> list[str]:
    """Changes without their group's name, where they still differ."""
    short = [word.split(".", 1)[1] for word in words]
    names = Counter(word.split("=")[0] for word in short)
    return [
        brief if names[brief.split("=")[0]] == 1 else word
        for brief, word in zip(short, words, strict=True)
    ]


def _allocations(rows: list[str], count: Counter[str], runs: list[Run]) -> dict[str, list[str]]:
    """Words for rows that differ in their allocator alone: none, unless one table has several.

    Allocators of one name that differ in their settings are always told apart.
    """
    settings = {row: json.loads(row) for row in rows}
    tables: dict[str, set[str]] = {}
    for run in runs:
        if run.row in settings:
            tables.setdefault(run.table, set()).add(run.row)
    crowded = {row for own in tables.values() if len(own) > 1 for row in own}
    usual = max(rows, key=lambda row: (count[row], row))
    found: dict[str, list[str]] = {}
    for row, own in settings.items():
        alike = [other for other in rows if _allocator(settings[other]) == _allocator(own)]
        first = max(alike, key=lambda other: (count[other], other))
        named = row in crowded and _allocator(own) != _allocator(settings[usual])
        found[row] = [f"allocator={_allocator(own)}"] if named else []
        found[row] += changes(own, settings[first])
    return found


def _allocator(row: Mapping[str, Any]) -> str:
    return str(row.get("allocator.name", ABSENT))


def _apart(labels: dict[str, str], runs: list[Run]) -> dict[str, str]:
    """Rows of one table whose labels still are the same get the first digits of their digest."""
    tables: dict[str, set[str]] = {}
    for run in runs:
        tables.setdefault(run.table, set()).add(run.row)
    alike = set()
    for rows in tables.values():
        seen = Counter(labels[row] for row in rows)
        alike |= {row for row in rows if seen[labels[row]] > 1}
    return {
        row: f"{text} #{_digest(row)}" if row in alike else text for row, text in labels.items()
    }


def _unique(labels: dict[str, str]) -> dict[str, str]:
    """Titles that still are the same get the first digits of their key's digest."""
    count = Counter(labels.values())
    return {
        key: text if count[text] == 1 else f"{text} #{_digest(key)}" for key, text in labels.items()
    }


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()[:6]


def _baselines(runs: list[Run], rows: Mapping[str, str]) -> dict[str, str | None]:
    """By table: its first row of label training, else the first at the bits that most have."""
    tables: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        own = tables.setdefault(run.table, {})
        if run.status == "ok":
            own.setdefault(run.row, []).append(run)
    found: dict[str, str | None] = {}
    for table, by_row in tables.items():
        ordered = {row: by_row[row] for row in rows if row in by_row}
        bits = {
            row: [run.values[BITS] for run in group if BITS in run.values]
            for row, group in ordered.items()
        }
        baseline = baseline_of(
            {row: group[0].method for row, group in ordered.items()},
            {row: mean_and_sd(values)[0] if values else None for row, values in bits.items()},
        )
        found[table] = None if baseline is None else rows[baseline]
    return found


def _rank(method: str) -> tuple[int, str]:
    return (ORDER.index(method) if method in ORDER else len(ORDER), method)


def _plainness(method: str, core: str, runs: int) -> tuple[bool, int, int]:
    """Whether a row's settings are the packaged ones, its runs, how many of its settings are."""
    packaged, own = _packaged(method), json.loads(core)
    alike = sum(own.get(key, ABSENT) == value for key, value in packaged.items())
    return bool(packaged) and alike == len(packaged), runs, alike


@cache
def _packaged(method: str) -> dict[str, Any]:
    """A row's settings as the package has them, but for the allocator's."""
    if method not in known_names("method"):
        return {}
    settings = load_settings(method).model_dump(mode="json")
    parts = {part: settings.get(part) for part in OF_A_ROW if part != "allocator"}
    return flat(parts, skip=NOT_A_SETTING)
