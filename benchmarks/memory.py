"""Peak memory of one piece of work: ``python -m benchmarks.memory WHAT DATA CACHE [OVERRIDE...]``.

WHAT is `solve`: all test rows that the teacher rejects, with `search`; `teacher`: full-precision
training, whose teacher then lies in the cache; or a method that trains a copy of that teacher. A
process of its own, because a peak never falls again. Prints JSON.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.peak import peak_mib
from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.solver import make_solver
from cfq_bench.cache import Cache
from cfq_bench.config.loader import load_settings
from cfq_bench.data.dataset import load_data
from cfq_bench.data.sources import named_data_dir
from cfq_bench.methods.base import Context, fit_method, make_method
from cfq_bench.teacher.fit import obtain_teacher
from cfq_bench.training.trainer import Runtime


def peaks_of(what: str, data: str, cache: Path, overrides: Sequence[str] = ()) -> dict[str, float]:
    """Peaks of a fresh process after its imports, after data and teacher, and at the end, in MiB.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", "benchmarks.memory", what, data, str(cache), *overrides]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    peaks: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return peaks


def main(what: str, name: str, cache: Path, overrides: Sequence[str]) -> None:
    """Do the work and print its peaks."""
    torch.set_num_threads(1)
    peaks: dict[str, float] = {"imported_mib": peak_mib()}
    method = "fp32" if what in ("solve", "teacher") else what
    settings = load_settings(method, name, overrides=["solver=search", *overrides])
    data = load_data(settings.data, settings.seed, named_data_dir(None))
    space = ActionSet(data.schema, settings.actions, data.train.x)
    teacher = obtain_teacher(settings, data, space, Cache(cache), Runtime())
    peaks["loaded_mib"] = peak_mib()
    if what == "solve":
        with torch.no_grad():
            x = data.test.x[teacher(data.test.x).argmax(1) == 0]
        target = torch.ones(len(x), dtype=torch.int64)
        make_solver(settings.solver).solve(teacher, space, x, target, settings.evaluation.kappa)
        peaks["rows"] = len(x)
    elif what != "teacher":
        fit_method(make_method(Context(settings, data, teacher, space, Cache(cache))))
    print(json.dumps({**peaks, "done_mib": peak_mib()}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
