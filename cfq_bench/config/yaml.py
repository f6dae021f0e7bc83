"""Reading YAML: numbers as people write them, no repeated keys, errors that name the line.

Scalars are those of YAML 1.2: ``1e-3`` is a number; ``2020-01-01``, ``12:30``, ``yes`` and ``007``
are the words that a table may hold, not a date, 750, true and 7. What settings have no use for is
refused where it stands: tags, merge keys, keys that are no text, infinities, half characters.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from cfq_bench.errors import UserError
from cfq_bench.text import shortened

_MOST_DIGITS = 18
"""Digits of a whole number: what 64 bits hold."""
_DEEPEST = 40
"""Levels of nesting; settings have five."""
_MOST_NODES = 100_000
"""Keys and values of one file, with what its aliases stand for."""
_TAG = "tag:yaml.org,2002:"
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")
"""What a file of a table cannot hold either; its columns and words may have the rest."""


class _Problem(yaml.MarkedYAMLError):
    """What is wrong, and where."""

    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(None, None, problem, mark)


class _Values:
    """Turns YAML's events into values."""

    def __init__(self, text: str) -> None:
        self.events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.SafeLoader)
        self.ahead = next(self.events)
        self.anchors: dict[str, tuple[Any, int] | None] = {}
        self.nodes = 0

    def document(self) -> Any:
        """The value of the one document; None where there is none."""
        self._take()  # the stream's start
        if isinstance(self.ahead, yaml.StreamEndEvent):
            return None
        self._take()  # the document's
        value = self._value(0)
        self._take()
        if not isinstance(self.ahead, yaml.StreamEndEvent):
            raise _Problem("a second document begins here: write one", self.ahead.start_mark)
        return value

    def _take(self) -> yaml.Event:
        taken = self.ahead
        if not isinstance(taken, yaml.StreamEndEvent):
            self.ahead = next(self.events)
        return taken

    def _value(self, depth: int) -> Any:
        event = self._take()
        if isinstance(event, yaml.AliasEvent):
            return self._named(event)
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if event.tag is not None:
            name = shortened(event.tag.replace(_TAG, "!!"))
            raise _Problem(f"the tag {name} is not read: write the plain value", event.start_mark)
        if depth > _DEEPEST:
            raise _Problem(f"nested more than {_DEEPEST} levels deep", event.start_mark)
        before = self.nodes
        self._count(1, event)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(self.ahead, yaml.SequenceEndEvent):
                value.append(self._value(depth + 1))
            self._take()
        else:
            value = self._mapping(depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, self.nodes - before)
        return value

    def _mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(self.ahead, yaml.MappingEndEvent):
            mark, plain = self.ahead.start_mark, getattr(self.ahead, "style", None) is None
            key = self._value(depth + 1)
            if not isinstance(key, str):
                raise _Problem(_no_key(key), mark)
            if key == "<<" and plain:
                raise _Problem("the merge key << is not read: write the keys out", mark)
            if key in found:
                raise _Problem(f"the key {shortened(repr(key))} is given twice", mark)
            found[key] = self._value(depth + 1)
        self._take()
        return found

    def _named(self, event: yaml.AliasEvent) -> Any:
        """A copy of what an alias stands for; of copies of copies, only so many."""
        name = shortened(str(event.anchor))
        if event.anchor not in self.anchors:
            raise _Problem(f"the alias *{name} stands for nothing: no &{name}", event.start_mark)
        known = self.anchors[event.anchor]
        if known is None:
            raise _Problem(f"the alias *{name} stands inside what it names", event.start_mark)
        value, nodes = known
        self._count(nodes, event)
        return deepcopy(value)

    def _count(self, nodes: int, event: yaml.NodeEvent) -> None:
        self.nodes += nodes
        if self.nodes > _MOST_NODES:
            raise _Problem(f"more than {_MOST_NODES} keys and values", event.start_mark)


def _no_key(key: object) -> str:
    if key is None:
        return "an empty key: write a name before the colon"
    if isinstance(key, dict | list):
        kind = "a mapping" if isinstance(key, dict) else "a list"
        return f"{kind} cannot be a key: write a name before the colon"
    text = str(key).lower() if isinstance(key, bool) else shortened(str(key))
    return f"the key {text} is not text: quote it, as in '{text}'"


_FLOAT = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?")
_INT = re.compile(r"[-+]?(0|[1-9]\d*)")
_WORDS: dict[str, bool | None] = {
    word: value
    for words, value in (("true True TRUE", True), ("false False FALSE", False))
    for word in words.split()
} | dict.fromkeys(("", "~", "null", "Null", "NULL"))
_ENDLESS = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def _scalar(event: yaml.ScalarEvent) -> Any:
    """A word, a number, true, false or null."""
    text, mark = event.value, event.start_mark
    if found := _NOT_TEXT.search(text):
        raise _Problem(f"the character {found[0]!r} is not text", mark)
    if not event.implicit[0]:  # quoted, or a block of text
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        digits = len(text.lstrip("+-"))
        if digits > _MOST_DIGITS:
            raise _Problem(f"a number of {digits} digits: at most {_MOST_DIGITS} are read", mark)
        return int(text)
    number = float(text) if _FLOAT.fullmatch(text) else None
    if _ENDLESS.fullmatch(text) or number in (float("inf"), float("-inf")):
        raise _Problem(f"{shortened(text)} is not a finite number: quote it if it is a word", mark)
    return text if number is None else number


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML text.

    Args:
        text: the YAML.
        where: what an error calls it: a file's path or ``the command line``.

    Raises:
        UserError: not YAML, or more of it than settings need; the message names the line.

    >>> parse_yaml("{lr: 1e-3, day: 2020-01-01, code: 007}", "example")
    {'lr': 0.001, 'day': '2020-01-01', 'code': '007'}
    """
    return deepcopy(_parsed(text, where))


@lru_cache(maxsize=1024)
def _parsed(text: str, where: str) -> Any:
    """As `parse_yaml`; a suite reads the same few files hundreds of times."""
    try:
        return _Values(text).document()
    except yaml.reader.ReaderError as error:
        why = f"the character {chr(error.character)!r} is not text"
        raise UserError(f"{where}: not valid YAML: {why}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise UserError(f"{where}{line}: not valid YAML: {error.problem}") from None
    except ValueError:  # an escape such as "\UFFFFFFFF"
        raise UserError(f"{where}: not valid YAML: an escape that is no character") from None


def read_named(path: Path, name: str) -> dict[str, Any]:
    """Read a YAML file that is known under `name`, which becomes its first key.

    Raises:
        UserError: as `read_yaml`, or the file gives itself a name.
    """
    raw = read_yaml(path)
    if "name" in raw:
        raise UserError(f"{path}: name is the file's stem, {name!r}: leave the key out")
    return {"name": name, **raw}


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping.

    Raises:
        UserError: the file is missing, unreadable, not YAML or not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or no path at all
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"cannot read {path}: {reason}") from None
    value = parse_yaml(text, str(path))
    if not isinstance(value, dict):
        kind = "nothing" if value is None else "a list" if isinstance(value, list) else "one value"
        raise UserError(f"{path}: expected 'key: value' lines, got {kind}")
    return value
