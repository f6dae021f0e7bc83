"""A process that asks a cache for an entry, as its siblings do at the same moment."""

import os
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import torch

from cfq_bench.cache import Cache
from tests.support.waiting import PATIENCE_S


def ask(root: Path, log: Path, start: Barrier) -> None:
    def make() -> dict[str, torch.Tensor]:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.3)  # long enough that the others are waiting at the lock
        return {"x": torch.arange(3)}

    start.wait(PATIENCE_S)
    got = Cache(root).get_or_make("teacher", {"seed": 0}, make)
    assert torch.equal(got["x"], torch.arange(3))
