"""Measure the solvers against exact optima: results/gap_report.json and results/gap_report.md.

Usage::

    python scripts/gap_report.py [--rows 100] [--data NAME ...] [--out results]

A seeded sample of test rows that the teacher rejects, towards the favourable class, at the default
margin: logistic regression on every data set at hand, the small ReLU network on COMPAS and German
Credit, all with the weighted l1 cost. The gap is a solver's cost over the proved bound, on rows
solved by both; a missed row has a proved action that the solver did not find. The exit code is 1
where `search` misses a bar, or nothing could be measured.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.exact import ExactAnswer, exact_actions
from cfq_bench.actions.outcome import Solution, Status
from cfq_bench.actions.solver import make_solver
from cfq_bench.cache import Cache, default_cache_dir
from cfq_bench.config.loader import load_settings
from cfq_bench.data.dataset import load_data
from cfq_bench.data.sources import named_data_dir
from cfq_bench.errors import UserError
from cfq_bench.evaluation.functional import optimality_gap
from cfq_bench.files import write_atomic
from cfq_bench.seeds import derive_seed
from cfq_bench.teacher.fit import obtain_teacher
from cfq_bench.training.trainer import Runtime

ROOT = Path(__file__).parents[1]
SOLVERS = ("search", "pgd")
SMALL_NETWORK = ("compas", "german")
"""Data sets on which the small ReLU network is measured too."""
TIME_LIMIT_S = 60.0
MOST_GAP, MOST_MISSED = 0.05, 0.02
"""Bars for `search`: mean gap, and share of the feasible rows that it misses."""
COLUMNS = {
    "data": "data",
    "backbone": "model",
    "solver": "solver",
    "rows": "rows",
    "gap_mean": "mean gap",
    "gap_p90": "p90 gap",
    "frr_found": "FRR found",
    "frr_proved": "FRR proved",
    "missed": "missed",
    "undecided": "undecided",
}


def measure(data_name: str, backbone: str, most: int) -> list[dict[str, Any]]:
    """One line for each solver."""
    # Optima are linear programs under weighted l1 alone; one preset has another cost.
    cost = ["actions.cost=weighted_l1"]
    settings = load_settings("fp32", data_name, backbone=backbone, overrides=cost)
    runtime, cache = Runtime(), Cache(default_cache_dir())
    own, actions = settings.table()
    data = load_data(own, settings.seed, named_data_dir(None))
    space = ActionSet(data.schema, actions, data.train.x)
    teacher = obtain_teacher(settings, data, space, cache, runtime)
    with torch.no_grad():
        rejected = (teacher(data.test.x).argmax(1) == 0).nonzero()[:, 0]
    generator = torch.Generator().manual_seed(derive_seed(settings.seed, "gap report"))
    chosen = torch.randperm(len(rejected), generator=generator)[:most].sort().values
    x = data.test.x[rejected[chosen]]
    target = torch.ones(len(x), dtype=torch.int64)
    kappa = settings.evaluation.kappa
    exact = exact_actions(teacher, space, x, target, kappa, time_limit_s=TIME_LIMIT_S)
    lines = []
    for name in SOLVERS:
        solver = make_solver(load_settings("fp32", data_name, solver=name).solver)
        solution = solver.solve(teacher, space, x, target, kappa)
        about = {"data": data_name, "backbone": backbone, "solver": name, "kappa": kappa}
        lines.append({**about, **compare(exact, solution)})
    return lines


def compare(exact: ExactAnswer, solution: Solution) -> dict[str, Any]:
    """What a solver found, beside what is proved."""
    feasible = exact.status == Status.FOUND
    proved_none = exact.status == Status.INFEASIBLE
    if bool((solution.found & proved_none).any()):
        raise RuntimeError("a solver found an action where none was proved to exist")
    both = solution.found & feasible
    bound = torch.from_numpy(exact.bound)[both]
    gap = optimality_gap(solution.cost[both].double(), bound).numpy()
    own = exact.cost[feasible.numpy()] / exact.bound[feasible.numpy()] - 1.0
    return {
        "rows": len(feasible),
        "gap_mean": float(gap.mean()) if len(gap) else None,
        "gap_p90": float(np.quantile(gap, 0.9)) if len(gap) else None,
        "gap_max": float(gap.max()) if len(gap) else None,
        "frr_found": float(solution.found.double().mean()),
        "frr_proved": float(feasible.double().mean()),
        "missed": float((feasible & ~solution.found).sum() / feasible.sum().clamp_min(1)),
        "undecided": int((exact.status == Status.NOT_FOUND).sum()),
        "exact_over_bound_max": float(own.max()) if len(own) else None,
    }


def markdown(lines: list[dict[str, Any]]) -> str:
    """A table, with shares in per cent."""

    def cell(key: str, value: Any) -> str:
        if isinstance(value, float):
            return f"{100 * value:.1f} %"
        return "-" if value is None else str(value)

    rows = [list(COLUMNS.values()), ["---"] * len(COLUMNS)]
    rows += [[cell(key, line[key]) for key in COLUMNS] for line in lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def meets_bars(line: dict[str, Any]) -> bool:
    """Whether a line of `search` is within the bars; other solvers have none."""
    gap = line["gap_mean"]
    return line["solver"] != "search" or (
        gap is not None and gap <= MOST_GAP and line["missed"] <= MOST_MISSED
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; returns the exit code."""
    parser = argparse.ArgumentParser(description="Solvers against exact optima.")
    names = sorted(path.stem for path in (ROOT / "conf" / "data").glob("*.yaml"))
    parser.add_argument("--rows", type=int, default=100, help="rejected rows per data set")
    parser.add_argument("--data", nargs="+", default=names, help="data sets; default: all at hand")
    parser.add_argument("--out", type=Path, default=ROOT / "results")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    lines, skipped = [], {}
    for name in options.data:
        for backbone in ("logreg", "mlp_small") if name in SMALL_NETWORK else ("logreg",):
            try:
                lines += measure(name, backbone, options.rows)
            except UserError as why:
                skipped[f"{name}, {backbone}"] = str(why)
                print(f"skipped {name}, {backbone}: {why}", file=sys.stderr)
    bars = {
        "gap_mean": MOST_GAP,
        "missed": MOST_MISSED,
        "met": bool(lines) and all(map(meets_bars, lines)),
    }
    report = {"bars_for_search": bars, "lines": lines, "skipped": skipped}
    text = json.dumps(report, indent=1, allow_nan=False) + "\n"
    write_atomic(options.out / "gap_report.json", text.encode())
    write_atomic(options.out / "gap_report.md", markdown(lines).encode())
    print(markdown(lines), end="")
    return 0 if bars["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
