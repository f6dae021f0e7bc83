"""Reading YAML: numbers as people write them, no repeated keys, errors that name the line."""

import re
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from cfq_bench.errors import UserError


class _Loader(yaml.SafeLoader):
    """SafeLoader that reads ``1e-3`` as a number (YAML 1.2) and refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)$"),
    list("-+.0123456789"),
)


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML text.

    Args:
        text: the YAML.
        where: what an error calls it: a file's path or ``the command line``.

    Raises:
        UserError: not YAML; the message names the line.

    >>> parse_yaml("lr: 1e-3", "example")
    {'lr': 0.001}
    """
    return deepcopy(_parsed(text, where))


@lru_cache(maxsize=1024)
def _parsed(text: str, where: str) -> Any:
    """As `parse_yaml`; a suite reads the same few files hundreds of times."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "cannot be read"
        raise UserError(f"{where}{line}: not valid YAML: {problem}") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping.

    Raises:
        UserError: the file is missing, unreadable, not YAML or not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"cannot read {path}: {reason}") from None
    value = parse_yaml(text, str(path))
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected 'key: value' lines, got {type(value).__name__}")
    return value
