"""Errors that a user can act on, and the words they are told in."""

import difflib
from collections.abc import Iterable

from cfq_bench.text import shortened, visible

_LONGEST = 2000
"""Characters of a message; what came is in it, and that may be of any length."""
_GUESSED = 100
"""Characters of a name to which the most similar one is looked for."""


class UserError(Exception):
    """Bad input: one line that names what is wrong, where, what was expected and what to do.

    The command line prints it without a traceback and exits with code 2. Whatever the message
    quotes, it is one line of bounded length.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shortened(visible(message), _LONGEST))


class FolderError(UserError):
    """A folder that cannot be used: no fault of the run that met it, and the next one meets it."""


def some(names: Iterable[str], most: int = 12) -> str:
    """A list for an error message, shortened where it is long.

    >>> some(["a", "b"])
    'a, b'
    >>> some("abcdef", most=3)
    'a, b, c, ... (6 in all)'
    """
    every = list(names)
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown}, ... ({len(every)} in all)"


def unknown_name(kind: str, name: str, known: Iterable[str], where: str = "") -> UserError:
    """Describe a name that does not exist, with the names that do.

    Args:
        kind: what the name should have been, for example ``"method"``.
        name: the name that was given.
        known: the names that exist.
        where: where the name stands, if that helps, for example ``"in mine.yaml"``.

    >>> str(unknown_name("method", "lsc", ["lsq", "pact"]))
    "unknown method 'lsc': did you mean 'lsq'? Known: lsq, pact"
    """
    names = sorted(known)
    # The search takes time that grows with the name's length, and nobody mistypes that much.
    nearest = difflib.get_close_matches(name[:_GUESSED], names, n=1, cutoff=0.5)
    guess = f"did you mean {nearest[0]!r}? " if nearest else ""
    place = f" {where}" if where else ""
    known_names = ", ".join(names) or "none"
    return UserError(f"unknown {kind} {shortened(repr(name))}{place}: {guess}Known: {known_names}")
