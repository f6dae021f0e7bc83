"""What a run needs of a table: values that are there, of their kind, and a label of two values."""

import numpy as np
import pandas as pd

from cfq_bench.config.settings import DataSettings
from cfq_bench.data.numbers import is_words
from cfq_bench.data.words import counted, named, shown, spelled_alike
from cfq_bench.errors import UserError, some


def check_frame(frame: pd.DataFrame, settings: DataSettings, source: str) -> None:
    """Refuse missing values, non-numbers in numeric columns, unusable labels.

    Raises:
        UserError: names the column, the row, what was expected and what came.
    """
    target = settings.target.column
    _refuse_missing(frame[target], source, " (a label cannot be imputed)")
    if settings.missing != "impute":
        for name in settings.features:
            _refuse_missing(frame[name], source, " or impute")
    check_kinds(frame, settings, source)
    _check_target(frame[target], settings, source)


def check_kinds(frame: pd.DataFrame, settings: DataSettings, source: str) -> None:
    """Refuse values that are not of their feature's kind."""
    for name, feature in settings.features.items():
        if feature.kind in ("numeric", "integer"):
            _check_numbers(frame, name, settings, source)
        elif feature.order is not None:
            _check_order(frame, name, feature.order, source)


def _refuse_missing(column: pd.Series, source: str, otherwise: str) -> None:
    empty = column.isna().to_numpy()
    if empty.any():
        row = column.index[int(empty.argmax())]
        raise UserError(
            f"{source}: column {named(column.name)} has {int(empty.sum())} missing values, the "
            f"first in row {row}: fill them in, or set data.missing to drop{otherwise}"
        )


def _check_numbers(frame: pd.DataFrame, name: str, settings: DataSettings, source: str) -> None:
    column, feature = frame[name], settings.features[name]
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    if pd.api.types.is_datetime64_any_dtype(column):  # pandas turns dates into nanoseconds
        numbers = np.full(len(frame), np.nan)
    if is_words(column):  # pandas would read 1.5 where the decimal sign is a comma
        is_word = column.map(lambda value: isinstance(value, str)).to_numpy(dtype=bool)
        numbers = np.where(is_word, np.nan, numbers)
    present = column.notna().to_numpy()
    wrong = ~np.isfinite(numbers) & present
    expected = "a number" + ("" if settings.decimal == "." else " with a decimal comma")
    if not wrong.any() and feature.kind == "integer":
        wrong, expected = (numbers != np.round(numbers)) & present, "a whole number"
    if not wrong.any() and feature.transform == "log1p":
        wrong, expected = numbers < 0, "a number of at least 0 (its transform is log1p)"
    if wrong.any():
        position = int(wrong.argmax())
        raise UserError(
            f"{source}: column {named(name)}, row {frame.index[position]}: expected {expected}, "
            f"got {_value(column.iloc[position])}"
        )


def _value(value: object) -> str:
    return named(value) if isinstance(value, str) else shown(repr(value))


def _check_order(frame: pd.DataFrame, name: str, order: list[str], source: str) -> None:
    wrong = (~frame[name].astype(str).isin(order) & frame[name].notna()).to_numpy()
    if wrong.any():
        position = int(wrong.argmax())
        raise UserError(
            f"{source}: column {named(name)}, row {frame.index[position]}: expected one of "
            f"{some(map(shown, order))}, got {_value(frame[name].iloc[position])}"
        )


def _check_target(column: pd.Series, settings: DataSettings, source: str) -> None:
    values = column.unique().tolist()
    favourable = settings.target.favourable
    where = f"{source}: target column {named(settings.target.column)}"
    for group in spelled_alike(column):
        raise UserError(
            f"{where} spells the same word in several ways, {counted(group)}: write it one way"
        )
    if len(values) != 2:
        found = some((named(value) for value in sorted(map(str, values))), 5)
        raise UserError(f"{where} must have exactly 2 values, got {len(values)}: {found}")
    if favourable not in values:
        raise UserError(
            f"{where} never has the favourable value {_value(favourable)}; its values are "
            f"{_value(values[0])} and {_value(values[1])}"
        )
