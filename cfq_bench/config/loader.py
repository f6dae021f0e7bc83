"""From names, files and overrides to `Settings`."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cfq_bench.config.base import MethodSettings, Named
from cfq_bench.config.explain import explain
from cfq_bench.config.groups import FILES, GROUPS, IN_BASE, group_settings_class
from cfq_bench.config.images import ImageSettings
from cfq_bench.config.overrides import apply, parse_overrides
from cfq_bench.config.settings import Settings
from cfq_bench.config.tablefile import TABLE_FILES
from cfq_bench.config.yaml import read_named, read_yaml
from cfq_bench.errors import UserError, unknown_name
from cfq_bench.files import is_file
from cfq_bench.text import shortened


def packaged_conf_dir() -> Path:
    """The ``conf`` folder: inside the installed package, or beside it in a source checkout."""
    package = Path(__file__).parents[1]
    installed = package / "conf"
    return installed if installed.is_dir() else package.parent / "conf"


def conf_dirs(conf_dir: Path | None) -> list[Path]:
    """Folders searched for settings, the user's own first.

    Raises:
        UserError: the user's folder does not exist.
    """
    if conf_dir is None:
        return [packaged_conf_dir()]
    if not conf_dir.is_dir():
        raise UserError(f"--conf-dir {conf_dir} is not a folder")
    return [conf_dir, packaged_conf_dir()]


def known_names(group: str, conf_dir: Path | None = None) -> dict[str, Path]:
    """Every name of a group and its file; a user's file hides the packaged one."""
    found: dict[str, Path] = {}
    for folder in reversed(conf_dirs(conf_dir)):
        root = folder / group
        for path in sorted(root.rglob("*.yaml")):
            found[path.relative_to(root).with_suffix("").as_posix()] = path
    return dict(sorted(found.items()))


def load_settings(
    method: str | None = None,
    data: str | None = None,
    *,
    backbone: str | None = None,
    teacher: str | None = None,
    solver: str | None = None,
    actions: str | None = None,
    regime: str | None = None,
    overrides: Iterable[str] = (),
    conf_dir: Path | None = None,
) -> Settings:
    """Resolve names and overrides into the settings of one run.

    Args:
        method: a name (``cfq-bench list method``) or the path of a YAML file; so for the others.
        data: the data set.
        backbone: the network.
        teacher: the teacher's objective.
        solver: the evaluation solver.
        actions: the action preset; default: the data set's.
        regime: how much may change, on top of the preset (Table 25); default: what the preset says.
        overrides: ``key=value`` lines such as ``method.eta=2`` or ``seed=1``; they win.
        conf_dir: a folder laid out like ``conf/`` whose files are found first.

    Raises:
        UserError: an unknown name, an unknown key, a wrong type or a value out of range.
    """
    base_file, base = _read_base(conf_dir)
    changes = parse_overrides(overrides)
    names = {key: value for key, value in base.items() if key in GROUPS}
    if ("allocator",) in changes:
        raise UserError("'allocator' is not chosen by name alone: write budget.allocator=NAME")
    named = {key: _name(key, changes.pop((key,))) for key in FILES if (key,) in changes}
    given = {
        "method": method,
        "data": data,
        "backbone": backbone,
        "teacher": teacher,
        "solver": solver,
        "actions": actions,
        "regime": regime,
    }
    named |= {key: value for key, value in given.items() if value is not None}
    _refuse_unknown_heads(changes, base)

    chosen = str(named.get("data", names["data"]))
    parts: dict[str, Any] = {"data": _load_group("data", chosen, changes, conf_dir, {})}
    below = _data_defaults(parts["data"], base)
    names |= {key: below.pop((key,)) for key in GROUPS if (key,) in below}
    names |= named
    if names.get("regime") is not None and isinstance(parts["data"], ImageSettings):
        raise UserError(f"regimes are for tables, and data {parts['data'].name!r} are images")

    rest = {key: value for key, value in base.items() if key not in GROUPS}
    apply(rest, {path: value for path, value in below.items() if path[0] not in GROUPS})
    changed = {path: value for path, value in changes.items() if path[0] not in GROUPS}
    apply(rest, changed)
    for group in [name for name in GROUPS if name != "data"]:
        if group == "actions" and "actions" not in names:
            names["actions"] = parts["data"].actions
        if group == "allocator":
            names["allocator"] = _allocator_name(rest, parts["method"])
        above = _regime(names.get("regime"), changes, conf_dir) if group == "actions" else {}
        parts[group] = _load_group(group, str(names[group]), changes, conf_dir, above, below)
    try:
        return Settings.model_validate({**rest, **parts})
    except ValidationError as error:
        overridden = {".".join(key) for key in changes}
        raise explain(error, Settings, "", str(base_file), overridden) from None


def settings_from_config(config: Mapping[str, Any]) -> Settings:
    """The settings of a record: the inverse of ``settings.model_dump(mode="json")``.

    Raises:
        UserError: the record was made by a version with other settings.
    """
    parts: dict[str, Any] = dict(config)
    try:
        for group in GROUPS:
            parts[group] = group_settings_class(group, config[group]).model_validate(config[group])
        return Settings.model_validate(parts)
    except (KeyError, TypeError, AttributeError, ValidationError):
        raise UserError(
            "the record's settings are those of another version: run it again"
        ) from None


