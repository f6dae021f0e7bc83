"""Workers on a Ray cluster (Ray core; ``pip install 'cfq-bench[ray]'``)."""

import os
from typing import Any

from cfq_bench.errors import UserError
from cfq_bench.suites.worker import Plan, work

_PATIENCE_S = 10.0  # between asking workers to end and leaving them


class RayWorkers:
    """Workers as Ray tasks of one core each; the results folder must be shared by all nodes.

    Args:
        plan: what the workers are told.
        address: the cluster, "auto" for the one this machine belongs to, "local" for a new one.
    """

    def __init__(self, plan: Plan, address: str) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise UserError("--executor ray needs Ray: pip install 'cfq-bench[ray]'") from None
        own = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address, log_to_driver=False, logging_level="ERROR", **own)
        except ConnectionError:
            raise UserError(
                f"no Ray cluster at {address!r}: start one with `ray start --head`, "
                "or give --address local"
            ) from None
        self._ray: Any = ray
        one_thread = {"env_vars": {"OMP_NUM_THREADS": "1", "CFQ_BENCH_WORKER": "ray"}}
        # Ray's own retries are off: who died is replaced here, as with the other executors.
        self._task = ray.remote(num_cpus=1, max_retries=0, runtime_env=one_thread)(work)
        self._plan = ray.put(plan)
        self._tasks: list[Any] = []

    def start(self) -> None:
        """Start one more worker; it is queued while the cluster has no free core."""
        self._tasks.append(self._task.remote(self._plan))

    def alive(self) -> int:
        """How many workers are at work or queued."""
        _, running = self._split()
        return len(running)

    def ended(self) -> list[str]:
        """Why workers ended since the last call, for those that did not end well."""
        over, self._tasks = self._split()
        why = []
        for task in over:
            try:
                self._ray.get(task)
            except self._ray.exceptions.RayError as error:
                why.append(str(error).strip().splitlines()[-1])
        return why

    def stop(self) -> None:
        """End all workers, which release their leases, and leave the cluster."""
        for task in self._tasks:
            self._ray.cancel(task)  # Ctrl-C in the worker; by force it would keep its lease
        if self._tasks:
            self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=_PATIENCE_S)
        self._ray.shutdown()

    def _split(self) -> tuple[list[Any], list[Any]]:
        if not self._tasks:
            return [], []
        over, running = self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=0)
        return over, running
