"""The descent of scripts/latent_gaps.py, where the cheapest action is known."""

import dataclasses

import torch

from scripts.latent_gaps import descended
from tests.test_latent_actions import Half, latent_space, latents, solver


def test_the_descent_reaches_the_optimum_from_a_dear_answer() -> None:
    space = latent_space(bounds={"low": 0.0, "high": 1.0})
    model = Half([1.0, -0.5, 0.25, 0.0, 0.5])
    x = 0.3 * latents(40, 3)[:, None, None]
    target = torch.ones(40, dtype=torch.int64)
    solution = solver().solve(model, space, x, target, 0.1)
    needs = solution.found
    best = ((1.1 - x.flatten(1) @ model.weight) / model.weight.norm())[needs]
    point = solution.point.clone()
    point[:, 3] += 1.0  # moves nothing but the cost
    dear = dataclasses.replace(
        solution, point=point, cost=space.cost(space.origin(x), point).where(needs, solution.cost)
    )
    assert (dear.cost[needs] / best).mean() > 1.2
    least = descended(model, space, x, target, dear, 0.1, 150)
    assert (least / best).min() > 0.999
    assert (least / best).mean() < 1.02
