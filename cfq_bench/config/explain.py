"""One clear line for settings that pydantic refuses."""

from collections.abc import Collection, Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from cfq_bench.errors import UserError, unknown_name
from cfq_bench.text import shortened


def explain(
    error: ValidationError,
    model: type[BaseModel],
    prefix: str,
    file: str,
    overridden: Collection[str],
) -> UserError:
    """Turn a validation error into one line.

    Args:
        error: what pydantic raised.
        model: the model that was being filled.
        prefix: the dotted path of that model in the settings, for example ``method``.
        file: the file that the values come from.
        overridden: dotted paths whose values come from the command line instead.
    """
    first, *others = error.errors()
    loc = [part for part in first["loc"] if not _is_union_tag(part)]
    dotted = ".".join(str(part) for part in [prefix, *loc] if part != "")
    by_hand = any(dotted == path or dotted.startswith(f"{path}.") for path in overridden)
    # What does not fit together may not because of one setting among others.
    within = any(dotted == "" or path.startswith(f"{dotted}.") for path in overridden)
    where = "the overrides" if by_hand else file
    if first["type"] == "value_error" and within and not by_hand:
        where = f"{file} with the overrides"
    more = f" (and {len(others)} more)" if others and first["type"] != "extra_forbidden" else ""
    if first["type"] == "extra_forbidden":
        return unknown_name("setting", dotted, _known(model, loc[:-1], prefix), f"in {where}")
    if first["type"] == "missing":
        beside = any(path.startswith(dotted.rpartition(".")[0]) for path in overridden)
        where = f"{file} with the overrides" if beside else file
        return UserError(f"{where}: the setting {dotted} is missing{more}")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return UserError(f"{where}: {dotted + ': ' if dotted else ''}{message}{more}")
    message = message.replace("Input should be", "must be")
    if first["type"] in ("model_type", "dict_type"):
        message = "must be a mapping, such as {key: value}"
    return UserError(f"{where}: {dotted} {message}, got {shortened(repr(first['input']))}{more}")


def _is_union_tag(part: int | str) -> bool:
    """Pydantic adds the branch of a union to the path: ``literal['tied']``, ``int``."""
    return isinstance(part, str) and (
        part.startswith(("literal[", "constrained-", "function-"))
        or part in ("int", "float", "str", "none")
    )


def _known(model: type[BaseModel], path: Iterable[Any], prefix: str) -> list[str]:
    """Full dotted names of the settings beside an unknown one."""
    here: type[BaseModel] | None = model
    dotted = prefix
    for part in path:
        dotted = f"{dotted}.{part}" if dotted else str(part)
        here = _child(here, part) if here is not None else None
    fields = sorted({*here.model_fields} - {"name"}) if here is not None else []
    return [f"{dotted}.{name}" if dotted else name for name in fields]


def _child(model: type[BaseModel], part: Any) -> type[BaseModel] | None:
    """The model below a field; the value model where the field is a mapping."""
    field = model.model_fields.get(str(part))
    if field is None:  # a key of a mapping such as data.features: the model stays
        return model
    todo: list[Any] = [field.annotation]
    while todo:
        annotation = todo.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        todo.extend(get_args(annotation))
    return None
