"""From a raw table to encoded splits: what every later part of a run works on."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

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


@dataclass(frozen=True)
class Split:
    """Encoded rows of one split.

    Attributes:
        x: (N, d) float32.
        y: (N,) int64, 1 is the favourable outcome.
        row_ids: (N,) the rows' ids in the source table.
    """

    x: Tensor
    y: Tensor
    row_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device) -> "Split":
        """The same rows on a device."""
        return Split(self.x.to(device), self.y.to(device), self.row_ids)


@dataclass(frozen=True)
class TabularData:
    """One data set, split and encoded for one seed.

    `train` is what fits see; `validation` is set aside for choices; `test` is for evaluation alone.
    """

    schema: FeatureSchema
    train: Split
    validation: Split
    test: Split
    train_groups: pd.DataFrame
    """Protected attributes of the train rows, in the order of `train`; see `protected_groups`."""
    validation_groups: pd.DataFrame
    test_groups: pd.DataFrame
    source: str
    fingerprint: str
    """sha256 over the encoded splits: caches are keyed by it."""

    def on_validation(self) -> "TabularData":
        """The same data with the validation rows in place of the test rows."""
        return replace(
            self,
            test=self.validation,
            test_groups=self.validation_groups,
            fingerprint=f"{self.fingerprint}-validation",
        )

    def to(self, device: torch.device) -> "TabularData":
        """The same data with its tensors on a device."""
        return replace(
            self,
            train=self.train.to(device),
            validation=self.validation.to(device),
            test=self.test.to(device),
        )


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
    groups = (  # nobody's group is imputed
        protected_groups(raw, train, rows, settings) for rows in (train, validation, test)
    )
    return TabularData(schema, *splits, *groups, table.source, fingerprint(splits))


def fingerprint(splits: Iterable[Split]) -> str:
    """sha256 over encoded rows and labels."""
    digest = hashlib.sha256()
    for split in splits:
        digest.update(split.x.cpu().numpy().tobytes())
        digest.update(split.y.cpu().numpy().tobytes())
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
