"""``cfq-bench list``: names and what they are, read from the YAML files alone."""

from pathlib import Path

from cfq_bench.config.groups import FILES
from cfq_bench.config.loader import known_names
from cfq_bench.config.yaml import read_yaml
from cfq_bench.text import visible


def listing(group: str | None, conf_dir: Path | None) -> str:
    """One line per name, by group."""
    blocks = []
    for name in [group] if group is not None else FILES:
        files = known_names(name, conf_dir)
        width = max((len(item) for item in files), default=0)
        lines = [f"  {item:<{width}}  {_about(path)}".rstrip() for item, path in files.items()]
        blocks.append("\n".join([name, *lines]))
    return "\n\n".join(blocks)


def _about(path: Path) -> str:
    return visible(" ".join(str(read_yaml(path).get("about", "")).split()))
