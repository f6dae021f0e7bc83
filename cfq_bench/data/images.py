"""Images: what a loader gives, and the splits of one run. Pixels stay uint8 in memory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cfq_bench.config.images import ImageSettings
from cfq_bench.config.plugin import load_module
from cfq_bench.data.dataset import Dataset, Split, fingerprint
from cfq_bench.errors import UserError, some, unknown_name
from cfq_bench.seeds import derive_seed


@dataclass(frozen=True)
class Images:
    """Every image of a source, before any split.

    Attributes:
        pixels: (N, C, H, W) uint8.
        attributes: a row per image, its index the images' ids: labels, and whatever else is known.
        partition: (N,) train, validation or test, as published.
        source: where they were read, for error messages and provenance.
    """

    pixels: Tensor
    attributes: pd.DataFrame
    partition: np.ndarray
    source: str


class ImageLoader(Protocol):
    """What a data set's module provides as ``load``."""

    def __call__(self, data_dir: Path | None) -> Images:
        """Read the images; `data_dir` is the user's folder of raw files, if any."""
        ...


@dataclass(frozen=True)
class ImageData(Dataset):
    """Images, split for one seed."""

    train_attributes: pd.DataFrame
    """What is known of each train image, in the order of `train`."""


def read_images(settings: ImageSettings, data_dir: Path | None = None) -> Images:
    """Read the images of a data set and check that its settings fit.

    Raises:
        UserError: files are missing or damaged, or an attribute or a value does not exist.
    """
    loader: ImageLoader = load_module(settings.loader).load
    images = loader(data_dir)
    for name in [settings.target.column, *settings.protected]:
        if name not in images.attributes:
            raise unknown_name("attribute", name, images.attributes.columns)
    known = set(images.attributes[settings.target.column])
    for value in [settings.target.favourable, *(settings.target.against or [])]:
        if value not in known:
            raise UserError(
                f"{images.source}: no image has {settings.target.column} {value!r}; "
                f"known: {some(sorted(map(str, known)))}"
            )
    return images


def load_image_data(settings: ImageSettings, seed: int, data_dir: Path | None = None) -> ImageData:
    """Read images, keep those that take part in the task, and split them.

    Train, validation and test are samples of the published partitions that depend on the seed
    alone; a data set without a published validation partition takes it out of the train images.

    Raises:
        UserError: see `read_images`; or a split holds one class only.
    """
    images = read_images(settings, data_dir)
    parts = split_images(images, settings, seed)
    labels = images.attributes[settings.target.column].to_numpy()
    splits = {}
    for name, rows in parts.items():
        y = (labels[rows] == settings.target.favourable).astype(np.int64)
        if len(set(y)) < 2:
            raise UserError(f"{images.source}: the {name} split holds one class only")
        ids = images.attributes.index.to_numpy()[rows]
        splits[name] = Split(images.pixels[torch.from_numpy(rows)], torch.from_numpy(y), ids)
    groups = {
        name: images.attributes[settings.protected].iloc[rows].astype(str).reset_index(drop=True)
        for name, rows in parts.items()
    }
    return ImageData(
        train=splits["train"],
        validation=splits["validation"],
        test=splits["test"],
        train_groups=groups["train"],
        validation_groups=groups["validation"],
        test_groups=groups["test"],
        source=images.source,
        fingerprint=fingerprint(splits.values()),
        train_attributes=images.attributes.iloc[parts["train"]].reset_index(drop=True),
    )


def split_images(images: Images, settings: ImageSettings, seed: int) -> dict[str, np.ndarray]:
    """Positions of the images of each split by its name, disjoint.

    Raises:
        UserError: the published validation partition is asked for and there is none.
    """
    split, rng = settings.split, np.random.default_rng(derive_seed(seed, "split"))
    target = settings.target
    takes_part = np.ones(len(images.partition), dtype=bool)
    if target.against is not None:
        kept = [target.favourable, *target.against]
        takes_part = images.attributes[target.column].isin(kept).to_numpy()

    def sample(partition: str, most: int | None) -> np.ndarray:
        rows = np.flatnonzero(takes_part & (images.partition == partition))
        return rng.permutation(rows)[:most]

    train, test = sample("train", split.train), sample("test", split.test)
    if split.validation == "published":
        held_out = sample("validation", None)
        if not len(held_out):
            raise UserError(
                f"{images.source} has no published validation images: "
                "set data.split.validation to a share of the train images"
            )
        return {"train": train, "validation": held_out, "test": test}
    count = max(1, round(len(train) * split.validation))
    return {"train": train[count:], "validation": train[:count], "test": test}
