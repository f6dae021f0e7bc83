"""The kinds of settings that have a YAML file of their own, and the classes that they fill."""

from collections.abc import Mapping
from typing import Any

from cfq_bench.config.actions import ActionSettings, RegimeSettings
from cfq_bench.config.base import (
    AllocatorSettings,
    BackboneSettings,
    MethodSettings,
    Named,
    PlugIn,
    SolverSettings,
    TeacherSettings,
)
from cfq_bench.config.images import ImageSettings, LatentSettings, SemanticSettings
from cfq_bench.config.plugin import config_class
from cfq_bench.config.settings import DataSettings
from cfq_bench.errors import UserError, unknown_name

GROUPS: dict[str, type[Named]] = {
    "data": DataSettings,
    "actions": ActionSettings,
    "backbone": BackboneSettings,
    "teacher": TeacherSettings,
    "method": MethodSettings,
    "allocator": AllocatorSettings,
    "solver": SolverSettings,
}
"""Settings that come from a YAML file of their own, in the order in which they are read."""
FILES: dict[str, type[Named]] = {**GROUPS, "regime": RegimeSettings}
"""Every folder of ``conf/``; a regime has no settings of its own, but sets some of the actions."""
KINDS: dict[str, dict[str, type[Named]]] = {
    "data": {"images": ImageSettings},
    "actions": {"latent": LatentSettings, "semantic": SemanticSettings},
}
"""What a file is that has a `kind`; tables and their action sets have none."""
IN_BASE = ("data", "backbone", "teacher", "method", "solver")
"""Groups of which ``base.yaml`` names the file that a run starts from."""


def group_settings_class(group: str, raw: Mapping[str, Any]) -> type[Named]:
    """The class that a group's file fills: a plug-in's own ``Config``, its kind's, the group's.

    Raises:
        UserError: the file's kind is none of the group's.
    """
    if "kind" in raw and group in KINDS:
        kinds = KINDS[group]
        kind = str(raw["kind"])
        if kind not in kinds:
            raise unknown_name(f"{group}.kind", kind, kinds)
        return kinds[kind]
    default = FILES[group]
    module = raw.get("module")
    if not issubclass(default, PlugIn) or not isinstance(module, str):
        return default
    config = config_class(module)
    if config is None:
        return default
    if not issubclass(config, Named) or config.__mro__[1:].count(default) == 0:
        raise UserError(f"{module}: Config must be a subclass of {default.__name__}")
    return config
