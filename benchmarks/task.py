"""What the benchmarks measure on: real tasks with their teacher, and a generated one."""

import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.backbones.base import Backbone, make_backbone
from cfq_bench.backbones.mlp import MLP
from cfq_bench.cache import Cache
from cfq_bench.config.loader import load_settings
from cfq_bench.data.dataset import Split, TabularData, load_data
from cfq_bench.data.sources import locate, named_data_dir, raw_files
from cfq_bench.methods.base import Context, Method, make_method
from cfq_bench.teacher.fit import obtain_teacher
from cfq_bench.training.trainer import Runtime, freeze

ADULT_ROWS, ADULT_WIDTH = 32_561, 104
"""Train rows and encoded columns of Adult."""


@dataclass(frozen=True)
class Task:
    """Data, teacher and action set; the parts of a run that methods share."""

    name: str
    data: TabularData
    teacher: Backbone
    space: ActionSet
    cache: Cache

    def rejected(self, most: int) -> np.ndarray:
        """Positions of test rows that the teacher rejects: a seeded sample, in order."""
        with torch.no_grad():
            rows = np.flatnonzero((self.teacher(self.data.test.x).argmax(1) == 0).numpy())
        order = np.random.default_rng(0).permutation(len(rows))
        return np.sort(rows[order[:most]])

    def method(self, name: str, *overrides: str) -> Method:
        """A fresh method on this task."""
        settings = load_settings(name, self.name, overrides=overrides)
        return make_method(Context(settings, self.data, self.teacher, self.space, self.cache))


def at_hand(name: str) -> bool:
    """Whether a data set's raw files are on this machine: benchmarks download nothing."""
    folder = named_data_dir(None)
    files = raw_files(load_settings(data=name).data.loader)
    return all(locate(raw, folder) is not None for raw in files)


@contextmanager
def real_task(name: str) -> Iterator[Task]:
    """A data set at hand with a trained teacher and a cache of its own."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(data=name)
        cache = Cache(Path(folder))
        data = load_data(settings.data, settings.seed, named_data_dir(None))
        space = ActionSet(data.schema, settings.actions, data.train.x)
        teacher = obtain_teacher(settings, data, space, cache, Runtime())
        yield Task(name, data, teacher, space, cache)


@contextmanager
def generated_task() -> Iterator[Task]:
    """Random rows of Adult's size for a 104-64-32-2 network: good for the time of steps alone.

    No action may be computed here: schema and action set are those of COMPAS.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(data="compas")
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(ADULT_ROWS, ADULT_WIDTH, generator=generator)
        y = (x.sum(1) > 0).long()
        data = load_data(settings.data, settings.seed)
        space = ActionSet(data.schema, settings.actions, data.train.x)
        rows = Split(x, y, torch.arange(ADULT_ROWS).numpy())
        data = dataclasses.replace(data, train=rows)
        teacher = make_backbone(MLP, settings.backbone, ADULT_WIDTH, seed=0)
        freeze(teacher)
        yield Task("compas", data, teacher, space, Cache(Path(folder)))
