"""Data sets as text: the list, one described with its action set, and what a check found."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.config.loader import known_names
from cfq_bench.config.settings import FeatureSettings, Settings
from cfq_bench.config.yaml import read_yaml
from cfq_bench.data.dataset import TabularData, load_data
from cfq_bench.data.sources import is_published, locate, named_data_dir, raw_files
from cfq_bench.data.table import Table, read_table
from cfq_bench.errors import UserError

DESCRIBED_SEED = 0
"""The seed whose split is described and checked."""


def data_list(conf_dir: Path | None, data_dir: Path | None) -> str:
    """Every data set: its name, where its files are, what it is."""
    rows = []
    for name, path in known_names("data", conf_dir).items():
        raw = read_yaml(path)
        rows.append([name, _state(str(raw["loader"]), named_data_dir(data_dir)), raw["about"]])
    return _aligned(rows)


def _state(loader: str, data_dir: Path | None) -> str:
    files = raw_files(loader)
    found = [locate(raw, data_dir) for raw in files]
    if None not in found:
        return f"in {found[0].parent}" if found and found[0] is not None else "ready"
    return "to be downloaded" if all(raw.url for raw in files) else "to be fetched by hand"


def check_page(settings: Settings, data_dir: Path | None) -> str:
    """Load everything that a run would; one line that it is sound, and notes worth reading.

    Raises:
        UserError: what is wrong, with column and row.
    """
    folder = named_data_dir(data_dir)
    table = read_table(settings.data, folder)
    data, space = _resolved(settings, folder)
    lines = [f"{settings.data.name}: sound, with actions {settings.actions.name}"]
    lines.append(
        f"  {_rows(data)}, {len(settings.data.features)} features, d = {data.schema.width}"
    )
    return (
        "\n".join([*lines, *(f"  note: {note}" for note in _notes(settings, table, data, space))])
        + "\n"
    )


def _resolved(settings: Settings, data_dir: Path | None) -> tuple[TabularData, ActionSet]:
    data = load_data(settings.data, DESCRIBED_SEED, data_dir)
    return data, ActionSet(data.schema, settings.actions, data.train.x)


def _notes(settings: Settings, table: Table, data: TabularData, space: ActionSet) -> list[str]:
    notes = []
    for raw in raw_files(settings.data.loader):
        path = Path(table.source).parent / raw.name
        if path.is_file() and not is_published(raw, path):
            notes.append(f"{path} is not the published file (its sha256 differs)")
    columns = [*settings.data.features, settings.data.target.column]
    empty = table.frame[columns].isna()
    if empty.to_numpy().any():
        done = {"drop": "dropped", "impute": "imputed"}[settings.data.missing]
        notes.append(f"{int(empty.any(axis=1).sum())} rows with missing values are {done}")
    for j, feature in enumerate(data.schema.features):
        constant = feature.scale_source == "one" if feature.single else len(feature.categories) < 2
        if constant:
            notes.append(f"column {feature.name!r} has one value in the train split")
        elif feature.single and not space.immutable[j] and bool(space.low[j] == space.high[j]):
            notes.append(f"column {feature.name!r} may change but its bounds leave one value")
    for start, stop in data.schema.groups:
        every = torch.cat([data.validation.x, data.test.x])[:, start:stop]
        unseen = int((every.sum(dim=1) == 0).sum())
        if unseen:
            name = data.schema.features[int(data.schema.feature_of_column[start])].name
            notes.append(
                f"column {name!r} has a category unknown to the train split in {unseen} rows"
            )
    return notes


def description(settings: Settings, data_dir: Path | None) -> str:
    """A data set and its action set as a page; a data set that is not sound, as far as it goes."""
    folder = named_data_dir(data_dir)
    table = read_table(settings.data, folder)
    data, space, problem = None, None, None
    try:
        data, space = _resolved(settings, folder)
    except UserError as error:
        problem = str(error)
    target, labels = settings.data.target, table.frame[settings.data.target.column]
    share = float((labels == target.favourable).mean())
    facts = [
        ["source", table.source],
        ["rows", _rows(data) if data is not None else f"{len(table.frame):,} rows"],
        ["target", f"{target.column}: {target.favourable!r} is favourable, {share:.1%} of rows"],
        ["features", f"{len(settings.data.features)}" + _encoded(data)],
        ["missing", _missing(table, settings)],
        ["protected", ", ".join(settings.data.protected) or "none"],
        ["actions", _action_line(settings)],
    ]
    head = ["feature", "kind", "unit", "missing", "values", "may", "from", "to"]
    body = [
        _feature_row(name, settings, table.frame[name], space) for name in settings.data.features
    ]
    parts = [
        f"{settings.data.name}: {settings.data.about}",
        _aligned(facts),
        _aligned([head, *body]),
    ]
    if problem is not None:
        parts.append(f"problem: {problem}\n")
    return "\n".join(parts)


def _rows(data: TabularData) -> str:
    parts = {"train": data.train, "validation": data.validation, "test": data.test}
    count = sum(map(len, parts.values()))
    return f"{count:,} rows: " + ", ".join(f"{len(part):,} {name}" for name, part in parts.items())


def _encoded(data: TabularData | None) -> str:
    if data is None:
        return ""
    schema = data.schema
    return f", d = {schema.width}: {schema.n_single} numbers, {len(schema.groups)} one-hot groups"


def _missing(table: Table, settings: Settings) -> str:
    columns = [*settings.data.features, settings.data.target.column]
    rows = int(table.frame[columns].isna().any(axis=1).sum())
    return f"in {rows:,} rows ({settings.data.missing})" if rows else "none"


def _action_line(settings: Settings) -> str:
    actions = settings.actions
    most = "any number of" if actions.max_features is None else f"at most {actions.max_features}"
    reach = f"train percentiles {100 * actions.bounds.low:g} to {100 * actions.bounds.high:g}"
    whole = "whole numbers stay whole" if actions.grid else "whole numbers may become fractions"
    parts = [f"{most} features change", reach, f"gamma {actions.gamma:g}", whole, actions.cost]
    return f"{actions.name}: {', '.join(parts)}"


def _feature_row(
    name: str, settings: Settings, column: pd.Series, space: ActionSet | None
) -> list[str]:
    feature, action = settings.data.features[name], settings.actions.features[name]
    low, high = ("", "")
    if space is not None and feature.kind != "categorical" and action.kind != "immutable":
        low, high = _bounds(name, feature, space)
    kind = f"{feature.kind}, log1p" if feature.transform == "log1p" else feature.kind
    empty = int(column.isna().sum())
    values = _values(feature, column)
    return [name, kind, feature.unit, str(empty or ""), values, action.kind, low, high]


def _bounds(name: str, feature: FeatureSettings, space: ActionSet) -> tuple[str, str]:
    names = [f.name for f in space.schema.features]
    ends = space.schema.destandardize(torch.stack([space.low, space.high]).cpu())
    low, high = ends[:, names.index(name)].tolist()
    if feature.order is not None:
        return feature.order[round(low)], feature.order[round(high)]
    return (_number(low, feature.kind), _number(high, feature.kind))


def _values(feature: FeatureSettings, column: pd.Series) -> str:
    known = column.dropna()
    if feature.kind in ("numeric", "integer"):
        numbers = pd.to_numeric(known, errors="coerce").dropna()
        if numbers.empty:
            return "no numbers"
        ends = (numbers.min(), numbers.median(), numbers.max())
        return " .. ".join(_number(float(end), feature.kind) for end in ends)
    counts = known.astype(str).value_counts()
    if counts.empty:
        return "no values"
    return f"{len(counts)}, most often {counts.index[0]} ({counts.iloc[0] / len(column):.0%})"


def _number(value: float, kind: str) -> str:
    return f"{round(value):,}" if kind == "integer" else f"{value:,.4g}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as columns of equal width; the last column is not padded."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"  {line}".rstrip() + "\n" for line in lines)
