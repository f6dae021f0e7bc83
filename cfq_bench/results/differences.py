"""Settings as flat text, and where two of them differ: what tables are told apart by."""

from collections.abc import Collection, Mapping
from typing import Any

ABSENT = "-"
"""Stands for a setting that the version which wrote a record had not."""


def flat(config: Mapping[str, Any], skip: Collection[str] = (), prefix: str = "") -> dict[str, Any]:
    """Settings by their dotted names.

    Args:
        config: nested mappings.
        skip: names that are left out at any depth.
        prefix: goes before every name.

    >>> flat({"a": {"b": 1, "module": "x"}, "c": [2]}, skip=["module"])
    {'a.b': 1, 'c': [2]}
    """
    found: dict[str, Any] = {}
    for key, value in config.items():
        if key in skip:
            continue
        if isinstance(value, Mapping):
            found |= flat(value, skip, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def changes(mine: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    """Settings that differ, as ``key=value``; a setting that one of both lacks is a difference.

    >>> changes({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}, "d": 3})
    ['a.c=2', 'd=-']
    """
    ours, theirs = flat(mine), flat(usual)
    keys = [key for key in (ours | theirs) if ours.get(key, ABSENT) != theirs.get(key, ABSENT)]
    return [f"{key}={ours.get(key, ABSENT)}" for key in keys]
