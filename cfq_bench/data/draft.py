"""A first draft of the two YAML files of a user's own table, made by looking at the file.

The draft is meant to be read: every guess stands beside a comment that says what to review. It is
also meant to run: a drafted pair passes `cfq-bench data check` as it is, if the target is right and
something is left to change.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cfq_bench.config.tablefile import TableFile
from cfq_bench.data.fields import UNNAMED
from cfq_bench.data.formats import Look
from cfq_bench.data.inspection import Column, inspect
from cfq_bench.data.label import gives_away, guess_favourable, guess_target
from cfq_bench.data.numbers import is_words, with_numbers
from cfq_bench.data.words import named, plain, shown
from cfq_bench.data.yaml_text import comment, entry, quoted, scalar
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
    look: Look
    target: str
    favourable: object
    guessed_target: bool
    guessed_favourable: bool
    rows: int
    missing: str
    missing_rows: int


def draft(
    look: Look, file: str, actions_file: str, target: str | None, favourable: str | None
) -> Draft:
    """Inspect a table and write both YAML texts.

    Args:
        look: the table and how its file is written, as `formats.look` finds it.
        file: its file name, beside which the YAML files stand.
        actions_file: name of the actions YAML.
        target: the label column; None: guessed.
        favourable: its favourable value; None: guessed.

    Raises:
        UserError: no column can be the target, or none is left to be a feature.
    """
    frame = look.reading.frame
    label = guess_target(frame, shown(file), target)
    value, sure = guess_favourable(frame[label], label, shown(file), favourable)
    unlabelled = int(frame[label].isna().sum())
    frame = frame[frame[label].notna()]
    columns = [
        _looked_at(frame[name], frame[label], look) for name in frame.columns if name != label
    ]
    used = [column for column in columns if column.kind is not None]
    if not used:
        raise UserError(f"{shown(file)}: no column is left to be a feature")
    empty = int(frame[[column.name for column in used]].isna().any(axis=1).sum())
    # A label cannot be imputed; a row without one is dropped, and then so are the others.
    missing = "drop" if unlabelled else "impute" if empty else "refuse"
    facts = _Facts(
        file=file,
        actions_file=actions_file,
        look=look,
        target=label,
        favourable=value,
        guessed_target=target is None,
        guessed_favourable=favourable is None and not sure,
        rows=len(frame) - (empty if missing == "drop" else 0),
        missing=missing,
        missing_rows=empty + unlabelled,
    )
    left_out = [
        f"{shown(c.name)}: {', '.join(c.notes + c.questions)}" for c in columns if c.kind is None
    ]
    left_out += [
        f"{shown(name)}: holds {kind}, not one value a row"
        for name, kind in look.reading.unusable.items()
    ]
    texts = _data_yaml(used, left_out, facts), _actions_yaml(used, file)
    return Draft(*texts, _notes(used, left_out, facts))


def _looked_at(values: pd.Series, labels: pd.Series, look: Look) -> Column:
    """One column, with all that is to be asked about it."""
    column = inspect(values, look.how)
    column.questions += look.doubts.get(column.name, [])
    if column.kind is None:
        if column.name.startswith(UNNAMED):
            column.notes.append("such are the row numbers that pandas and R write")
        return column
    if column.kind in ("numeric", "integer") and is_words(values):
        values = with_numbers(values, look.how)
    way = gives_away(values, labels)
    if way is not None:
        column.questions.insert(0, f"{way}: leave out what is known afterwards")
    return column


def _notes(used: list[Column], left_out: list[str], facts: _Facts) -> list[str]:
    """What `data init` prints: the label, how the file is written, what to look at."""
    notes = [
        f"target {named(facts.target)}, favourable {named(plain(facts.favourable))}; "
        f"{len(used)} features",
        *_form_notes(facts.look),
        *(f"left out {text}" for text in left_out),
    ]
    if facts.missing != "refuse":
        done = {"drop": "dropped", "impute": "imputed"}[facts.missing]
        notes.append(f"{facts.missing_rows} rows have missing values: {done} unless you say other")
    if all(column.judgement.action == "immutable" for column in used):
        notes.append("nothing is left that a person may change: say so of one feature at least")
    for column in used:
        notes += [f"review {shown(column.name)}: {question}" for question in column.questions]
    return notes


def _form_notes(look: Look) -> list[str]:
    """How the file is written, where it is not plain CSV."""
    lines = [line.partition("  # ") for line in _form_lines(look)]
    return [
        *look.reading.notes,
        *(line + (f" ({why})" if why else "") for line, _, why in lines),
    ]


def _form_lines(look: Look) -> list[str]:
    """Settings that the file needs to be read, each with its reason."""
    lines = []
    for name in TableFile.LATER:
        value = getattr(look.how, name)
        if value == TableFile.model_fields[name].default:
            continue
        if isinstance(value, list):
            written = f"[{', '.join(map(quoted, value))}]"
        else:
            written = "true" if value is True else quoted(value)
        lines.append(f"{name}: {written}{comment([look.why.get(name, '')])}")
    return lines


def _data_yaml(used: list[Column], left_out: list[str], facts: _Facts) -> str:
    review = ["a guess: review"] if facts.guessed_target else []
    hope = "what a person hopes for" + (", a guess: review" * facts.guessed_favourable)
    lines = [
        f"# Drafted from {shown(facts.file)}. Review what has a comment; `cfq-bench data check` "
        "tests it.",
        f"about: {quoted(Path(facts.file).stem + ', a table of our own')}",
        f"loader: {quoted(facts.file)}",
        *_form_lines(facts.look),
        *(f"# {note}" for note in facts.look.reading.notes),
        "target:",
        f"  column: {quoted(facts.target)}{comment(review)}",
        f"  favourable: {scalar(facts.favourable)}  # {hope}",
        "features:  # kind: numeric, integer, categorical, or ordinal with its order: [...]",
    ]
    for column in used:
        lines += _feature_lines(column)
    if left_out:
        lines += ["# Left out:", *(f"#   {' '.join(text.split())}" for text in left_out)]
    personal = [quoted(column.name) for column in used if column.judgement.personal]
    train = max(2, round(0.8 * facts.rows))
    lines += [
        f"protected: [{', '.join(personal)}]  # features whose groups are reported apart: review",
        f"split: {{train: {train}, validation: 0.15}}  # rows to train on; the others are the test",
        f"fit: {_fit(facts.rows)}",
        f"actions: {quoted(facts.actions_file)}",
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


def _feature_lines(column: Column) -> list[str]:
    """The feature; where it may have codes, a commented line that makes them missing values."""
    parts = [f"kind: {column.kind}"]
    if column.kind in ("numeric", "integer"):
        parts.append('unit: ""')
    if column.log1p:
        parts.append("transform: log1p")
    if column.order is not None:
        parts.append(f"order: [{', '.join(map(quoted, column.order))}]")
    lines = [
        entry(column.name, f"{{{', '.join(parts)}}}{comment(column.notes + column.questions)}")
    ]
    if column.codes:
        parts.append(f"missing_codes: [{', '.join(map(str, column.codes))}]")
        instead = entry(column.name, f"{{{', '.join(parts)}}}")
        lines.append("  # if they mean missing, this in its place (and missing: impute, or drop):")
        lines += [f"  #{line[1:]}" for line in instead.splitlines()]
    return lines


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
        f"# Drafted from {shown(file)}: what a person may do to each feature. Review every line:",
        "#   immutable, any, increase_only or decrease_only (the last two not for categorical),",
        "#   or {kind: any, low: 0, high: 40, step: 5} with the least and greatest reachable value",
        "#   (low_percentile, high_percentile: as shares of the train rows) and its multiples.",
        f"about: {quoted(Path(file).stem + ', a first draft')}",
        f"max_features: {min(4, len(used))}  # at most this many features change at once",
        "bounds: {low: 0.005, high: 0.995}  # default reach, as percentiles of the train rows",
        "gamma: 1.0",
        "grid: true  # whole numbers stay whole",
        "cost: weighted_l1",
        "features:",
        *(entry(column.name, _action(column)) for column in used),
    ]
    return "\n".join(lines) + "\n"


def _action(column: Column) -> str:
    judged = column.judgement
    ends = [
        f"{end}: {plain(value)}"
        for end, value in (("low", column.low), ("high", column.high))
        if value is not None
    ]
    if not ends or judged.action == "immutable":
        return judged.action + comment([judged.reason])
    codes = " and ".join(map(str, column.codes))
    body = f"{{kind: {judged.action}, {', '.join(ends)}}}"
    return body + comment([judged.reason, f"not as far as {codes}, which may be codes"])
