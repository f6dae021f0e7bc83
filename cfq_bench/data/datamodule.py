"""Batches for Lightning: slices of tensors, without per-row collation.

A ``DataLoader`` over a ``TensorDataset`` collates row by row and costs three times a bare training
loop on networks this small; slicing tensors that are permuted once an epoch costs next to nothing.
"""

from collections.abc import Iterator

import lightning as L
import torch
from torch import Tensor

from cfq_bench.data.dataset import Split, TabularData

Batch = tuple[Tensor, Tensor, Tensor]
"""x (B, d) float32, y (B,) int64, rows (B,) int64: positions in the train split."""


class SliceLoader:
    """Iterates over shuffled batches; restarts from its seed only when it is made anew.

    Args:
        split: the rows.
        batch_size: rows per batch; the last, shorter batch of an epoch is dropped.
        seed: of the order; None keeps the rows' order and the last batch.
        epochs: passes over the rows in one iteration.
    """

    def __init__(
        self, split: Split, batch_size: int, seed: int | None = None, epochs: int = 1
    ) -> None:
        self.split = split
        self.batch_size = min(batch_size, len(split))
        self.epochs = epochs
        self.generator = None if seed is None else torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        full, rest = divmod(len(self.split), self.batch_size)
        return self.epochs * (full + (self.generator is None and rest > 0))

    def __iter__(self) -> Iterator[Batch]:
        x, y = self.split.x, self.split.y
        count = len(self.split)
        stop = count - count % self.batch_size if self.generator is not None else count
        for _ in range(self.epochs):
            if self.generator is None:
                order = torch.arange(count)
            else:
                order = torch.randperm(count, generator=self.generator)
            order = order.to(x.device)
            x_epoch, y_epoch = x[order], y[order]
            for start in range(0, stop, self.batch_size):
                rows = slice(start, start + self.batch_size)
                yield x_epoch[rows], y_epoch[rows], order[rows]


class TableDataModule(L.LightningDataModule):
    """The train and validation batches of one fit.

    Args:
        data: the encoded splits, on the device where the fit runs.
        batch_size: rows per optimizer step.
        seed: of the batch order.
        epochs: passes per Lightning epoch. Methods that look at nothing between epochs run all of
            theirs as one, which spares Lightning's bookkeeping.
    """

    def __init__(self, data: TabularData, batch_size: int, seed: int, epochs: int = 1) -> None:
        super().__init__()
        self.data = data
        self.batch_size = batch_size
        self.train_loader = SliceLoader(data.train, batch_size, seed, epochs)

    def train_dataloader(self) -> SliceLoader:
        """Shuffled train batches."""
        return self.train_loader

    def val_dataloader(self) -> SliceLoader:
        """The validation rows as one batch."""
        return SliceLoader(self.data.validation, len(self.data.validation))
