"""One worker: takes the next run that nobody has, runs it, publishes it, until none is left.

All executors start the same worker; how many there are, and on which machines, it need not know.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from cfq_bench.config.loader import settings_from_config
from cfq_bench.errors import FolderError, UserError
from cfq_bench.files import explained, run_id, write_atomic
from cfq_bench.processes import end_after
from cfq_bench.record.store import RecordStore
from cfq_bench.suites.lease import EXPIRY_S, Lease, Leases, read_holder
from cfq_bench.tracking.mode import Mode

if TYPE_CHECKING:
    import pandas as pd

    from cfq_bench.record.record import Record

ATTEMPTS = 2
"""Workers that may die at a run before it is recorded as failed."""
POLL_S = 0.2
FAULT = "error: "
"""How the last line of a worker begins that met what every other one will meet."""


class LeaseLostError(Exception):
    """Another worker took the run over, or published it first."""


@dataclass(frozen=True)
class Plan:
    """What a worker is told.

    Attributes:
        configs: whole configurations of the runs, in the order in which to take them.
        results_dir: records go to ``<results_dir>/runs``, leases to ``<results_dir>/leases``.
        cache_dir, data_dir, wandb, device: as in `experiment.Options`.
        expiry_s: as in `Leases`.
        stale: marks of the records that are to be replaced, by run id.
    """

    configs: list[dict[str, Any]]
    results_dir: str
    cache_dir: str | None = None
    data_dir: str | None = None
    wandb: str = "auto"
    device: str = "cpu"
    expiry_s: float = EXPIRY_S
    stale: dict[str, str] = field(default_factory=dict)

    def is_recorded(self, store: RecordStore, run_id: str) -> bool:
        """Whether a run has a record that is not to be replaced."""
        mark = store.mark(run_id)
        return mark is not None and mark != self.stale.get(run_id)

    def write(self, path: Path) -> None:
        """Store the plan for workers that are processes of their own."""
        write_atomic(path, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `write` stored."""
        return cls(**json.loads(path.read_bytes()))


def leases_of(plan: Plan) -> Leases:
    """The leases of the plan's results folder."""
    return Leases(Path(plan.results_dir) / "leases", plan.expiry_s)


def recorded_since(store: RecordStore, folder: Path) -> Callable[[str], bool]:
    """Whether a run has a record, and nobody is at work on another.

    A living holder of a lease that is younger than the record replaces a stale one.
    """

    def is_recorded(run_id: str) -> bool:
        lease = folder / f"{run_id}.lease"
        try:
            recorded, taken = (path.stat().st_mtime_ns for path in (store.path(run_id), lease))
        except FileNotFoundError:
            return False
        holder = read_holder(lease)
        return recorded >= taken or (holder is not None and holder.is_gone())

    return is_recorded


def work(plan: Plan, leases: Leases | None = None) -> int:
    """Run what has no record and no living worker; return when every run has a record.

    Returns:
        How many runs this worker published.

    Raises:
        FolderError: a folder cannot be written, which is no failure of the run that met it.
    """
    with explained(f"share runs in {plan.results_dir}"):
        return _work(plan, leases_of(plan) if leases is None else leases)


def _work(plan: Plan, leases: Leases) -> int:
    store = RecordStore(Path(plan.results_dir))
    todo = {run_id(config): config for config in plan.configs}
    published = 0
    while todo:
        before = len(todo)
        for name in list(todo):
            if plan.is_recorded(store, name):
                del todo[name]
            elif (lease := leases.claim(name)) is not None:
                with lease:
                    published += _run_leased(todo.pop(name), name, plan, store, lease)
        if len(todo) == before:
            time.sleep(POLL_S)  # the others are at work on what is left: they may die
    leases.sweep(recorded_since(store, leases.folder))
    return published


def _run_leased(
    config: dict[str, Any], name: str, plan: Plan, store: RecordStore, lease: Lease
) -> bool:
    """One run, to its record; whatever goes wrong is the record's reason, and the others go on."""
    if plan.is_recorded(store, name):  # published between the look at it and the lease
        return False

    def publish(
        record: "Record",
        rows: "pd.DataFrame | None" = None,
        network: bytes | None = None,
        history: "pd.DataFrame | None" = None,
    ) -> None:
        stale = plan.stale.get(name)
        if not (lease.is_mine() and store.publish(record, rows, network, history, stale)):
            raise LeaseLostError(name)

    try:
        if lease.holder.attempt > ATTEMPTS:
            why = f"its worker was killed {ATTEMPTS} times: is there memory enough for the run?"
            publish(_failure(config, why))
            return True
        from cfq_bench.experiment import Options, answer

        options = Options(
            results_dir=Path(plan.results_dir),
            cache_dir=None if plan.cache_dir is None else Path(plan.cache_dir),
            data_dir=None if plan.data_dir is None else Path(plan.data_dir),
            wandb=cast(Mode, plan.wandb),
            device=plan.device,
            force=True,  # whether there is a record that answers was asked above
            publish=publish,
        )
        try:
            answer(settings_from_config(config), options)
        except FolderError:
            raise
        except UserError as error:
            publish(_failure(config, str(error)))
    except LeaseLostError:
        return False
    return True


def _failure(config: dict[str, Any], reason: str) -> "Record":
    from cfq_bench.record.identity import made_by_code
    from cfq_bench.record.provenance import provenance
    from cfq_bench.record.record import Record

    return Record(
        run_id=run_id(config),
        status="failed",
        reason=reason,
        config=config,
        metrics={},
        counts={},
        details={},
        provenance=provenance("cpu", 1),
        seconds=0.0,
        made_by=made_by_code(config),
    )


def main() -> int:
    """A worker process: the plan's file is its argument; it ends when its standard input does."""
    plan = Plan.read(Path(sys.argv[1]))
    try:
        with explained(f"share runs in {plan.results_dir}"):
            leases = leases_of(plan)
        # Nothing is ever written to the standard input: it is at its end when the parent is gone.
        end_after(lambda: os.read(0, 1), leases.release_all)
        work(plan, leases)
    except UserError as error:
        print(f"{FAULT}{error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
