"""``key=value`` lines, and the settings that no such line may change."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cfq_bench.config.groups import FILES
from cfq_bench.config.yaml import parse_yaml
from cfq_bench.errors import UserError
from cfq_bench.text import shortened

Changes = dict[tuple[str, ...], Any]
"""New values by the path of the setting, such as ``("method", "eta")``."""


def parse_overrides(overrides: Iterable[str]) -> Changes:
    """Read ``key=value`` lines; of two with the same key, the last one holds.

    Raises:
        UserError: not such a line, not YAML, or a setting that cannot be overridden.
    """
    parsed: Changes = {}
    for text in overrides:
        key, separator, value = text.partition("=")
        path = tuple(key.strip().lstrip("-").split("."))
        shown = shortened(repr(text))
        if not separator or not all(path):
            raise UserError(f"{shown} is not an override: write key=value, such as seed=1")
        parsed[path] = parse_yaml(value, f"the override {shown}")
        for leaf in _leaves(path, parsed[path]):
            refuse_label(leaf)
    return parsed


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[str, ...]]:
    """The settings that an override sets: several where its value is a mapping."""
    yield path
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from _leaves((*path, key), item)


def refuse_label(path: tuple[str, ...]) -> None:
    """Make sure that a setting may be changed by itself.

    A record is what its settings say. One that is changed by a label alone would be the same run
    under a second name, and one that runs other code under a file's name would be a lie.

    Args:
        path: the setting, such as ``("method", "eta")``.

    Raises:
        UserError: it is a label, or what its file's name stands for.
    """
    group, *rest = path
    where = "name it as budget.allocator" if group == "allocator" else f"give --{group} PATH"
    dotted, own = ".".join(path), f"write a YAML file of your own and {where}"
    if path == ("data", "actions"):
        raise UserError(f"{dotted} is the data set's default: write --actions NAME or actions=NAME")
    if group == "data" and rest[:1] == ["features"] and rest[2:] == ["unit"]:
        raise UserError(f"{dotted} only labels and cannot be overridden: {own}")
    if group not in FILES or len(rest) != 1:
        return
    why = {
        "name": f"only labels: it is the stem of the {group}'s YAML file",
        "about": f"only labels: it comes from the {group}'s YAML file",
        **dict.fromkeys(("module", "loader", "kind"), f"is what the {group}'s name stands for"),
    }.get(rest[0])
    if why is not None:
        raise UserError(f"{dotted} {why}, and cannot be overridden: {own}")


def apply(raw: dict[str, Any], changes: Mapping[tuple[str, ...], Any]) -> None:
    """Set nested values in place; a path through a plain value replaces it by a mapping."""
    for path, value in changes.items():
        here = raw
        for part in path[:-1]:
            child = here.get(part)
            if not isinstance(child, dict):
                # A shorthand such as `age: any` becomes {kind: any} before it is refined.
                child = {"kind": child} if isinstance(child, str) else {}
                here[part] = child
            here = child
        here[path[-1]] = value
