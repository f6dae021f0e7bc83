"""How a table of one's own is written: its encoding, separator, numbers and missing words."""

from typing import ClassVar, Literal

from pydantic import field_validator, model_validator

from cfq_bench.config.base import Later

COMPRESSED = ("", ".gz", ".xz", ".bz2", ".zip")
TEXT_FILES = tuple(
    kind + packed for kind in (".csv", ".tsv", ".tab", ".txt") for packed in COMPRESSED
)
TABLE_FILES = (*TEXT_FILES, ".parquet")
"""Names of files that are a table; any other ``loader`` is a module."""


class TableFile(Later):
    """How a user's own file is to be read. `cfq-bench data init` drafts the lines that it needs."""

    LATER: ClassVar[tuple[str, ...]] = (
        "encoding",
        "separator",
        "decimal",
        "thousands",
        "negative_brackets",
        "missing_words",
    )

    encoding: str = "utf-8"
    """Encoding of a text file, such as latin-1 or utf-16."""
    separator: Literal[",", ";", "\t", "|"] | None = None
    """What separates the fields of a text file; null: the one that gives whole rows, a comma
    before the others."""
    decimal: Literal[".", ","] = "."
    """The decimal sign of numbers."""
    thousands: Literal[",", ".", " ", "'"] | None = None
    """What may stand between groups of three digits; null: a comma, where it is not the decimal
    sign."""
    negative_brackets: bool = False
    """Whether (300) is -300."""
    missing_words: list[str] | None = None
    """The words that stand for a missing value, beside the empty field; null: those of pandas (NA,
    N/A, NaN, None, null, ...) in text files, and none in parquet."""

    @field_validator("encoding")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            b"a".decode(name)
        except UnicodeError:  # one letter is no whole text in UTF-16
            return name
        except (LookupError, ValueError):
            raise ValueError(
                f"{name!r} is no encoding of text: write utf-8, latin-1, cp1252 or utf-16"
            ) from None
        return name

    @model_validator(mode="after")
    def _two_signs(self) -> "TableFile":
        if self.thousands == self.decimal:
            raise ValueError(
                f"decimal and thousands are both {self.decimal!r}: name two different signs"
            )
        return self
