"""Batches for Lightning: slices of tensors in memory, without per-row collation or workers.

A ``DataLoader`` over a ``TensorDataset`` collates row by row and costs three times a bare training
loop on networks this small; slicing tensors that are permuted once an epoch costs next to nothing.
"""

import itertools
from collections.abc import Iterator

import lightning as L
import torch
from torch import Tensor

from cfq_bench.data.dataset import Dataset, Split, as_inputs

Batch = tuple[Tensor, Tensor, Tensor]
"""x (B, d) or (B, C, H, W) float32, y (B,) int64, rows (B,) int64: positions in the split."""


class SliceLoader:
    """Iterates over shuffled batches of equal size; every pass has a new order.

    Args:
        split: the rows.
        batch_size: rows per batch; the last, shorter batch of a pass over the rows is dropped.
        seed: of the order.
        steps: batches in one iteration, over as many passes as that takes; None is one pass.
    """

    def __init__(self, split: Split, batch_size: int, seed: int, steps: int | None = None) -> None:
        self.split = split
        self.batch_size = min(batch_size, len(split))
        self.steps = steps if steps is not None else len(split) // self.batch_size
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Batch]:
        left = self.steps
        while left > 0:
            for batch in itertools.islice(self._one_pass(), left):
                yield batch
                left -= 1

    def _one_pass(self) -> Iterator[Batch]:
        x, y = self.split.x, self.split.y
        order = torch.randperm(len(self.split), generator=self.generator).to(x.device)
        if x.dim() > 2:  # images: gigabytes, which a copy in this order would double
            for batch in torch.split(order, self.batch_size):
                if len(batch) == self.batch_size:
                    yield as_inputs(x[batch]), y[batch], batch
            return
        x, y = x[order], y[order]
        for start in range(0, len(order) - self.batch_size + 1, self.batch_size):
            rows = slice(start, start + self.batch_size)
            yield as_inputs(x[rows]), y[rows], order[rows]


class InOrder:
    """A split in order; a class of its own, because Lightning reads a list as many loaders."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def __len__(self) -> int:
        return len(range(0, len(self.split), self.split.block))

    def __iter__(self) -> Iterator[Batch]:
        start = 0
        for x in self.split.blocks():
            rows = torch.arange(start, start + len(x), device=x.device)
            yield x, self.split.y[rows], rows
            start += len(x)


class SplitDataModule(L.LightningDataModule):
    """The train and validation batches of one fit.

    Args:
        data: the splits, on the device where the fit runs.
        batch_size: rows per optimizer step.
        seed: of the batch order.
        steps: batches per Lightning epoch; None is one pass over the rows. Methods that look at
            nothing between epochs run all their steps as one, which spares Lightning's bookkeeping.
    """

    def __init__(self, data: Dataset, batch_size: int, seed: int, steps: int | None = None) -> None:
        super().__init__()
        self.data = data
        self.train_loader = SliceLoader(data.train, batch_size, seed, steps)

    def train_dataloader(self) -> SliceLoader:
        """Shuffled train batches."""
        return self.train_loader

    def val_dataloader(self) -> InOrder:
        """The validation rows: of a table as one batch."""
        return InOrder(self.data.validation)
