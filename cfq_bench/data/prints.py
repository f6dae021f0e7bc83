"""Fingerprints of raw files: whether data are still those that something was made of.

A file counts by its contents; a folder, such as one of 200,000 images, by the names and sizes of
what it holds. Files are named so that another machine finds its own: below the data folder or the
cache, in the package, or by the path that the settings hold.
"""

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from cfq_bench.cache import SETTLED_S, Memo, default_cache_dir
from cfq_bench.config.plugin import load_module
from cfq_bench.config.tablefile import TABLE_FILES
from cfq_bench.data.sources import locate, own_search, raw_files

EMBEDDED = Path(__file__).parent / "embedded"


def data_prints(loader: str, data_dir: Path | None) -> dict[str, str]:
    """The fingerprints of what a loader reads, as far as it is on this machine.

    A loader of one's own names its raw files in ``FILES``; what it reads beside them is not seen.

    Args:
        loader: a data set's, as its YAML names it.
        data_dir: the user's folder of raw files.

    Raises:
        UserError: a file in the cache is damaged.
    """
    prints = {name: _print(path) for name, path in _read_by(loader, data_dir).items()}
    return {name: one for name, one in prints.items() if one is not None}


def changed_file(prints: Mapping[str, str], data_dir: Path | None) -> str | None:
    """The first file that is no longer what it was; one that is not on this machine is passed over.

    Args:
        prints: from `data_prints`.
        data_dir: the user's folder of raw files.
    """
    for name, before in prints.items():
        path = _place(name, data_dir)
        now = None if path is None else _print(path)
        if now is not None and now != before:
            return name
    return None


def _read_by(loader: str, data_dir: Path | None) -> dict[str, Path]:
    if loader.lower().endswith(TABLE_FILES):
        return {loader: Path(loader)}
    embedded: tuple[str, ...] = getattr(load_module(loader), "EMBEDDED", ())
    found = {f"{EMBEDDED.name}/{name}": EMBEDDED / name for name in embedded}
    find = own_search(loader)
    if find is None:
        files = {raw.relative: locate(raw, data_dir) for raw in raw_files(loader)}
        return found | {name: path for name, path in files.items() if path is not None}
    folder = find(data_dir)
    for root in _roots(data_dir):
        if folder is not None and folder.is_relative_to(root):
            parts = sorted(folder.iterdir())
            return found | {part.relative_to(root).as_posix(): part for part in parts}
    return found


def _place(name: str, data_dir: Path | None) -> Path | None:
    if name.lower().endswith(TABLE_FILES) and Path(name).exists():
        return Path(name)
    if name.startswith(f"{EMBEDDED.name}/"):
        return EMBEDDED.parent / name
    return next((root / name for root in _roots(data_dir) if (root / name).exists()), None)


def _roots(data_dir: Path | None) -> list[Path]:
    return [*([] if data_dir is None else [data_dir]), default_cache_dir() / "data"]


def _print(path: Path) -> str | None:
    """What stands for a file or a folder; None where it cannot be read."""
    try:
        return _folder_print(path) if path.is_dir() else _file_print(path)
    except OSError:
        return None


def _folder_print(path: Path) -> str:
    with os.scandir(path) as entries:
        lines = sorted(f"{one.name}\0{one.stat().st_size}\n" for one in entries)
    digest = hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape"))
    return f"names and sizes {digest.hexdigest()}"


def _file_print(path: Path) -> str:
    """By contents; a file is read once, as long as its time and size stay."""
    stat, memo = path.stat(), Memo("data", 1)
    key = f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}"
    known = memo.get(key)
    if isinstance(known, str):
        return known
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if time.time() - stat.st_mtime > SETTLED_S:
        memo.put(key, digest)
        memo.save()
    return digest
