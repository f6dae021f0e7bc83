"""Pruning: Lightning reports how a training goes, and the pruner may end it."""

from typing import Any

import lightning as L
import optuna
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from cfq_bench.data.shift import shifted
from cfq_bench.evaluation import functional as F
from cfq_bench.evaluation.teacher_recourse import Direction, teacher_recourse
from cfq_bench.methods.base import Context, Method
from cfq_bench.record.record import Record
from cfq_bench.sweeps.execution import Place, execute
from cfq_bench.sweeps.points import Run, Space
from cfq_bench.training.trainer import StoppedEarlyError


def execute_watched(
    space: Space, place: Place, run: Run, trial: optuna.Trial, index: int
) -> Record:
    """Run one run and report the objective `reports` times within it and at its end.

    Args:
        space: the sweep.
        place: folders.
        run: the run.
        trial: its trial.
        index: 0 for the trial's first seed: trials are compared at the same seed and place.

    Raises:
        optuna.TrialPruned: the pruner wants no more of it; there is no record of this run.
    """
    pruning = space.sweep.pruning
    if pruning is None:
        return execute(space, place, run)
    metric, first = space.sweep.objectives[0], index * (pruning.reports + 1)
    try:
        record = execute(space, place, run, (Watch(trial, metric, pruning.reports, first),))
    except StoppedEarlyError:
        raise optuna.TrialPruned from None
    value = record.metrics.get(metric)
    if value is not None:
        trial.report(value, first + pruning.reports)
        if trial.should_prune() and index + 1 < len(space.sweep.seeds):
            raise optuna.TrialPruned
    return record


class Watch(Callback):
    """Takes a metric on the validation rows at even distances in a method's last fit.

    The teacher's actions that it needs are those of the evaluation: solved once, then cached.

    Args:
        trial: what is told.
        metric: one of `settings.WATCHED`.
        reports: how many times.
        first: the step of the first report.
    """

    def __init__(self, trial: optuna.Trial, metric: str, reports: int, first: int) -> None:
        self.trial, self.metric, self.reports, self.first = trial, metric, reports, first
        self.done = 0
        self.directions: list[Direction] = []

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        """Report where a share of the steps is done."""
        total = int(trainer.num_training_batches)
        due = (self.done + 1) * total // (self.reports + 1)
        if self.done == self.reports or trainer.global_step < due:
            return
        if not isinstance(pl_module, Method):
            raise TypeError("a method's fit is watched, nothing else")
        self.trial.report(self._value(pl_module), self.first + self.done)
        self.done += 1
        if self.trial.should_prune():
            raise StoppedEarlyError("pruned")

    def _value(self, method: Method) -> float:
        was_training = method.training
        method.eval()
        with torch.no_grad():
            value = self._metric(method, method.context)
        method.train(was_training)
        return float(value)

    def _metric(self, method: Method, context: Context) -> Tensor:
        # Never the test rows; shifted as those that the end of the run is evaluated on.
        data, _ = shifted(context.data.on_validation(), context.settings)
        if self.metric == "task/acc":
            predicted = torch.cat([method(x).argmax(1) for x in data.test.blocks()])
            return F.share(predicted == data.test.y)
        if not self.directions:
            self.directions = teacher_recourse(
                context.settings,
                data,
                context.teacher,
                context.actions,
                context.solver,
                context.cache,
                context.runtime,
            )
        favourable, adverse = (self._failed(method, context, each) for each in self.directions)
        if self.metric == "recourse/vd":
            return favourable
        if self.metric == "recourse/vd_adverse":
            return adverse
        return F.boundary_error(favourable, adverse)

    def _failed(self, method: Method, context: Context, direction: Direction) -> Tensor:
        """Share of the teacher's actions that fail on the network as it is now."""
        solution = direction.solutions[context.settings.evaluation.kappa]
        points = context.actions.to_input(solution.point[solution.found])
        predicted = method(points).argmax(1)
        return F.validity_drop(predicted, direction.target[solution.found])
