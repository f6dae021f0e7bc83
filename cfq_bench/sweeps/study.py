"""The Optuna study of a sweep: every point is a trial in a journal that optuna-dashboard shows."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from cfq_bench.errors import UserError
from cfq_bench.sweeps.points import Space, Values
from cfq_bench.sweeps.scores import Score, feasible, rank
from cfq_bench.sweeps.settings import Axis, SweepSettings

JOURNAL = "journal.log"
Scalar = None | bool | int | float | str


def open_study(
    space: Space, folder: Path, sampler: optuna.samplers.BaseSampler | None = None
) -> optuna.Study:
    """Open the sweep's study, or start it.

    Args:
        space: the sweep.
        folder: holds the journal; made if it does not exist.
        sampler: draws new points; a grid needs none.

    Raises:
        UserError: the journal is damaged.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    path, sweep = folder / JOURNAL, space.sweep
    pruner: optuna.pruners.BasePruner = optuna.pruners.NopPruner()
    if sweep.pruning is not None:
        pruner = optuna.pruners.MedianPruner(n_startup_trials=sweep.pruning.startup_trials)
    try:
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(path))),
            study_name=space.study_name(),
            directions=sweep.directions,
            sampler=sampler,
            pruner=pruner,
            load_if_exists=True,
        )
    except ValueError as error:
        raise UserError(
            f"{path} is damaged ({str(error).splitlines()[0]}): move it away and repeat the "
            "command; runs are kept and will not be repeated"
        ) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if study.metric_names != sweep.objectives:
            study.set_metric_names(sweep.objectives)
    return study


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the sweep's lock: what is read from the study stays true until the block ends.

    The system takes the lock from a killed process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / "study.lock", poll_interval=0.01):
        yield


def distribution(axis: Axis) -> BaseDistribution:
    """An axis in Optuna's words."""
    if axis.values is not None:
        return CategoricalDistribution([as_choice(value) for value in axis.values])
    low, high, step = axis.low, axis.high, axis.step
    if low is None or high is None:
        raise ValueError("an axis is a list or a range")
    if isinstance(low, int) and isinstance(high, int) and (step is None or isinstance(step, int)):
        return IntDistribution(low, high, log=axis.log, step=1 if step is None else step)
    return FloatDistribution(float(low), float(high), log=axis.log, step=step)


def as_choice(value: Any) -> Scalar:
    """A listed value as Optuna takes it: what is no scalar becomes its JSON text."""
    return value if value is None or isinstance(value, Scalar) else json.dumps(value)


def values_of(sweep: SweepSettings, params: dict[str, Any]) -> Values:
    """The point that a trial's parameters mean; the inverse of `as_choice`."""
    values: Values = {}
    for key, axis in sweep.space.items():
        if axis.values is None:
            values[key] = params[key]
        else:
            values[key] = axis.values[[as_choice(v) for v in axis.values].index(params[key])]
    return values


def add_point(study: optuna.Study, space: Space, values: Values, score: Score) -> None:
    """Write a grid point as a trial, unless it is there. The caller holds `alone`."""
    runs = space.run_ids(values)
    state = TrialState.FAIL if score.reason is not None else TrialState.COMPLETE
    for trial in study.get_trials(deepcopy=False):
        # A point that failed once and works now is complete; twice failed is told once.
        if trial.user_attrs.get("runs") == runs and trial.state in (state, TrialState.COMPLETE):
            return
    attributes: dict[str, Any] = {"runs": runs}
    if score.reason is not None:
        attributes["reason"] = score.reason
    study.add_trial(
        create_trial(
            state=state,
            values=score.values or None,
            params={key: as_choice(value) for key, value in values.items()},
            distributions={key: distribution(axis) for key, axis in space.sweep.space.items()},
            user_attrs=attributes,
            constraints=score.constraints,
        )
    )


def complete(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that have a value, by number."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def choose(sweep: SweepSettings, trials: list[FrozenTrial]) -> FrozenTrial | None:
    """The best trial that keeps every constraint; the earlier one of equals.

    Returns:
        None where no trial keeps them all.
    """
    allowed = [trial for trial in trials if feasible(trial.constraints)]
    return min(allowed, key=lambda trial: rank(sweep, trial.values), default=None)


def front(sweep: SweepSettings, trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """Trials that keep every constraint and that no other such trial beats in all objectives."""
    trials = [trial for trial in trials if feasible(trial.constraints)]
    allowed = [(rank(sweep, trial.values), trial) for trial in trials]

    def beaten(values: tuple[float, ...]) -> bool:
        return any(
            other != values and all(a <= b for a, b in zip(other, values, strict=True))
            for other, _ in allowed
        )

    return [trial for values, trial in allowed if not beaten(values)]
