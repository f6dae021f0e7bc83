"""Data sets as text: the list, one described with its action set, and what a check found."""

from pathlib import Path

import pandas as pd
import torch

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.config.actions import ActionSettings, FeatureAction
from cfq_bench.config.images import ImageSettings
from cfq_bench.config.loader import known_names
from cfq_bench.config.settings import DataSettings, FeatureSettings, Settings
from cfq_bench.config.yaml import read_yaml
from cfq_bench.data.dataset import TabularData, load_data
from cfq_bench.data.remarks import remarks
from cfq_bench.data.sources import locate, named_data_dir, own_search, raw_files
from cfq_bench.data.table import Table, read_table
from cfq_bench.data.words import shown
from cfq_bench.errors import UserError
from cfq_bench.report.data_images import images_check, images_description
from cfq_bench.report.data_lines import aligned, row_counts, unpublished

DESCRIBED_SEED = 0
"""The seed whose split is described and checked."""


def data_list(conf_dir: Path | None, data_dir: Path | None) -> str:
    """Every data set: its name, where its files are, what it is."""
    rows = []
    for name, path in known_names("data", conf_dir).items():
        raw = read_yaml(path)
        rows.append([name, _state(str(raw["loader"]), named_data_dir(data_dir)), raw["about"]])
    return aligned(rows)


def _state(loader: str, data_dir: Path | None) -> str:
    find = own_search(loader)
    if find is not None:
        place = find(data_dir)
        return "to be fetched by hand" if place is None else f"in {place}"
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
    if isinstance(settings.data, ImageSettings):
        return images_check(settings, settings.data, data_dir, seed=DESCRIBED_SEED)
    own, _ = settings.table()
    folder = named_data_dir(data_dir)
    table = read_table(own, folder)
    data, space = _resolved(settings, folder)
    lines = [f"{own.name}: sound, with actions {settings.actions.name}"]
    lines.append(f"  {row_counts(data)}, {len(own.features)} features, d = {data.schema.width}")
    return (
        "\n".join([*lines, *(f"  note: {note}" for note in _notes(settings, table, data, space))])
        + "\n"
    )


def _resolved(settings: Settings, data_dir: Path | None) -> tuple[TabularData, ActionSet]:
    own, actions = settings.table()
    data = load_data(own, DESCRIBED_SEED, data_dir)
    return data, ActionSet(data.schema, actions, data.train.x)


def _notes(settings: Settings, table: Table, data: TabularData, space: ActionSet) -> list[str]:
    own, _ = settings.table()
    notes = unpublished(own.loader, Path(table.source).parent)
    notes += remarks(table, own)
    columns = [*own.features, own.target.column]
    empty = table.frame[columns].isna()
    if empty.to_numpy().any():
        done = {"drop": "dropped", "impute": "imputed"}[own.missing]
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
    if isinstance(settings.data, ImageSettings):
        return images_description(settings, settings.data, data_dir, seed=DESCRIBED_SEED)
    own, actions = settings.table()
    folder = named_data_dir(data_dir)
    table = read_table(own, folder)
    data, space, problem = None, None, None
    try:
        data, space = _resolved(settings, folder)
    except UserError as error:
        problem = str(error)
    target, labels = own.target, table.frame[own.target.column]
    share = float((labels == target.favourable).mean())
    facts = [
        ["source", table.source],
        ["rows", row_counts(data) if data is not None else f"{len(table.frame):,} rows"],
        [
            "target",
            f"{shown(target.column)}: {target.favourable!r} is favourable, {share:.1%} of rows",
        ],
        ["features", f"{len(own.features)}" + _encoded(data)],
        ["missing", _missing(table, own)],
        ["protected", ", ".join(map(shown, own.protected)) or "none"],
        ["actions", _action_line(actions)],
    ]
    head = ["feature", "kind", "unit", "missing", "values", "may", "from", "to"]
    body = [
        _feature_row(name, feature, actions.features[name], table.frame[name], space)
        for name, feature in own.features.items()
    ]
    parts = [f"{own.name}: {own.about}", aligned(facts), aligned([head, *body])]
    if problem is not None:
        parts.append(f"problem: {problem}\n")
    return "\n".join(parts)


def _encoded(data: TabularData | None) -> str:
    if data is None:
        return ""
    schema = data.schema
    return f", d = {schema.width}: {schema.n_single} numbers, {len(schema.groups)} one-hot groups"


def _missing(table: Table, settings: DataSettings) -> str:
    columns = [*settings.features, settings.target.column]
    rows = int(table.frame[columns].isna().any(axis=1).sum())
    return f"in {rows:,} rows ({settings.missing})" if rows else "none"


def _action_line(actions: ActionSettings) -> str:
    most = "any number of" if actions.max_features is None else f"at most {actions.max_features}"
    reach = f"train percentiles {100 * actions.bounds.low:g} to {100 * actions.bounds.high:g}"
    whole = "whole numbers stay whole" if actions.grid else "whole numbers may become fractions"
    parts = [f"{most} features change", reach, f"gamma {actions.gamma:g}", whole, actions.cost]
    return f"{actions.name}: {', '.join(parts)}"


def _feature_row(
    name: str,
    feature: FeatureSettings,
    action: FeatureAction,
    column: pd.Series,
    space: ActionSet | None,
) -> list[str]:
    low, high = ("", "")
    if space is not None and feature.kind != "categorical" and action.kind != "immutable":
        low, high = _bounds(name, feature, space)
    kind = f"{feature.kind}, log1p" if feature.transform == "log1p" else feature.kind
    empty = int(column.isna().sum())
    values = _values(feature, column)
    return [
        shown(name),
        kind,
        shown(feature.unit),
        str(empty or ""),
        values,
        action.kind,
        low,
        high,
    ]


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
    return (
        f"{len(counts)}, most often {shown(counts.index[0])} ({counts.iloc[0] / len(column):.0%})"
    )


def _number(value: float, kind: str) -> str:
    return f"{round(value):,}" if kind == "integer" else f"{value:,.4g}"
