"""Tiny made-up images in the published formats: IDX files, and CelebA's folder."""

import gzip
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 8
ATTRIBUTES = ("Smiling", "Mouth_Slightly_Open", "Male", "Young", "Hat")


def write_idx_files(folder: Path, train: int = 240, test: int = 120) -> Path:
    """Ten classes of 8 x 8 images, each with a bright bar in a row or a column of its own."""
    folder.mkdir(parents=True)
    for part, count in (("train", train), ("t10k", test)):
        rng = np.random.default_rng(count)
        labels = np.arange(count) % 10
        pixels = rng.integers(0, 60, (count, SIDE, SIDE))
        for image, label in zip(pixels, labels, strict=True):
            bar = image[:, label % 5 + 1] if label < 5 else image[label % 5 + 1]
            bar[:] = rng.integers(150, 256, SIDE)
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", pixels)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", labels)
    return folder


def write_idx(path: Path, values: np.ndarray) -> None:
    """One gzipped IDX file of unsigned bytes."""
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
    path.write_bytes(gzip.compress(head + values.astype(np.uint8).tobytes(), mtime=0))


def write_celeba(folder: Path, count: int = 90, missing: int = 10) -> Path:
    """CelebA's three parts; the last `missing` rows have no image. Faces smile in their colour."""
    pictures = folder / "img_align_celeba"
    pictures.mkdir(parents=True)
    rng = np.random.default_rng(0)
    values = rng.choice([-1, 1], (count, len(ATTRIBUTES)))
    names = [f"{i + 1:06d}.jpg" for i in range(count)]
    for name, row in zip(names[: count - missing], values, strict=False):
        image = rng.integers(0, 60, (218, 178, 3), dtype=np.uint8)
        image[60:160, 40:140, 0] += np.uint8(90 * (row[0] + 1))
        image[60:160, 40:140, 1] += np.uint8(90 * (row[2] + 1))
        Image.fromarray(image).save(pictures / name)
    lines = [" ".join([n, *map(str, row)]) for n, row in zip(names, values.tolist(), strict=True)]
    head = [str(count), " ".join(ATTRIBUTES)]
    (folder / "list_attr_celeba.txt").write_text("\n".join([*head, *lines]) + "\n")
    parts = [f"{name} {0 if i < 50 else 1 if i < 65 else 2}" for i, name in enumerate(names)]
    (folder / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
    return folder
