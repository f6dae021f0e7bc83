"""Search by Optuna's TPE, by several processes over one journal, resumable after any kill.

A process asks for a point while it holds the sweep's lock, so that no two try the same point and
the number of trials is kept. Its claim tells the others that it lives: a trial whose process is
dead is marked failed and its point is put in line again. A point that kills `RETRIES` + 1 processes
of one call is given up; a call that was killed as a whole says nothing about a point.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from cfq_bench.errors import UserError
from cfq_bench.processes import is_left_over, maker
from cfq_bench.seeds import derive_seed
from cfq_bench.sweeps.execution import Place, execute
from cfq_bench.sweeps.points import Space, Values
from cfq_bench.sweeps.scores import Score, score
from cfq_bench.sweeps.study import alone, distribution, open_study, values_of
from cfq_bench.sweeps.workers import POLL_S, claim, is_held

RETRIES = 2
REPEATS = 100
"""Points in a row that were tried before, after which the space counts as exhausted."""


def evaluate(space: Space, place: Place, values: Values, trial: Trial) -> Score:
    """Run a point with every seed, unless the pruner ends it early.

    Raises:
        optuna.TrialPruned: it is worse than its predecessors were at the same place.
    """
    runs, sweep = space.runs(values), space.sweep
    if sweep.pruning is None:
        return score(sweep, [execute(space, place, run) for run in runs])
    from cfq_bench.sweeps.pruning import execute_watched  # torch, only where something is run

    records = [execute_watched(space, place, run, trial, i) for i, run in enumerate(runs)]
    return score(sweep, records)


@dataclass(frozen=True)
class SearchJob:
    """A search; it can be sent to another process.

    Attributes:
        space: the sweep.
        place: folders.
        evaluate: gives a point's score.
        call: names the processes that work side by side on this.
    """

    space: Space
    place: Place
    evaluate: Callable[[Space, Place, Values, Trial], Score] = evaluate
    call: str = field(default_factory=lambda: secrets.token_hex(4))

    def work(self, worker: int, tick: Callable[[], None]) -> None:
        """Try points until the sweep has its number of trials, or nothing new is left."""
        folder = self.place.folder(self.space)
        study = self._study(worker)
        name = f"{maker()}-{secrets.token_hex(4)}"
        with claim(_worker_file(folder, name)):
            while True:
                with alone(folder):
                    _free_dead(self, study, folder)
                    _sweep(folder)
                    trial, others = self._next(study, name)
                if trial is not None:
                    self._finish(study, trial)
                    tick()
                elif others:
                    time.sleep(POLL_S)  # one of them may be killed yet
                else:
                    break
        _worker_file(folder, name).unlink(missing_ok=True)

    def _study(self, worker: int) -> optuna.Study:
        sweep, folder = self.space.sweep, self.place.folder(self.space)
        with alone(folder):
            count = len(open_study(self.space, folder).get_trials(deepcopy=False))
        # A seed that is the same after a resume would draw the same points again.
        seed = derive_seed(sweep.seed, "sweep", str(count), str(worker))
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=sweep.startup_trials)
        return open_study(self.space, folder, sampler)

    def _next(self, study: optuna.Study, name: str) -> tuple[Trial | None, bool]:
        """A trial with a new point, or None and whether others are still at work."""
        sweep, running = self.space.sweep, False
        for _ in range(REPEATS):
            trials = study.get_trials(deepcopy=False)
            counted = [trial for trial in trials if _counts(trial)]
            waiting = any(trial.state == TrialState.WAITING for trial in counted)
            running = any(trial.state == TrialState.RUNNING for trial in counted)
            if len(counted) >= (sweep.trials or 0) and not waiting:
                return None, running
            trial = study.ask({key: distribution(axis) for key, axis in sweep.space.items()})
            trial.set_user_attr("worker", name)
            trial.set_user_attr("call", self.call)
            values = values_of(sweep, trial.params)
            try:
                runs = self.space.run_ids(values)
            except UserError as error:  # the settings do not allow this combination
                runs = [str(error)]
            same = [other for other in counted if other.user_attrs.get("runs") == runs]
            if same:
                trial.set_user_attr("void", f"the point of trial {same[0].number}")
                study.tell(trial, state=TrialState.FAIL)
                continue
            trial.set_user_attr("runs", runs)
            return trial, False
        return None, running

    def _finish(self, study: optuna.Study, trial: Trial) -> None:
        try:
            values = values_of(self.space.sweep, trial.params)
            self.space.run_ids(values)
        except UserError as error:
            found = Score(reason=str(error))
        else:
            try:
                found = self.evaluate(self.space, self.place, values, trial)
            except optuna.TrialPruned:
                study.tell(trial, state=TrialState.PRUNED)
                return
        if found.reason is not None:
            trial.set_user_attr("reason", found.reason)
            study.tell(trial, state=TrialState.FAIL)
            return
        for name, value in found.constraints.items():
            trial.set_constraint(name, value)
        study.tell(trial, found.values)


def tried(study: optuna.Study) -> int:
    """Trials that are done: with a value, pruned, or failed for a reason of their own."""
    done = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
    return sum(_counts(trial) for trial in study.get_trials(deepcopy=False, states=done))


def _counts(trial: FrozenTrial) -> bool:
    """Failed trials count where the run failed, or killed its process each time."""
    if trial.state != TrialState.FAIL:
        return True
    return "reason" in trial.user_attrs


def _worker_file(folder: Path, name: str) -> Path:
    return folder / "workers" / f"{name}.lock"


def _sweep(folder: Path) -> None:
    """Remove the claims of processes of this machine that were killed."""
    for path in (folder / "workers").glob("*.lock"):
        if is_left_over(path.name):
            path.unlink(missing_ok=True)


def _free_dead(job: SearchJob, study: optuna.Study, folder: Path) -> None:
    """Fail the trials of dead processes and put their points in line again."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        name = trial.user_attrs.get("worker")
        if name is not None and is_held(_worker_file(folder, name)):
            continue
        ours = trial.user_attrs.get("call") == job.call
        deaths = trial.user_attrs.get("deaths", 0) + 1 if ours else 0
        if deaths > RETRIES:
            reason = f"{deaths} processes were killed at it"
            Trial(study, trial._trial_id).set_user_attr("reason", reason)
        # Failed before it is put in line: a kill between the two must not double the point.
        study.tell(trial.number, state=TrialState.FAIL)
        if deaths <= RETRIES and trial.params.keys() == job.space.sweep.space.keys():
            attributes = {"deaths": deaths, "replaces": trial.number}
            study.enqueue_trial(trial.params, user_attrs=attributes)
