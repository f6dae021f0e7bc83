"""One record as far as it is compared with others: its numbers, and what it may stand beside.

Read leniently, so that records of other versions are shown as far as they go.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

from cfq_bench.errors import UserError
from cfq_bench.results.differences import ABSENT, flat

OF_A_ROW = ("method", "training", "policy", "allocator")
"""Settings in which the rows of one table may differ."""
NOT_COMPARED = ("seed", *OF_A_ROW)
NOT_A_SETTING = ("module",)
"""Where the code lies that reads a group of settings."""
GROUP_METRICS = ("acc", "vd", "vd_adverse", "boundary_error", "crg", "crg_abs")
"""What is known of every protected group, in the order of `GroupLine.values`."""


@dataclass(frozen=True)
class GroupLine:
    """The metrics of one protected group.

    Attributes:
        attribute: the protected attribute.
        group: its value.
        values: in the order of `GROUP_METRICS`; None where undefined.
    """

    attribute: str
    group: str
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Run:
    """One record, as far as it is shown beside others.

    Attributes:
        run_id: its name.
        status: ``ok``, ``skipped`` or ``failed``.
        reason: why not ok.
        config: the whole resolved config.
        values: numbers by key: metrics, ``bits:<layer>`` and ``margin_q:<level>``.
        groups: the protected groups.
        utc: when it was run; empty where the record does not say.
    """

    run_id: str
    status: str
    reason: str | None
    config: dict[str, Any]
    values: dict[str, float]
    groups: tuple[GroupLine, ...]
    utc: str

    @property
    def data(self) -> str:
        """Name of the data set."""
        return str(setting(self.config, "data", "name"))

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(setting(self.config, "method", "name"))

    @property
    def budget(self) -> str:
        """Average weight bits that were asked for, as text."""
        bits = setting(self.config, "budget", "avg_bits")
        return f"{bits:g}" if isinstance(bits, int | float) else "-"

    @property
    def seed(self) -> str:
        """The seed, as text."""
        return str(setting(self.config, "seed"))

    @property
    def seed_number(self) -> int | None:
        """The seed; None where the record does not say it, so that it has no place in a mean."""
        return int(self.seed) if self.seed.isdigit() else None

    @property
    def title(self) -> str:
        """The run in words."""
        words = [
            str(setting(self.config, "backbone", "name")),
            f"{self.budget} bits",
            f"seed {self.seed}",
            split_words(self.config),
        ]
        return f"{self.method} on {self.data} ({', '.join(filter(None, words))})"

    @cached_property
    def table(self) -> str:
        """Key of the table that the run belongs to: all settings that its rows share."""
        shared = {k: v for k, v in self.config.items() if k not in NOT_COMPARED}
        return _key(shared)

    @cached_property
    def curve(self) -> str:
        """Key of the budget curves that the run belongs to: the same, at any budget."""
        shared = {k: v for k, v in self.config.items() if k not in (*NOT_COMPARED, "budget")}
        budget = {k: v for k, v in _part(self.config, "budget").items() if k != "avg_bits"}
        return _key({**shared, "budget": budget})

    @cached_property
    def row(self) -> str:
        """Key of the row that the run belongs to: the method with its own settings."""
        return _key({part: _part(self.config, part) for part in OF_A_ROW})


def setting(config: Mapping[str, Any], *path: str) -> Any:
    """A setting, or `ABSENT` where the version that wrote the record had none.

    >>> setting({"budget": {"avg_bits": 4.0}}, "budget", "avg_bits")
    4.0
    >>> setting({}, "budget", "avg_bits")
    '-'
    """
    value: Any = config
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return ABSENT
        value = value[name]
    return value


def split_words(config: Mapping[str, Any], *, several: bool = False) -> str:
    """On which rows a run was measured, where these are not the test rows; else empty.

    Args:
        config: of a record.
        several: whether it stands beside runs of other splits: then test rows are named, too.

    >>> split_words({"evaluation": {"split": "validation"}})
    'validation rows'
    >>> split_words({"evaluation": {"split": "test"}}, several=True)
    'test rows'
    """
    split = setting(config, "evaluation", "split")
    return "" if split == ABSENT or (split == "test" and not several) else f"{split} rows"


def several_splits(configs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether runs were measured on rows of more than one split."""
    return len({split_words(config) for config in configs}) > 1


def read_run(document: Any, run_id: str) -> Run:
    """Read a record leniently: keys that are missing or unknown do not hide what is there.

    Args:
        document: the parsed JSON.
        run_id: what the file's name says.

    Raises:
        UserError: it is no record, or that of another run.
    """
    if not isinstance(document, dict) or not isinstance(document.get("config"), dict):
        raise UserError("this is no run record")
    if document.get("run_id") != run_id:
        raise UserError(f"it holds the record of run {document.get('run_id')}")
    details = _part(document, "details")
    values = _numbers(_part(document, "metrics"))
    bits = _numbers(_part(details, "deploy/bits_per_layer"))
    values |= {f"bits:{name}": value for name, value in bits.items()}
    values |= _margins(details.get("margins"))
    return Run(
        run_id=run_id,
        status=str(document.get("status", "failed")),
        reason=None if document.get("reason") is None else str(document["reason"]),
        config=document["config"],
        values=values,
        groups=_groups(details.get("groups")),
        utc=str(_part(document, "provenance").get("utc", "")),
    )


def _part(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _key(settings: dict[str, Any]) -> str:
    """Settings as text, without the place of the code that reads them."""
    plain = flat(settings, skip=NOT_A_SETTING)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    known = ((key, _number(value)) for key, value in values.items())
    return {key: value for key, value in known if value is not None}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def _margins(lines: object) -> dict[str, float]:
    """Quantiles of f_q's margin at the teacher's actions."""
    found: dict[str, float] = {}
    for line in lines if isinstance(lines, list) else []:
        level, value = line.get("quantile"), _number(line.get("quantized"))
        if level is not None and value is not None:
            found[f"margin_q:{level:g}"] = value
    return found


def _groups(lines: object) -> tuple[GroupLine, ...]:
    table: dict[tuple[str, str], dict[str, float | None]] = {}
    for line in lines if isinstance(lines, list) else []:
        key = (str(line.get("attribute")), str(line.get("group")))
        table.setdefault(key, {})[str(line.get("metric"))] = _number(line.get("value"))
    return tuple(
        GroupLine(attribute, group, tuple(values.get(name) for name in GROUP_METRICS))
        for (attribute, group), values in table.items()
    )
