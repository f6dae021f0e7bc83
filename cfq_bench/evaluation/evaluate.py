"""Compare a quantized model with its teacher on the test rows.

f_q is any callable from inputs to logits; nothing here knows how it was made.
"""

import time
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from cfq_bench.actions.exact import exact_actions
from cfq_bench.actions.outcome import Model, Solution, Status, target_margin
from cfq_bench.actions.solver import Solver, in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.cache import Cache
from cfq_bench.config.settings import EvaluationSettings, Settings
from cfq_bench.data.dataset import Dataset
from cfq_bench.errors import UserError
from cfq_bench.evaluation import functional as F
from cfq_bench.evaluation.rows import row_table
from cfq_bench.evaluation.tally import Evaluation, Tally
from cfq_bench.evaluation.teacher_recourse import Direction, all_kappas, started
from cfq_bench.quantization.cost import average_bits, bit_operations
from cfq_bench.seeds import derive_seed
from cfq_bench.teacher.keys import recourse_key
from cfq_bench.training.trainer import Runtime

GAP_TIME_LIMIT_S = 10.0
"""Seconds per row for the optimum that the solver's gap is taken to."""


def evaluate(
    f_q: Model,
    teacher: Model,
    data: Dataset,
    space: ActionSpace,
    solver: Solver,
    directions: list[Direction],
    settings: EvaluationSettings,
    runtime: Runtime,
) -> Evaluation:
    """Every ``task/`` and ``recourse/`` metric of the protocol, and the per-row results.

    Args:
        f_q: the quantized model.
        teacher: the full-precision model.
        data: the splits; only the test split is read.
        space: the action space.
        solver: the evaluation solver, the same as for the teacher.
        directions: the teacher's actions, from `teacher_recourse`.
        settings: margins and tolerances.
        runtime: device and progress bar.
    """
    tally = Tally()
    f_q, teacher = in_blocks(f_q), in_blocks(teacher)
    with torch.no_grad():
        predicted_f, predicted_q = (
            torch.cat([model(x).argmax(1) for x in data.test.blocks()]) for model in (teacher, f_q)
        )
        count = len(data.test)
        tally.add("task/acc", F.share(predicted_q == data.test.y), count)
        tally.add("task/agreement", F.share(predicted_q == predicted_f), count)
        drift = F.favourable_drift(predicted_q, predicted_f)
        tally.add("task/favourable_drift", drift, count)
        for direction in directions:
            _add_validity(tally, f_q, space, direction, settings)
    for suffix in ["", *(f"@{kappa:g}" for kappa in settings.extra_kappas)]:
        pair = [tally.metrics[f"recourse/{name}{suffix}"] for name in ("vd", "vd_adverse")]
        behind = min(tally.counts[f"recourse/{name}{suffix}"] for name in ("vd", "vd_adverse"))
        error = F.boundary_error(torch.tensor(pair[0]), torch.tensor(pair[1]))
        tally.add(f"recourse/boundary_error{suffix}", error, behind)
    favourable = directions[0]
    report = started(runtime, "recourse on the quantized model", len(favourable.rows))
    start = time.perf_counter()
    on_q = solver.solve(f_q, space, favourable.x, favourable.target, settings.kappa, report)
    solve_s = time.perf_counter() - start
    runtime.progress.stop()
    _add_gaps(tally, space, favourable, on_q, settings)
    _add_solver_noise(tally, teacher, f_q, space, favourable, on_q, settings)
    solutions_q: list[Solution | None] = [on_q, *([None] * (len(directions) - 1))]
    tables = [
        row_table(direction, solution_q, f_q, predicted_q, space, data, settings.kappa)
        for direction, solution_q in zip(directions, solutions_q, strict=True)
    ]
    rows = pd.concat(tables, ignore_index=True)
    return Evaluation(tally.metrics, tally.counts, rows, on_q, solve_s)


def _add_validity(
    tally: Tally,
    f_q: Model,
    space: ActionSpace,
    direction: Direction,
    settings: EvaluationSettings,
) -> None:
    """VD or its adverse twin at every margin; FRR for the favourable direction."""
    name = "vd" if direction.name == "favourable" else "vd_adverse"
    for kappa in all_kappas(settings):
        solution = direction.solutions[kappa]
        found = solution.found
        predicted = f_q(space.to_input(solution.point[found])).argmax(1)
        failed = F.validity_drop(predicted, direction.target[found])
        rows = int(found.sum())
        if kappa == settings.kappa:
            tally.add(f"recourse/{name}", failed, rows)
        if kappa in settings.extra_kappas:
            tally.add(f"recourse/{name}@{kappa:g}", failed, rows)
    if direction.name == "favourable":
        solution = direction.solutions[settings.kappa]
        # An image whose reconstruction the teacher accepts needs no action; a table has none such.
        needed = solution.status != Status.NOT_NEEDED
        tally.add("recourse/frr", F.share(solution.found[needed]), int(needed.sum()))


