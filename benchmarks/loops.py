"""Training loops in bare PyTorch, without Lightning: what the benchmarks compare with."""

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.task import Task
from cfq_bench.methods.base import Method
from cfq_bench.training.trainer import cosine

BATCH = 256
NVML_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"


@contextmanager
def plain_torch() -> Iterator[None]:
    """Torch as it is in a process that never imported Lightning.

    Lightning sets this variable; Adam then looks for a GPU driver in every step, which costs a bare
    loop a quarter of its time on a machine without one.
    """
    before = os.environ.pop(NVML_CHECK, None)
    try:
        yield
    finally:
        if before is not None:
            os.environ[NVML_CHECK] = before


def batches(x: Tensor, y: Tensor, steps: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Slices of rows that are permuted at the start of every pass, as `SliceLoader` yields them."""
    while True:
        order = torch.randperm(len(x))
        permuted, labels = x[order], y[order]
        for start in range(0, len(x) - BATCH + 1, BATCH):
            if steps == 0:
                return
            steps -= 1
            rows = slice(start, start + BATCH)
            yield permuted[rows], labels[rows], order[rows]


@plain_torch()
def train_fp32(task: Task, steps: int) -> None:
    """The loop that one would write by hand: cross-entropy, fused Adam, cosine schedule."""
    network = copy.deepcopy(task.teacher).train()
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    optimizer = torch.optim.Adam(network.parameters(), lr=1.0e-3, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(steps))
    for x, y, _ in batches(task.data.train.x, task.data.train.y, steps):
        optimizer.zero_grad()
        F.cross_entropy(network(x), y).backward()
        optimizer.step()
        schedule.step()


@plain_torch()
def train_method(method: Method, task: Task, steps: int) -> None:
    """The steps of a method's first phase, in the same loop.

    The method must log rarely: without a trainer there is nothing to log to.
    """
    method.begin(method.phases()[0])
    method.train()
    configured = cast(dict[str, Any], method.configure_optimizers())
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    data = task.data.train
    for step, batch in enumerate(batches(data.x, data.y, steps), start=1):
        optimizer.zero_grad()
        loss = cast(Tensor, method.training_step(batch, step))
        loss.backward()
        optimizer.step()
        schedule.step()
        method.on_train_batch_end(loss, batch, step)
