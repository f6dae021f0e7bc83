"""What actions look like where a cost does not say it: latents and edits (paper, Table 32).

Images are also judged as a solver sees them, by their reconstructions. An image that the teacher
rejects and whose reconstruction it accepts needs no action there: its status is ``not_needed``, it
has no part in VD or CRG, and ``action/reconstruction_free`` says how many there are; of the adverse
direction, which has no part in VD adverse, ``action/reconstruction_free_adverse``.
"""

import torch

from cfq_bench.actions.outcome import Model, Solution, Status
from cfq_bench.actions.solver import in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.settings import EvaluationSettings
from cfq_bench.evaluation import functional as F
from cfq_bench.evaluation.tally import Evaluation, Tally
from cfq_bench.evaluation.teacher_recourse import Direction


@torch.no_grad()
def add_quality(
    result: Evaluation,
    teacher: Model,
    space: ActionSpace,
    directions: list[Direction],
    settings: EvaluationSettings,
) -> Evaluation:
    """The evaluation with every ``action/`` metric; as it is where the space has none (tables).

    Args:
        result: of `evaluate`, with the solver's actions on f_q.
        teacher: the full-precision model.
        space: the action space.
        directions: the teacher's actions, favourable first.
        settings: the margin that actions had to reach.
    """
    favourable = directions[0]
    on_f, on_q = favourable.solutions[settings.kappa], result.on_q
    both = on_f.found & on_q.found
    origin = space.origin(favourable.x[both])
    if not space.quality(origin[:0], origin[:0]):
        return result
    tally = Tally()
    for suffix, solution in (("f", on_f), ("q", on_q)):
        _add_actions(tally, space, origin, solution, both, suffix)
    for direction in directions:
        free = direction.solutions[settings.kappa].status == Status.NOT_NEEDED
        suffix = "_adverse" if direction.name == "adverse" else ""
        tally.add(f"action/reconstruction_free{suffix}", F.share(free), len(free))
    x = torch.cat([direction.x for direction in directions])
    again = space.to_input(space.origin(x))
    tally.add("action/reconstruction_mse", (again - x).square().mean(), len(x))
    model = in_blocks(teacher)
    same = model(again).argmax(1) == model(x).argmax(1)
    tally.add("action/reconstruction_agreement", F.share(same), len(x))
    return result.extended(tally)


def _add_actions(
    tally: Tally,
    space: ActionSpace,
    origin: torch.Tensor,
    solution: Solution,
    rows: torch.Tensor,
    suffix: str,
) -> None:
    """Means over the rows that CRG is taken on."""
    point = solution.point[rows]
    tally.add(f"action/cost_{suffix}", solution.cost[rows].mean(), len(point))
    for name, values in space.quality(origin, point).items():
        tally.add(f"action/{name}_{suffix}", values.mean(), len(point))
