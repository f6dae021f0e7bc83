"""Peak memory of solving a data set's rejected rows: ``python -m benchmarks.memory DATA CACHE``.

A process of its own, because a peak never falls again. Prints JSON.
"""

import json
import sys
from pathlib import Path

import torch

from benchmarks.peak import peak_mib
from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.solver import make_solver
from cfq_bench.cache import Cache
from cfq_bench.config.loader import load_settings
from cfq_bench.data.dataset import load_data
from cfq_bench.data.sources import named_data_dir
from cfq_bench.teacher.fit import obtain_teacher
from cfq_bench.training.trainer import Runtime


def main(name: str, cache: Path) -> None:
    """Solve all test rows that the teacher rejects, with `search`."""
    torch.set_num_threads(1)
    peaks: dict[str, float] = {"imported_mib": peak_mib()}
    settings = load_settings(data=name, solver="search")
    data = load_data(settings.data, settings.seed, named_data_dir(None))
    space = ActionSet(data.schema, settings.actions, data.train.x)
    teacher = obtain_teacher(settings, data, space, Cache(cache), Runtime())
    with torch.no_grad():
        x = data.test.x[teacher(data.test.x).argmax(1) == 0]
    peaks["loaded_mib"] = peak_mib()
    target = torch.ones(len(x), dtype=torch.int64)
    make_solver(settings.solver).solve(teacher, space, x, target, settings.evaluation.kappa)
    print(json.dumps({**peaks, "solved_mib": peak_mib(), "rows": len(x)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
