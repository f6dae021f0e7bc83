"""Under ``wandb agent``: what the sweep asks of a run. Its values win over all others."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cfq_bench.config.groups import FILES
from cfq_bench.config.yaml import read_yaml
from cfq_bench.errors import UserError


def under_agent() -> bool:
    """Whether this process is a run of a W&B sweep."""
    return bool(os.environ.get("WANDB_SWEEP_ID") and os.environ.get("WANDB_SWEEP_PARAM_PATH"))


def sweep_overrides() -> list[str]:
    """What the sweep asks for, as ``key=value`` lines; none outside of a sweep.

    The agent also writes them on the command line, where the sweep's ``command`` says so; here
    they are read from its own file, so that a command that sets the same key cannot win.

    Raises:
        UserError: a parameter would replace a whole group of settings at W&B.
    """
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in _asked().items()]


def refuse_other_values(config: Mapping[str, Any]) -> None:
    """Make sure that what is trained is what the sweep asked for.

    Args:
        config: the resolved settings of the run, nested.

    Raises:
        UserError: they differ; W&B would show values that were not used.
    """
    for key, asked in _asked().items():
        here: Any = config
        for part in key.split("."):
            here = here.get(part) if isinstance(here, Mapping) else None
        if here != asked:
            raise UserError(
                f"the sweep asks for {key}={asked}, but the run's settings have {here}: "
                "pass the sweep's values on, as `cfq-bench run` does"
            )


def _asked() -> dict[str, Any]:
    if not under_agent():
        return {}
    found = dict(_dotted("", read_yaml(Path(os.environ["WANDB_SWEEP_PARAM_PATH"]))))
    for key in found:
        if key in FILES:
            raise UserError(
                f"the sweep's parameter {key!r} would replace all settings of that group at W&B: "
                f"write --{key} NAME into the sweep's command"
            )
    return found


def _dotted(prefix: str, items: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """``{key: {value: v}}``, at any depth, as dotted keys and values."""
    for key, item in items.items():
        if key == "wandb_version" or key.startswith("_"):
            continue
        value = item["value"] if isinstance(item, dict) and "value" in item else item
        dotted = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _dotted(f"{dotted}.", value)
        else:
            yield dotted, value
