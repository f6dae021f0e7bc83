"""How far `latent_search` stays above the cheapest action that a long descent finds.

Usage::

    python scripts/latent_gaps.py [--data NAME ...] [--rows 24] [--steps 150]

No exact optimum is known for a convolutional network behind a decoder. From every answer, steps go
down the slope of the cost along the boundary, and back to it; of all points that keep the margin
the cheapest counts. The gap is a lower bound: where the descent finds nothing cheaper, it is 0.
Writes results/latent_gaps.md.
"""

from pathlib import Path

import click
import torch
from torch import Tensor

from cfq_bench.actions.outcome import Model, Solution, target_margin
from cfq_bench.actions.solver import in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.loader import load_settings
from cfq_bench.experiment import Options, make_context
from cfq_bench.files import write_atomic
from cfq_bench.training.trainer import Runtime

ROOT = Path(__file__).parents[1]
STEP, DECAY = 0.1, 0.98
"""Length of the first step, in standard deviations of latents; each is this share of the last."""
HEAD = "| data | rows | mean cost | mean gap | greatest gap |\n| --- | ---: | ---: | ---: | ---: |"


@click.command()
@click.option("--data", multiple=True, default=["mnist", "fashion_mnist", "celeba"])
@click.option("--rows", default=24, help="Rejected test images per data set.")
@click.option("--steps", default=150, help="Of the descent.")
def main(data: tuple[str, ...], rows: int, steps: int) -> None:
    """Measure and write."""
    torch.set_num_threads(1)
    lines = []
    for name in data:
        settings = load_settings("fp32", name)
        context = make_context(settings, Options(), Runtime())
        kappa, model = settings.evaluation.kappa, in_blocks(context.teacher)
        test, every = context.data.test, []
        with torch.no_grad():
            for block in test.blocks():
                every.append(block[model(block).argmax(1) == 0])
                if sum(map(len, every)) >= rows:
                    break
        x = torch.cat(every)[:rows]
        target = torch.ones(len(x), dtype=torch.int64)
        solution = context.solver.solve(model, context.actions, x, target, kappa)
        least = descended(model, context.actions, x, target, solution, kappa, steps)
        cost = solution.cost[solution.found]
        gap = cost / least - 1
        lines.append(
            f"| {name} | {len(cost)} | {cost.mean():.2f} | {gap.mean():.1%} | {gap.max():.1%} |"
        )
        click.echo(lines[-1])
    write_atomic(ROOT / "results" / "latent_gaps.md", "\n".join([HEAD, *lines, ""]).encode())


def descended(
    model: Model,
    space: ActionSpace,
    x: Tensor,
    target: Tensor,
    solution: Solution,
    kappa: float,
    steps: int,
) -> Tensor:
    """Least cost (F,) of the F rows that have an answer, from the answer on."""
    found = solution.found
    origin, target = space.origin(x[found]), target[found]
    point, least = solution.point[found].clone(), solution.cost[found].clone()
    project = space.projector(origin)
    for step in range(steps):
        at = point.detach().requires_grad_()
        margin = target_margin(model(space.to_input(at)), target)
        (up,) = torch.autograd.grad(margin.sum(), at)
        at = point.detach().requires_grad_()
        (dearer,) = torch.autograd.grad(space.cost(origin, at).sum(), at)
        with torch.no_grad():
            length = up.norm(dim=1, keepdim=True).clamp_min(1e-9)
            across = up / length
            along = dearer - (dearer * across).sum(1, keepdim=True) * across
            along = along / along.norm(dim=1, keepdim=True).clamp_min(1e-9)
            # A tenth above kappa, so that a boundary that bends is still kept to.
            back = ((1.1 * kappa - margin)[:, None] / length).clamp(-STEP, STEP)
            point = project(point - STEP * DECAY**step * along + back * across)
            ok = target_margin(model(space.to_input(point)), target) > kappa
            own = space.cost(origin, point)
            least = torch.where(ok & (own < least), own, least)
    return least


if __name__ == "__main__":
    main()
