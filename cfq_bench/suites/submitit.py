"""Workers as SLURM jobs, by submitit (``pip install 'cfq-bench[slurm]'``)."""

from pathlib import Path
from typing import Any

from cfq_bench.errors import UserError
from cfq_bench.suites.worker import Plan, work

_HOURS = 24


class SubmititWorkers:
    """Workers as jobs of one core; the results folder must be on a disk that all nodes share.

    Args:
        plan: what the workers are told.
        cluster: "slurm", or "local" for processes of this machine.
    """

    def __init__(self, plan: Plan, cluster: str) -> None:
        try:
            import submitit
        except ImportError:
            raise UserError(
                "--executor submitit needs submitit: pip install 'cfq-bench[slurm]'"
            ) from None
        logs = Path(plan.results_dir) / "slurm"
        try:
            self._executor: Any = submitit.AutoExecutor(folder=str(logs), cluster=cluster)
        except RuntimeError as error:  # sbatch is not there
            raise UserError(f"--executor submitit: {error}; is this a SLURM machine?") from None
        self._executor.update_parameters(
            timeout_min=60 * _HOURS, name="cfq-bench", cpus_per_task=1, mem_gb=4
        )
        self._plan = plan
        self._jobs: list[Any] = []

    def start(self) -> None:
        """Submit one more worker."""
        self._jobs.append(self._executor.submit(work, self._plan))

    def alive(self) -> int:
        """How many workers are at work or queued."""
        return sum(not job.done() for job in self._jobs)

    def ended(self) -> list[str]:
        """Why workers ended since the last call, for those that did not end well."""
        over = [job for job in self._jobs if job.done()]
        self._jobs = [job for job in self._jobs if job not in over]
        failures = (job.exception() for job in over)
        return [str(error).strip().splitlines()[-1] for error in failures if error is not None]

    def stop(self) -> None:
        """Cancel all jobs; their leases expire."""
        for job in self._jobs:
            if not job.done():
                job.cancel(check=False)