def read_group(group: str, name: str, conf_dir: Path | None = None) -> tuple[dict[str, Any], Path]:
    """Read one file of a group: by name, or by path where `name` ends in .yaml or .yml."""
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not is_file(path):
            raise UserError(f"{group} file {name} does not exist")
        public = path.stem
    else:
        known = known_names(group, conf_dir)
        if name not in known:
            raise unknown_name(group, name, known)
        path, public = known[name], name
    raw = read_named(path, public)
    for key in ("module", "loader", "actions"):  # files named in a user's YAML stand beside it
        value = raw.get(key)
        if isinstance(value, str) and value.lower().endswith(
            (".py", ".yaml", ".yml", *TABLE_FILES)
        ):
            raw[key] = str((path.parent / value).resolve())
    return raw, path


def _read_base(conf_dir: Path | None) -> tuple[Path, dict[str, Any]]:
    """The file of what all runs share, the user's own before the packaged one.

    Raises:
        UserError: it does not name a file of every group.
    """
    path = next(d / "base.yaml" for d in conf_dirs(conf_dir) if (d / "base.yaml").is_file())
    base = read_yaml(path)
    for group in GROUPS:
        name = base.get(group)
        if group == "allocator" and group in base:
            raise UserError(f"{path}: budget.allocator names the allocator: leave the key out")
        if isinstance(name, str) or (group not in base and group not in IN_BASE):
            continue
        what = f"got {shortened(repr(name))}" if group in base else "it is missing"
        raise UserError(f"{path}: {group} must be the name of a file in conf/{group}; {what}")
    return path, base


def _name(group: str, value: Any) -> Any:
    """The value of an override that names a file."""
    if isinstance(value, str) or (group == "regime" and value is None):
        return value
    raise UserError(
        f"the override {group}={shortened(json.dumps(value))}: expected the name of a {group} "
        f"(`cfq-bench list {group}` shows them) or the path of a YAML file"
    )


def _load_group(
    group: str,
    name: str,
    changes: Mapping[tuple[str, ...], Any],
    conf_dir: Path | None,
    above: Mapping[str, Any],
    below: Mapping[tuple[str, ...], Any] | None = None,
) -> Named:
    """One group from its file, the data set's defaults, what lies above it, and the overrides."""
    raw, path = read_group(group, name, conf_dir)
    named = raw.get("regime") is not None or ("actions", "regime") in changes
    if group == "actions" and named:
        raise UserError(
            "actions.regime is a name that --regime sets, with max_features and gamma: "
            "write --regime NAME, or regime=NAME among the overrides"
        )
    own = {key[1:]: value for key, value in (below or {}).items() if key[0] == group}
    apply(raw, {key: value for key, value in own.items() if key[0] in raw})
    raw |= above
    changed = {key[1:]: value for key, value in changes.items() if key[0] == group}
    apply(raw, changed)
    model = group_settings_class(group, raw)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        overridden = {".".join((group, *key)) for key in changed}
        raise explain(error, model, group, str(path), overridden) from None


def _data_defaults(data: Named, base: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """What a run on these data starts from, below everything that a user says.

    Raises:
        UserError: a key that has its own place in the file, or is unknown.
    """
    if not isinstance(data, ImageSettings):
        return {}
    defaults = parse_overrides(data.defaults)
    for path in defaults:
        if path[0] == "data" or path in (("regime",), ("allocator",)):
            raise UserError(
                f"defaults of data set {data.name}: {'.'.join(path)} cannot be set there"
            )
    _refuse_unknown_heads(defaults, base)
    return defaults


def _regime(
    name: str | None, changes: Mapping[tuple[str, ...], Any], conf_dir: Path | None
) -> dict[str, Any]:
    """What a regime sets among the actions; a record that names it must mean it."""
    if name is None:
        return {}
    regime = _load_group("regime", name, {}, conf_dir, {})
    values = regime.model_dump(exclude={"name", "about"})
    for key in values:
        if ("actions", key) in changes:
            raise UserError(
                f"actions.{key} is what the regime {regime.name!r} sets: leave out one of the two"
            )
    return {**values, "regime": regime.name}


def _allocator_name(rest: Mapping[str, Any], method: MethodSettings) -> str:
    """Who divides the bits; the values are raw, and `Settings` complains about the wrong ones."""
    budget, quantization = (
        part if isinstance(part, dict) else {}
        for part in (rest.get("budget"), rest.get("quantization"))
    )
    name = budget.get("allocator")
    if isinstance(name, str) and name != "auto":
        return name
    candidates = quantization.get("candidates")
    whole = isinstance(candidates, list) and budget.get("avg_bits") in candidates
    return method.auto_allocator(whole and quantization.get("layers") == "all")


def _refuse_unknown_heads(changes: Mapping[tuple[str, ...], Any], base: Mapping[str, Any]) -> None:
    known = {*GROUPS, *base}
    for path in changes:
        if path[0] not in known:
            written = "" if len(path) == 1 else f"(in {'.'.join(path)}, an override)"
            raise unknown_name("setting", path[0], known, written)
