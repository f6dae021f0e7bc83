"""Text from outside (files, people, exceptions), so that it stays on its line and shows itself."""

import re
from typing import TypeVar, cast

T = TypeVar("T")

_HIDDEN = re.compile(
    # Control characters, what reorders or hides text, half characters, and what XML forbids.
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069"
    "\ud800-\udfff\ufeff\ufffe\uffff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str, keep: str = "") -> str:
    r"""Text with its line breaks, control characters and marks of direction written out.

    Args:
        text: from anywhere.
        keep: of these characters, those that may stay.

    >>> visible("one\ntwo \u202eeerht")
    'one\\ntwo \\u202eeerht'
    """

    def written(found: re.Match[str]) -> str:
        letter = found[0]
        return letter if letter in keep else _SHORT.get(letter, f"\\u{ord(letter):04x}")

    return _HIDDEN.sub(written, text)


def shown(value: T) -> T:
    r"""A value for a page: every plain text in it `visible`, but for breaks between its lines.

    >>> shown({"label": "a\nb\x1b", "seed": 0})
    {'label': 'a\nb\\u001b', 'seed': 0}
    """
    found: object = value
    if type(value) is str:  # markup that is known to be safe is of a type of its own
        found = visible(str(value), keep="\n\t")
    elif isinstance(value, dict):
        found = {shown(key): shown(item) for key, item in value.items()}
    elif isinstance(value, list):
        found = [shown(item) for item in value]
    return cast(T, found)


def hidden(text: str) -> str | None:
    """The first character that `visible` would write out, written out; None where there is none."""
    found = _HIDDEN.search(text)
    return None if found is None else visible(found[0])


def shortened(text: str, most: int = 80) -> str:
    """Text of at most so many characters; what is cut out of its middle is three dots.

    >>> shortened("a long line of text", most=11)
    'a lo...text'
    """
    if len(text) <= most:
        return text
    end = (most - 3) // 2
    return f"{text[: most - 3 - end]}...{text[len(text) - end :]}"
