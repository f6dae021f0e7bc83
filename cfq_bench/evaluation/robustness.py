"""How often actions survive deployment: f_q's own actions on fresh variants of f_q (paper, E.4)."""

import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cfq_bench.actions.outcome import Solution, Status
from cfq_bench.actions.solver import Solver, in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.settings import Settings
from cfq_bench.data.dataset import Dataset
from cfq_bench.evaluation import functional as F
from cfq_bench.evaluation.tally import Evaluation, Tally
from cfq_bench.evaluation.teacher_recourse import Direction
from cfq_bench.quantization.sampling import IMAGES
from cfq_bench.quantization.variants import deployment_variants
from cfq_bench.seeds import derive_seed


def add_robustness(
    result: Evaluation,
    f_q: nn.Module,
    data: Dataset,
    space: ActionSpace,
    solver: Solver,
    direction: Direction,
    settings: Settings,
) -> Evaluation:
    """The evaluation with every ``robust/`` metric; as it is where `evaluation.variants` is 0.

    The population is the rows of the favourable direction that f_q rejects as well. A row without
    an action counts as a failure. Costs are compared over rows that both solvers solved; both
    times were taken in this process, on the same rows.

    Args:
        result: of `evaluate`, with the solver's actions on f_q.
        f_q: the quantized model.
        data: the splits; variants are calibrated on train rows.
        space: the action space.
        solver: the run's solver.
        direction: the favourable one.
        settings: of the run; the variants' seed derives from its seed.
    """
    evaluation = settings.evaluation
    if evaluation.variants == 0:
        return result
    # Of images, all would fit in no memory, and no more are looked at.
    most = None if data.train.x.dim() == 2 else IMAGES
    variants = deployment_variants(
        f_q,
        evaluation.variants,
        evaluation.uncertainty,
        data.train.inputs(slice(most)),
        derive_seed(settings.seed, "evaluation", "variants"),
    )
    needed = result.on_q.status != Status.NOT_NEEDED
    rows = int(needed.sum())
    holds = outcomes(variants, space, direction, result.on_q)[:, needed]
    tally = Tally()
    tally.add("robust/nominal_success", F.share(result.on_q.found[needed]), rows)
    tally.add("robust/success", F.share(holds.flatten()), rows)
    tally.add("robust/worst_success", F.share(holds.all(dim=0)), rows)
    standard = solver.standard()
    if standard is not None:
        start = time.perf_counter()
        plain = standard.solve(f_q, space, direction.x, direction.target, evaluation.kappa)
        ratio = result.solve_s / (time.perf_counter() - start)
        both = result.on_q.found & plain.found
        dearer = result.on_q.cost[both].mean() / plain.cost[both].mean()
        tally.add("robust/cost_ratio", dearer, int(both.sum()))
        tally.add("robust/time_ratio", ratio, rows)
    return result.extended(tally)


@torch.no_grad()
def outcomes(
    variants: Sequence[nn.Module], space: ActionSpace, direction: Direction, solution: Solution
) -> Tensor:
    """(M, B) bool: where a found action gives its target on each variant."""
    inputs = space.to_input(solution.point)
    reached = [in_blocks(variant)(inputs).argmax(1) == direction.target for variant in variants]
    return torch.stack(reached) & solution.found
