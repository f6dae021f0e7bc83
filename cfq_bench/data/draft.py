"""A first draft of the two YAML files of a user's own table, made by looking at the file.

The draft is meant to be read: every guess stands beside a comment that says what to review. It is
also meant to run: a drafted pair passes `cfq-bench data check` as it is, if the target is right.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cfq_bench.data.inspection import (
    Column,
    gives_away,
    guess_favourable,
    guess_target,
    inspect,
    plain,
)
from cfq_bench.errors import UserError


@dataclass(frozen=True)
class Draft:
    """The texts of both files, and what to say about them."""

    data: str
    actions: str
    notes: list[str]


@dataclass(frozen=True)
class _Facts:
    file: str
    actions_file: str
    target: str
    favourable: object
    guessed_target: bool
    guessed_favourable: bool
    rows: int
    missing: str
    missing_rows: int


def draft(
    frame: pd.DataFrame, file: str, actions_file: str, target: str | None, favourable: str | None
) -> Draft:
    """Inspect a table and write both YAML texts.

    Args:
        frame: the table as `read_file` gives it.
        file: its file name, beside which the YAML files stand.
        actions_file: name of the actions YAML.
        target: the label column; None: guessed.
        favourable: its favourable value; None: guessed.

    Raises:
        UserError: no column can be the target, or none is left to be a feature.
    """
    label = guess_target(frame, file, target)
    value, sure = guess_favourable(frame[label], label, file, favourable)
    unlabelled = int(frame[label].isna().sum())
    frame = frame[frame[label].notna()]
    columns = [inspect(frame[name]) for name in frame.columns if name != label]
    used = [column for column in columns if column.kind is not None]
    given_away = []
    for column in used:
        if gives_away(frame[column.name], frame[label]):
            column.notes.append("tells the target almost alone: leave out what is known afterwards")
            given_away.append(f"review {column.name}: {column.notes[-1]}")
    if not used:
        raise UserError(f"{file}: no column is left to be a feature")
    empty = int(frame[[column.name for column in used]].isna().any(axis=1).sum())
    # A label cannot be imputed; a row without one is dropped, and then so are the others.
    missing = "drop" if unlabelled else "impute" if empty else "refuse"
    facts = _Facts(
        file=file,
        actions_file=actions_file,
        target=label,
        favourable=value,
        guessed_target=target is None,
        guessed_favourable=favourable is None and not sure,
        rows=len(frame) - (empty if missing == "drop" else 0),
        missing=missing,
        missing_rows=empty + unlabelled,
    )
    left_out = [f"{c.name}: {', '.join(c.notes)}" for c in columns if c.kind is None]
    notes = [f"left out {text}" for text in left_out]
    if missing != "refuse":
        done = {"drop": "dropped", "impute": "imputed"}[missing]
        notes.append(f"{facts.missing_rows} rows have missing values: {done} unless you say other")
    summary = f"target {label!r}, favourable {plain(value)!r}; {len(used)} features"
    notes = [summary, *notes, *given_away]
    return Draft(_data_yaml(used, left_out, facts), _actions_yaml(used, file), notes)


def _scalar(value: object) -> str:
    """A label value as YAML: a number, or a quoted word."""
    if isinstance(value, bool | np.bool_):
        return str(int(value))  # True == 1, also in the table
    if isinstance(value, int | float | np.number) and float(value).is_integer():
        return str(int(value))
    return _quoted(str(value))


def _quoted(word: str) -> str:
    return json.dumps(word, ensure_ascii=False)


def _key(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][\w.]*", name) and name.lower() not in (
        "yes no on off true false null y n".split()
    )
    return name if plain else _quoted(name)


def _comment(notes: list[str]) -> str:
    return "" if not notes else "  # " + "; ".join(" ".join(note.split()) for note in notes)


def _data_yaml(used: list[Column], left_out: list[str], facts: _Facts) -> str:
    review = ["a guess: review"] if facts.guessed_target else []
    hope = "what a person hopes for" + (", a guess: review" * facts.guessed_favourable)
    lines = [
        f"# Drafted from {facts.file}. Review what has a comment; `cfq-bench data check` tests it.",
        f"about: {_quoted(Path(facts.file).stem + ', a table of our own')}",
        f"loader: {_quoted(facts.file)}",
        "target:",
        f"  column: {_quoted(facts.target)}{_comment(review)}",
        f"  favourable: {_scalar(facts.favourable)}  # {hope}",
        "features:  # kind: numeric, integer, categorical, or ordinal with its order: [...]",
    ]
    for column in used:
        transform = ", transform: log1p" if column.log1p else ""
        unit = "" if column.kind == "categorical" else ', unit: ""'
        body = f"{{kind: {column.kind}{unit}{transform}}}"
        lines.append(f"  {_key(column.name)}: {body}{_comment(column.notes)}")
    if left_out:
        lines += ["# Left out:", *(f"#   {' '.join(text.split())}" for text in left_out)]
    personal = [_quoted(column.name) for column in used if column.personal]
    train = max(2, round(0.8 * facts.rows))
    lines += [
        f"protected: [{', '.join(personal)}]  # features whose groups are reported apart: review",
        f"split: {{train: {train}, validation: 0.15}}  # rows to train on; the others are the test",
        f"fit: {_fit(facts.rows)}",
        f"actions: {_quoted(facts.actions_file)}",
    ]
    if facts.missing == "impute":
        lines.append(
            f"missing: impute  # {facts.missing_rows} rows have missing values: the train rows' "
            "median, or most frequent category; or drop"
        )
    if facts.missing == "drop":
        lines.append(f"missing: drop  # {facts.missing_rows} rows lack a feature or the label")
    if any(column.rare for column in used):
        lines.append("unseen: ignore  # some categories are rare; a train split may lack them")
    return "\n".join(lines) + "\n"


def _fit(rows: int) -> str:
    """Training lengths of the packaged data sets of that size."""
    small, epochs = rows < 2000, 40
    for least, fewer in ((2000, 20), (15_000, 5), (200_000, 2), (800_000, 1)):
        epochs = fewer if rows >= least else epochs
    teacher = 60 if rows < 15_000 else max(5, min(25, 5 * epochs))
    batch, decay = (64, "1.0e-3") if small else (256, "1.0e-4")
    return (
        f"{{batch_size: {batch}, teacher_epochs: {teacher}, epochs: {epochs}, "
        f"weight_decay: {decay}}}"
    )


def _actions_yaml(used: list[Column], file: str) -> str:
    lines = [
        f"# Drafted from {file}: what a person may do to each feature. Review every line:",
        "#   immutable, any, increase_only or decrease_only (the last two not for categorical),",
        "#   or {kind: any, low: 0, high: 40, step: 5} with the least and greatest reachable value",
        "#   (low_percentile, high_percentile: as shares of the train rows) and its multiples.",
        f"about: {_quoted(Path(file).stem + ', a first draft')}",
        f"max_features: {min(4, len(used))}  # at most this many features change at once",
        "bounds: {low: 0.005, high: 0.995}  # default reach, as percentiles of the train rows",
        "gamma: 1.0",
        "grid: true  # whole numbers stay whole",
        "cost: weighted_l1",
        "features:",
    ]
    fixed = all(column.action == "immutable" for column in used)
    for column in used:
        personal = column.action == "immutable" and not fixed
        note = ["personal"] if personal else []
        action = column.action if not fixed else "any"
        lines.append(f"  {_key(column.name)}: {action}{_comment(note)}")
    return "\n".join(lines) + "\n"
