"""Splits, what every later part of a run works on; and how a raw table becomes them."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cfq_bench.config.settings import DataSettings
from cfq_bench.data.protected import protected_groups
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.data.table import Table, impute, load_table
from cfq_bench.errors import UserError
from cfq_bench.seeds import derive_seed

READ_BLOCK = 256
"""Images that are looked at together where all of them are."""


@dataclass(frozen=True)
class Split:
    """Rows of one split.

    Attributes:
        x: (N, d) float32 encoded rows, or (N, C, H, W) uint8 images.
        y: (N,) int64, 1 is the favourable outcome.
        row_ids: (N,) the rows' ids in the source.
    """

    x: Tensor
    y: Tensor
    row_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device) -> "Split":
        """The same rows on a device."""
        return Split(self.x.to(device), self.y.to(device), self.row_ids)

    def inputs(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Model inputs of some rows, (B, d) or (B, C, H, W) float32."""
        return as_inputs(self.x[rows])

    @property
    def block(self) -> int:
        """Rows in each of `blocks` but the last."""
        return max(1, len(self)) if self.x.dim() == 2 else READ_BLOCK

    def blocks(self) -> Iterator[Tensor]:
        """Model inputs of all rows: a table as one block, images in small ones.

        What a network of convolutions keeps of thousands of images at once fits in no memory.
        """
        for start in range(0, len(self), self.block):
            yield self.inputs(slice(start, start + self.block))


def as_inputs(x: Tensor) -> Tensor:
    """What a model is given: encoded rows as they are, uint8 pixels as float32 in [0, 1].

    >>> as_inputs(torch.tensor([0, 51, 255], dtype=torch.uint8))
    tensor([0.0000, 0.2000, 1.0000])
    """
    return x if x.is_floating_point() else x.float() / 255


@dataclass(frozen=True)
class Dataset:
    """One data set, split for one seed: what tables and images have in common.

    `train` is what fits see; `validation` is set aside for choices; `test` is for evaluation alone.
    """

    train: Split
    validation: Split
    test: Split
    train_groups: pd.DataFrame
    """Protected attributes of the train rows as text, in the order of `train`."""
    validation_groups: pd.DataFrame
    test_groups: pd.DataFrame
    source: str
    fingerprint: str
    """sha256 over the splits: caches are keyed by it."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one row: (d,), or (C, H, W)."""
        return tuple(self.train.x.shape[1:])

    @property
    def n_single(self) -> int:
        """Leading columns that are numbers and not parts of one-hot groups; none of an image."""
        return 0

    def on_validation(self) -> Self:
        """The same data with the validation rows in place of the test rows."""
        return replace(
            self,
            test=self.validation,
            test_groups=self.validation_groups,
            fingerprint=f"{self.fingerprint}-validation",
        )

    def to(self, device: torch.device) -> Self:
        """The same data with its tensors on a device."""
        return replace(
            self,
            train=self.train.to(device),
            validation=self.validation.to(device),
            test=self.test.to(device),
        )


@dataclass(frozen=True)
class TabularData(Dataset):
    """An encoded table; for its groups see `protected_groups`."""

    schema: FeatureSchema

    @property
    def n_single(self) -> int:
        """N_s, the number of single-column features, which come first."""
        return self.schema.n_single


def load_data(settings: DataSettings, seed: int, data_dir: Path | None = None) -> TabularData:
    """Read, check, split and encode a data set.

    The split depends on the seed alone, unless the source has a canonical test split. Statistics
    (means, scales, unseen categories) come from the train rows without the validation rows.

    Raises:
        UserError: see `load_table`, `split_rows` and `FeatureSchema`.
    """
    table = load_table(settings, data_dir)
    train, validation, test = split_rows(table, settings, seed)
    if settings.missing == "impute":
        frame = impute(table.frame, train, settings, table.source)
        table, raw = replace(table, frame=frame), table.frame
    else:
        frame = raw = table.frame
    schema = FeatureSchema.fit(frame.iloc[train], settings.features)
    fit, held_out, evaluated = (
        _encode(table, schema, settings, rows) for rows in (train, validation, test)
    )
    splits = (fit, held_out, evaluated)
    own = [protected_groups(raw, train, rows, settings) for rows in (train, validation, test)]
    return TabularData(  # nobody's group is imputed
        schema=schema,
        train=fit,
        validation=held_out,
        test=evaluated,
        train_groups=own[0],
        validation_groups=own[1],
        test_groups=own[2],
        source=table.source,
        fingerprint=fingerprint(splits),
    )


def fingerprint(splits: Iterable[Split]) -> str:
    """sha256 over inputs and labels."""
    digest = hashlib.sha256()
    for split in splits:
        for tensor in (split.x, split.y):
            digest.update(tensor.cpu().contiguous().numpy().data)  # no copy: images are gigabytes
    return digest.hexdigest()


def split_rows(
    table: Table, settings: DataSettings, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row positions of train, validation and test, disjoint.

    Raises:
        UserError: the train split would leave no test rows, or one class only.
    """
    count = len(table.frame)
    rng = np.random.default_rng(derive_seed(seed, "split"))
    if table.test_rows is None:
        if settings.split.train >= count:
            raise UserError(
                f"{table.source}: data.split.train is {settings.split.train} but the table has "
                f"{count} rows: leave some for the test split"
            )
        order = rng.permutation(count)
        fit, test = order[: settings.split.train], order[settings.split.train :]
    else:
        fit = rng.permutation(np.flatnonzero(~table.test_rows))
        test = np.flatnonzero(table.test_rows)
    held_out = max(1, round(len(fit) * settings.split.validation))
    validation, train = fit[:held_out], fit[held_out:]
    labels = table.frame[settings.target.column]
    for name, rows in (("train", train), ("test", test)):
        if labels.iloc[rows].nunique() < 2:
            raise UserError(f"{table.source}: the {name} split holds one class only")
    return train, validation, test


def _encode(table: Table, schema: FeatureSchema, settings: DataSettings, rows: np.ndarray) -> Split:
    part = table.frame.iloc[rows]
    favourable = (part[settings.target.column] == settings.target.favourable).to_numpy()
    return Split(
        schema.encode(part, table.source, settings.unseen),
        torch.from_numpy(favourable.astype(np.int64)),
        part.index.to_numpy(),
    )
