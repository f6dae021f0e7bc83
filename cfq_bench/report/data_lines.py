"""Lines that pages about tables and pages about images share."""

from collections.abc import Sequence
from pathlib import Path

from cfq_bench.data.dataset import Dataset
from cfq_bench.data.sources import is_published, raw_files


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as columns of equal width; the last column is not padded."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"  {line}".rstrip() + "\n" for line in lines)


def row_counts(data: Dataset) -> str:
    """How many rows each split has."""
    parts = {"train": data.train, "validation": data.validation, "test": data.test}
    count = sum(map(len, parts.values()))
    return f"{count:,} rows: " + ", ".join(f"{len(part):,} {name}" for name, part in parts.items())


def unpublished(loader: str, folder: Path) -> list[str]:
    """A note for each raw file in a folder that is not the published one."""
    paths = [(raw, folder / raw.name) for raw in raw_files(loader)]
    return [
        f"{path} is not the published file (its sha256 differs)"
        for raw, path in paths
        if path.is_file() and not is_published(raw, path)
    ]
