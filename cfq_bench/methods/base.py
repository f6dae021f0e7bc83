"""What a method is given, and what it must provide."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from cfq_bench.actions.solver import Solver, make_solver
from cfq_bench.actions.space import ActionSpace
from cfq_bench.actions.teacher_actions import RecoursePoints, recourse_pool
from cfq_bench.backbones.base import Backbone
from cfq_bench.cache import Cache
from cfq_bench.config.plugin import load_class
from cfq_bench.config.qat import Target
from cfq_bench.config.settings import Settings
from cfq_bench.data.datamodule import SplitDataModule
from cfq_bench.data.dataset import Dataset
from cfq_bench.seeds import derive_seed
from cfq_bench.teacher.keys import recourse_key
from cfq_bench.training.trainer import LeanModule, Runtime, fit, freeze


class NotApplicableError(Exception):
    """A method cannot do this task; the run is recorded as skipped, with this reason."""


@dataclass
class Context:
    """What every method of a run shares: settings, data, teacher, action space.

    Attributes:
        seconds: time spent apart from fitting, by purpose; methods add to it.
        details: what a record says of the action space.
    """

    settings: Settings
    data: Dataset
    teacher: Backbone
    actions: ActionSpace
    cache: Cache
    runtime: Runtime = field(default_factory=Runtime)
    seconds: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def teacher_logits(self) -> Tensor:
        """(N, C) the teacher's logits on the train rows."""
        with torch.no_grad():
            return torch.cat([self.teacher(x) for x in self.data.train.blocks()])

    @cached_property
    def solver(self) -> Solver:
        """The run's solver, which may read a table's train rows."""
        x = self.data.train.x
        return make_solver(self.settings.solver, x if x.dim() == 2 else None)

    def recourse_pool(self, policy: Target, size: int, kappas: list[float]) -> RecoursePoints:
        """Minimal-cost teacher actions on a seeded sample of the train rows, from the cache.

        Args:
            policy: which class each row aims at.
            size: most rows.
            kappas: required margins.

        Returns:
            Points whose `rows` are positions in the train split.
        """
        start = time.perf_counter()
        settings = self.settings
        generator = torch.Generator().manual_seed(derive_seed(settings.seed, "pool"))
        rows = torch.randperm(len(self.data.train), generator=generator)[:size]
        x = self.data.train.inputs(rows.to(self.data.train.x.device))

        def solve() -> dict[str, Tensor]:
            pool = recourse_pool(self.teacher, self.actions, self.solver, x, policy, kappas=kappas)
            return replace(pool, rows=rows.to(x.device)[pool.rows]).tensors()

        key = {
            **recourse_key(settings, self.data, self.actions, self.runtime.device, __name__),
            "policy": policy,
            "size": size,
            "kappas": kappas,
            "holds": sorted(one.name for one in fields(RecoursePoints)),
        }
        tensors = self.cache.get_or_make("pool", key, solve)
        self.add_time("teacher_actions_s", time.perf_counter() - start)
        return RecoursePoints.from_tensors(tensors, self.runtime.device)

    def add_time(self, purpose: str, seconds: float) -> None:
        """Count seconds spent on a purpose."""
        self.seconds[purpose] = self.seconds.get(purpose, 0.0) + seconds


@dataclass(frozen=True)
class Phase:
    """A stretch of optimizer steps with one schedule."""

    name: str
    steps: int
    """Optimizer steps of this phase."""
    offset: int
    """Where the phase starts on its cosine schedule."""
    horizon: int
    """Steps after which that schedule reaches 0."""


class Method(LeanModule, ABC):
    """A quantization method. Subclasses stand in one file each, with their ``Config``.

    Args:
        config: the method's settings.
        context: data, teacher and action set of the run.
    """

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__()
        self.config = config
        self.context = context

    def phases(self) -> list[Phase]:
        """The fits to run, in order; none for a method that does not train."""
        settings = self.context.settings
        per_epoch = max(1, len(self.context.data.train) // settings.data.fit.batch_size)
        steps = max(1, round(settings.data.fit.epochs * per_epoch * self.config.epoch_factor))
        return [Phase("tune", steps, 0, steps)]

    def prepare(self) -> None:
        """Called once, before the phases: what a method does without training belongs here."""

    def begin(self, phase: Phase) -> None:
        """Called before each phase."""

    @abstractmethod
    def deployed(self) -> nn.Module:
        """f_q: the frozen network that ships, inputs to logits (B, C), in evaluation mode."""

    @abstractmethod
    def deployment(self) -> dict[str, Any]:
        """Bits of the deployed network: `bits_per_layer`, `sizes`, `activation_bits` by unit.

        So are `macs`, the multiplications of one input. A pruned network adds `kept`, the weights
        that are left.
        """


def make_method(context: Context) -> Method:
    """The method that the settings name, initialized from the run's seed alone."""
    settings = context.settings
    kind = load_class(settings.method.module, Method)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(settings.seed, "method"))
        method: Method = kind(settings.method, context)
    return method


def fit_method(method: Method) -> float:
    """Prepare a method and run every phase of it.

    Returns:
        Seconds of fitting, without the teacher's actions (`Context.seconds`).
    """
    context = method.context
    settings = context.settings
    start = time.perf_counter()
    method.prepare()
    phases = method.phases()
    for phase in phases:
        method.begin(phase)
        # All methods see the same batches: the order depends on the seed and the phase alone.
        order = derive_seed(settings.seed, "method", "order", phase.name)
        batches = SplitDataModule(
            context.data, settings.data.fit.batch_size, order, steps=phase.steps
        )
        fit(
            method,
            batches,
            context.runtime,
            what=f"{settings.method.name}: {phase.name}",
            max_epochs=1,
            total_steps=phase.steps,
            log_every=settings.training.log_every,
            callbacks=context.runtime.callbacks if phase is phases[-1] else (),
        )
    freeze(method)
    apart = context.seconds.get("teacher_actions_s", 0.0)
    return time.perf_counter() - start - apart
