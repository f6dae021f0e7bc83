"""``cfq-bench list``: names and what they are, read from the YAML files alone."""

from pathlib import Path

from cfq_bench.config.loader import FILES, known_names
from cfq_bench.config.yaml import read_yaml


def listing(group: str | None, conf_dir: Path | None) -> str:
    """One line per name, by group."""
    blocks = []
    for name in [group] if group is not None else FILES:
        files = known_names(name, conf_dir)
        width = max((len(item) for item in files), default=0)
        lines = [f"  {item:<{width}}  {read_yaml(path)['about']}" for item, path in files.items()]
        blocks.append("\n".join([name, *lines]))
    return "\n\n".join(blocks)
