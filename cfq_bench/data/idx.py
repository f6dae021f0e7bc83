"""MNIST's file format, IDX: how MNIST and Fashion-MNIST are published.

torchvision reads these files as well, but downloads them into a folder of its own, without our
one-line errors and manual steps; its layout below the data folder is kept, so that a copy that
torchvision made is found.
"""

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from cfq_bench.data.images import Images
from cfq_bench.data.sources import RawFile, obtain
from cfq_bench.errors import UserError

_UNSIGNED_BYTES = 0x08


def idx_files(folder: str, page: str, url: str, sha256: Mapping[str, str]) -> tuple[RawFile, ...]:
    """The files of a data set, by their checksums, in the order that `load_idx` wants."""
    return tuple(RawFile(folder, name, sha, page, f"{url}/{name}") for name, sha in sha256.items())


def read_idx(path: Path) -> np.ndarray:
    """Read a gzipped IDX file of unsigned bytes.

    Raises:
        UserError: it is none, or it is cut off.
    """
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file: {error}") from None
    head = 4 + 4 * raw[3] if len(raw) >= 4 else 4
    if len(raw) < head or raw[:2] != b"\0\0" or raw[2] != _UNSIGNED_BYTES:
        raise UserError(f"{path} is not an IDX file of unsigned bytes")
    sizes = np.frombuffer(raw, dtype=">u4", count=raw[3], offset=4).astype(int)
    values = np.frombuffer(raw, dtype=np.uint8, offset=head)
    if len(values) != sizes.prod():
        raise UserError(f"{path} announces {sizes.prod()} values and holds {len(values)}")
    return values.reshape(sizes)


def load_idx(
    files: tuple[RawFile, ...], data_dir: Path | None, column: str, names: tuple[int | str, ...]
) -> Images:
    """Train images and labels, then test images and labels, as one set.

    Args:
        files: these four, in this order.
        data_dir: the user's folder of raw files.
        column: what the label is called.
        names: the value that each label code stands for.
    """
    paths = [obtain(raw, data_dir) for raw in files]
    parts = [read_idx(path) for path in paths]
    for i in (0, 2):
        found, codes = parts[i], parts[i + 1]
        if len(found) != len(codes):
            raise UserError(f"{paths[i]}: {len(found)} images and {len(codes)} labels")
        if codes.max(initial=0) >= len(names):
            raise UserError(
                f"{paths[i + 1]} has the label {codes.max()}: they are 0 to {len(names) - 1}"
            )
    pixels = np.concatenate([parts[0], parts[2]])[:, None]  # (N, 1, 28, 28)
    codes = np.concatenate([parts[1], parts[3]])
    counts = {"train": len(parts[0]), "test": len(parts[2])}
    ids = [f"{part}-{i}" for part, count in counts.items() for i in range(count)]
    labels = pd.Series([names[code] for code in codes], index=ids, name=column)
    partition = np.repeat(list(counts), list(counts.values()))
    return Images(torch.from_numpy(pixels), labels.to_frame(), partition, str(paths[0].parent))
