"""CelebA-Attributes: edit a face until a favourable attribute is seen (paper, Table 28).

The paper names no attribute. Here it is Smiling: it is balanced (48 %), seen in the pixels, changes
within a second, and says nothing of a person's worth; any of the 40 can be named in
`data.target.column`. Male and Young are protected: results are reported by them, and no edit
touches them. They are annotators' guesses about strangers, as all 40 are.

Images are downloaded by hand: their licence is for research alone, and their server hands out no
stable addresses. The official layout, which torchvision has too, is read below the data folder:

    celeba/celeba/img_align_celeba/000001.jpg ...
    celeba/celeba/list_attr_celeba.txt
    celeba/celeba/list_eval_partition.txt

A part of the images will do, where torchvision refuses: rows without an image are passed over. The
partition is the published one. Aligned images are 178 x 218; the middle 148 x 148, which holds the
face, is scaled to 64 x 64.
"""

import hashlib
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image

from cfq_bench.cache import Cache, default_cache_dir
from cfq_bench.codebase import entry_code
from cfq_bench.data.images import Images
from cfq_bench.errors import UserError

FOLDER = "celeba/celeba"
PICTURES, ATTRIBUTES, PARTITION = (
    "img_align_celeba",
    "list_attr_celeba.txt",
    "list_eval_partition.txt",
)
CROP, SIZE = 148, 64
"""Pixels of the square that is cut out, and of a side after scaling."""
SHARD = 8192
"""Images in one entry of the cache: 100 MB."""
PARTS = {0: "train", 1: "validation", 2: "test"}
PAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
MANUAL = (
    f"CelebA is not here and has no open address: get {PICTURES}.zip (unpacked), {ATTRIBUTES} and "
    f"{PARTITION} from {PAGE} by hand and save them in {FOLDER} in a folder that --data-dir or "
    "CFQ_BENCH_DATA names; a part of the images will do"
)


def find(data_dir: Path | None) -> Path | None:
    """The folder with all three parts, in the data folder or the user cache; None: nowhere."""
    for root in (data_dir, default_cache_dir() / "data"):
        if (
            root is not None
            and all((root / FOLDER / part).exists() for part in (ATTRIBUTES, PARTITION))
            and (root / FOLDER / PICTURES).is_dir()
        ):
            return root / FOLDER
    return None


def load(data_dir: Path | None) -> Images:
    """Read the attributes (1 or -1) of all images that are there, and decode these once.

    Raises:
        UserError: a file is missing or not in the official format, or an image is damaged.
    """
    folder = find(data_dir)
    if folder is None:
        raise UserError(MANUAL)
    attributes = _table(folder / ATTRIBUTES, header=1)
    wrong = np.argwhere(~attributes.isin([1, -1]).to_numpy())
    if len(wrong):
        row, column = wrong[0]
        raise UserError(
            f"{folder / ATTRIBUTES}: {attributes.index[row]} has {attributes.columns[column]} "
            f"{attributes.iloc[row, column]}, expected 1 or -1"
        )
    parts_table = _table(folder / PARTITION, header=None)
    if parts_table.shape[1] != 1:
        raise UserError(f"{folder / PARTITION}: a line is an image's name and 0, 1 or 2")
    partition = parts_table.iloc[:, 0].reindex(attributes.index)
    there = {path.name for path in (folder / PICTURES).iterdir()}
    present = attributes.index.isin(there)
    attributes, partition = attributes[present], partition[present]
    if attributes.empty:
        raise UserError(f"{folder / PICTURES} has no image that {ATTRIBUTES} names")
    unknown = ~partition.isin(list(PARTS)).to_numpy()
    if unknown.any():
        name = attributes.index[int(unknown.argmax())]
        raise UserError(f"{folder / PARTITION}: {name} has no partition 0, 1 or 2")
    pixels = _decoded([folder / PICTURES / str(name) for name in attributes.index])
    parts = partition.map(PARTS).to_numpy()
    return Images(pixels, attributes, parts, str(folder))


def _table(path: Path, header: int | None) -> pd.DataFrame:
    """A file of values between blanks, its first column the images' names."""
    try:
        # In the official file the header has one word less than the rows: no word for the names.
        table = pd.read_csv(
            path, sep=r"\s+", header=header, index_col=0 if header is None else None
        )
    except (OSError, ValueError) as error:  # pandas' errors about content are ValueErrors
        raise UserError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    twice = table.index[table.index.duplicated()]
    if len(twice):
        raise UserError(f"{path} has two lines for {twice[0]}")
    return table


def _decoded(paths: list[Path]) -> torch.Tensor:
    """Pixels (N, 3, 64, 64) uint8 of some images, from the cache after the first time.

    An entry holds `SHARD` images: reading all 202,599 takes little more memory than they have.
    """
    out = torch.empty(len(paths), 3, SIZE, SIZE, dtype=torch.uint8)
    code = entry_code((), __file__)
    for start in range(0, len(paths), SHARD):
        part = paths[start : start + SHARD]
        digest = hashlib.sha256()
        for path in part:
            stat = path.stat()
            digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        key = {"files": digest.hexdigest(), "crop": CROP, "size": SIZE, "code": code}
        found = Cache(default_cache_dir()).get_or_make("images", key, partial(_decode, part))
        out[start : start + len(part)] = found["pixels"]
    return out


def _decode(paths: list[Path]) -> dict[str, torch.Tensor]:
    return {"pixels": torch.stack([torch.from_numpy(_pixels(path)) for path in paths])}


def _pixels(path: Path) -> np.ndarray:
    """(3, 64, 64) uint8: the middle of an image, scaled."""
    try:
        with Image.open(path) as opened:
            image = opened.convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:  # all that PIL says
        raise UserError(f"{path} is no image that can be decoded: {error}") from None
    left, top = (image.width - CROP) // 2, (image.height - CROP) // 2
    square = image.crop((left, top, left + CROP, top + CROP))
    scaled = square.resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    return np.array(scaled).transpose(2, 0, 1)
