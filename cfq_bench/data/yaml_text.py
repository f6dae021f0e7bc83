"""Lines of YAML that are read back as what they were written from, whatever a column is called."""

import re
from collections.abc import Sequence

import numpy as np

from cfq_bench.data.words import shown

_LONGEST_KEY = 1000
"""Characters of a key that YAML still finds the colon of; longer ones need a question mark."""


def scalar(value: object) -> str:
    """A label value as YAML: a number, or a quoted word."""
    if isinstance(value, bool | np.bool_):
        return str(int(value))  # True == 1, also in the table
    if isinstance(value, int | float | np.number) and float(value).is_integer():
        return str(int(value))
    return quoted(str(value))


def quoted(word: str) -> str:
    r"""A word as a double-quoted YAML scalar that comes back as it was.

    >>> quoted('a"b\n')
    '"a\\"b\\n"'
    """
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(short.get(c) or (c if c.isprintable() else _escape(c)) for c in word) + '"'


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def entry(name: str, body: str) -> str:
    """A line of a mapping, in two where the key is too long for one."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) and name.lower() not in (
        "yes no on off true false null y n".split()
    )
    key = name if plain else quoted(name)
    return f"  {key}: {body}" if len(key) < _LONGEST_KEY else f"  ? {key}\n  : {body}"


def comment(notes: Sequence[str]) -> str:
    """What stands behind a line; nothing without notes."""
    said = [shown(" ".join(note.split()), most=400) for note in notes if note]
    return "  # " + "; ".join(said) if said else ""