def _add_gaps(
    tally: Tally,
    space: ActionSpace,
    direction: Direction,
    on_q: Solution,
    settings: EvaluationSettings,
) -> None:
    """CRG and its relatives, over rows with an action on the teacher."""
    on_f = direction.solutions[settings.kappa]
    found = on_f.found
    rows = int(found.sum())
    tally.add("recourse/lost", F.share(~on_q.solved[found]), rows)
    tally.add("recourse/free", F.share(on_q.status[found] == Status.NOT_NEEDED), rows)
    epsilon = settings.cost_epsilon
    solved = found & on_q.solved
    gap = F.cost_gap(on_f.cost[solved], on_q.cost[solved], epsilon)
    tally.add("recourse/crg_all", gap.mean(), len(gap))
    # Rows that both models reject and both solvers solved.
    both = found & on_q.found
    gap = F.cost_gap(on_f.cost[both], on_q.cost[both], epsilon)
    tally.add("recourse/crg", gap.mean(), len(gap))
    tally.add("recourse/crg_median", gap.quantile(0.5) if len(gap) else 0.0, len(gap))
    tally.add("recourse/crg_abs", gap.abs().mean(), len(gap))
    origin = space.origin(direction.x[both])
    point_f, point_q = on_f.point[both], on_q.point[both]
    similarity = F.direction_similarity(
        space.scaled_action(origin, point_f), space.scaled_action(origin, point_q)
    )
    tally.add("recourse/dirsim", similarity.mean(), len(gap))
    overlap = F.action_overlap(space.changed(origin, point_f), space.changed(origin, point_q))
    tally.add("recourse/act_overlap", overlap.mean(), len(gap))


def _add_solver_noise(
    tally: Tally,
    teacher: Model,
    f_q: Model,
    space: ActionSpace,
    direction: Direction,
    on_q: Solution,
    settings: EvaluationSettings,
) -> None:
    """How much of ``recourse/crg_abs`` is the solver's, where the optimum is not known.

    An action found on one model that holds on the other, for less than was found there, shows that
    the solver missed it. The rest of the gap is there whatever the solver does better.
    """
    on_f = direction.solutions[settings.kappa]
    both = on_f.found & on_q.found
    target, cost_f, cost_q = direction.target[both], on_f.cost[both], on_q.cost[both]

    def holds(model: Model, point: Tensor) -> Tensor:
        with torch.no_grad():
            logits = model(space.to_input(point))
        return target_margin(logits, target) >= settings.kappa

    least = torch.minimum(cost_f, cost_q)
    best_f = torch.where(holds(teacher, on_q.point[both]), least, cost_f)
    best_q = torch.where(holds(f_q, on_f.point[both]), least, cost_q)
    gap = F.cost_gap(cost_f, cost_q, settings.cost_epsilon).abs()
    left = F.cost_gap(best_f, best_q, settings.cost_epsilon).abs()
    tally.add("solver/crg_noise", (gap - left).mean(), len(gap))


def deployment_cost(deployment: dict[str, Any]) -> dict[str, float]:
    """The ``deploy/`` metrics of a method's `deployment()`.

    `kept` is given by methods that prune: nothing is removed without it. Average bits are over all
    weights, removed ones included, so that a budget means the same for every method.
    """
    sizes = list(deployment["sizes"].values())
    kept = sum(deployment.get("kept", deployment["sizes"]).values())
    macs = list(deployment["macs"].values())
    bits = list(deployment["bits_per_layer"].values())
    activation = list(deployment["activation_bits"].values())
    average = average_bits(sizes, bits)
    return {
        "deploy/avg_bits": average,
        "deploy/normalized_budget": average / 32,
        "deploy/bops": float(bit_operations(macs, bits, activation)),
        "deploy/sparsity": 1.0 - kept / sum(sizes),
    }


def teacher_gap(
    settings: Settings,
    data: Dataset,
    teacher: nn.Module,
    space: ActionSpace,
    direction: Direction,
    cache: Cache,
    runtime: Runtime,
) -> dict[str, float]:
    """`solver_gap`, solved once for all methods that share the teacher, then cached."""
    evaluation = settings.evaluation
    key = {
        **recourse_key(settings, data, space, runtime.device, __name__),
        "rows": [evaluation.max_rows, evaluation.exact_rows],
        "kappa": evaluation.kappa,
    }

    def solve() -> dict[str, Tensor]:
        gap = solver_gap(settings, teacher, space, direction)
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in gap.items()}

    return {name: float(value) for name, value in cache.get_or_make("gap", key, solve).items()}


def solver_gap(
    settings: Settings, teacher: nn.Module, space: ActionSpace, direction: Direction
) -> dict[str, float]:
    """``solver/gap_mean`` and ``solver/gap_p90`` on the teacher, where the optimum is known.

    The gap is taken to the proved bound, so that it is never too small.

    Returns:
        NaN for networks and costs that the exact solver refuses, or no rows solved by both.
    """
    unknown = {"solver/gap_mean": float("nan"), "solver/gap_p90": float("nan")}
    most = settings.evaluation.exact_rows
    if most == 0:
        return unknown
    generator = torch.Generator().manual_seed(derive_seed(settings.seed, "exact"))
    rows = torch.randperm(len(direction.rows), generator=generator)[:most].to(direction.x.device)
    kappa = settings.evaluation.kappa
    ours = direction.solutions[kappa]
    try:
        exact = exact_actions(
            teacher,
            space,
            direction.x[rows],
            direction.target[rows],
            kappa,
            time_limit_s=GAP_TIME_LIMIT_S,
            start=(ours.point[rows], ours.found[rows]),
        )
    except UserError:  # nothing is wrong with a model that has no known optimum
        return unknown
    proved = (exact.status == Status.FOUND) & ours.found[rows]
    known = proved.cpu().numpy() & (exact.bound > 0.0)
    if not known.any():
        return unknown
    gap = ours.cost[rows].double().cpu().numpy()[known] / exact.bound[known] - 1.0
    return {
        "solver/gap_mean": float(gap.mean()),
        "solver/gap_p90": float(np.quantile(gap, 0.9)),
    }
