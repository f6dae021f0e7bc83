"""The record of one run: everything that a table needs and that a repetition needs."""

import json
import math
import numbers
from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, NoReturn, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from cfq_bench.errors import UserError
from cfq_bench.files import canonical_json
from cfq_bench.files import run_id as run_id


class MadeBy(BaseModel):
    """The code and the data that a record is an answer for; see `cfq_bench.record.identity`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    code: str = Field(description="what computed it, as `codebase.Codebase.identity` names it")
    data: dict[str, str] | None = Field(
        default=None, description="fingerprints of its raw files by name; None: none was read"
    )


class Record(BaseModel):
    """One run, finished (``ok``), impossible (``skipped``) or broken (``failed``).

    NaN and infinities become None on construction: JSON has no word for them, and None says what
    they mean, that the metric is undefined for this run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    run_id: str
    status: Literal["ok", "skipped", "failed"]
    reason: str | None = Field(default=None, description="why not ok; None when ok")
    config: dict[str, Any] = Field(description="the whole resolved config")
    metrics: dict[str, float | None] = Field(description="the protocol's keys")
    counts: dict[str, int] = Field(description="rows behind each rate, by its key")
    details: dict[str, Any] = Field(description="what is no single number")
    provenance: dict[str, Any] = Field(description="code, libraries, machine, time")
    seconds: float = Field(ge=0, allow_inf_nan=False, description="whole run, s")
    made_by: MadeBy | None = Field(
        default=None, description="what it is an answer for; None: an older version made it"
    )

    @model_serializer(mode="wrap")
    def _without_what_is_unknown(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As it was read: a record of an older version keeps its bytes."""
        fields: dict[str, Any] = write(self)
        if self.made_by is None:
            del fields["made_by"]
        return fields

    @field_validator("metrics", "counts", "details", "provenance", mode="before")
    @classmethod
    def _plain_numbers(cls, value: object) -> object:
        return _plain(value)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.status == "ok" and self.reason is not None:
            raise ValueError(f"status 'ok' has a reason, {self.reason!r}: expected none")
        if self.status != "ok" and (self.reason is None or self.reason.strip() == ""):
            raise ValueError(f"status {self.status!r} has no reason: say why")
        canonical_json({"details": self.details, "provenance": self.provenance})
        if self.run_id != (expected := run_id(self.config)):
            raise ValueError(f"run_id {self.run_id!r} is not that of the config, {expected!r}")
        return self

    def to_json(self) -> str:
        """Return the record as JSON text, the same bytes for equal records."""
        return json.dumps(self.model_dump(), indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> Self:
        """Read what `to_json` wrote.

        Args:
            text: the JSON text.
            where: the file that it came from, for the message.

        Raises:
            UserError: the text is cut off, edited, or no record at all.
        """
        try:
            return cls.model_validate(json.loads(text, parse_constant=_refuse_constant))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            why = f"{place}: {first['msg']}" if place else first["msg"]
        except (ValueError, RecursionError) as error:
            why = str(error)
        raise UserError(f"{where} is no valid run record ({why}): delete it or rerun with --force")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _plain(value: object) -> object:
    """Turn NumPy's numbers into Python's, NaN and infinities into None, tuples into lists."""
    kind = type(value)
    if kind is float:  # a page of numbers is plain already: it must not cost a second per thousand
        return value if math.isfinite(cast(float, value)) else None
    if kind in (str, int, bool, NoneType):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    return value
