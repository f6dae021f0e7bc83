"""Workers on this machine: fresh Python processes, one torch thread each, reused for all runs."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import cfq_bench
from cfq_bench.files import temporary
from cfq_bench.suites.worker import FAULT, Plan

_PATIENCE_S = 10.0  # between asking a worker to end and ending it


@dataclass(frozen=True)
class _Worker:
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    plan: Path

    def close(self) -> None:
        self.errors.close()
        self.plan.unlink(missing_ok=True)


class LocalWorkers:
    """Worker processes that end with this one.

    A worker is a new interpreter, not a fork or a ``multiprocessing`` child: torch's threads do
    not survive a fork, and a caller's script need not guard its main module.

    Args:
        plan: what the workers are told.
    """

    def __init__(self, plan: Plan) -> None:
        self._workers: list[_Worker] = []
        self._plan = plan

    def start(self) -> None:
        """Start one more worker."""
        paths = [str(Path(cfq_bench.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        one_thread = dict.fromkeys(
            ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
        )
        environment = {**os.environ, **one_thread}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        plan = temporary(Path(self._plan.results_dir) / "leases", "plan")  # swept, if we are killed
        self._plan.write(plan)
        errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the worker has ended)
        process = subprocess.Popen(
            [sys.executable, "-m", "cfq_bench.suites.worker", str(plan)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment,
        )
        self._workers.append(_Worker(process, errors, plan))

    def alive(self) -> int:
        """How many workers are at work."""
        return len(self._workers) - len(self._over())

    def ended(self) -> list[str]:
        """Why workers ended since the last call, for those that did not end well."""
        over = self._over()
        self._workers = [worker for worker in self._workers if worker not in over]
        why = [_why(worker) for worker in over if worker.process.returncode != 0]
        for worker in over:
            worker.close()
        return why

    def stop(self) -> None:
        """End all workers: they release their leases."""
        for worker in self._workers:
            if worker.process.stdin is not None:
                worker.process.stdin.close()
        for worker in self._workers:
            try:
                worker.process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            worker.close()

    def pids(self) -> list[int]:
        """Processes of the workers."""
        return [worker.process.pid for worker in self._workers]

    def _over(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.process.poll() is not None]


def _why(worker: _Worker) -> str:
    worker.errors.seek(0)
    lines = worker.errors.read().decode(errors="replace").strip().splitlines()
    code = worker.process.returncode
    if code == 2 and lines and lines[-1].startswith(FAULT):
        return lines[-1]  # one line that says all
    end = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return f"{end}: {lines[-1]}" if lines and code > 0 else end
