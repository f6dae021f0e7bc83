"""Candidates of the search lie in A(x) exactly, also where floating point would miss by an ulp."""

import pytest
import torch
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.greedy import _moves
from cfq_bench.actions.shrink import _Work
from cfq_bench.config.loader import load_settings
from cfq_bench.data.dataset import load_data


@pytest.fixture(scope="module", params=range(4))
def off_grid(request: pytest.FixtureRequest) -> tuple[ActionSet, Tensor]:
    overrides = [f"seed={request.param}", "actions.grid=false"]
    settings = load_settings("fp32", "german", overrides=overrides)
    data = load_data(settings.data, settings.seed)
    return ActionSet(data.schema, settings.actions, data.train.x), data.test.x


def test_greedy_moves_end_at_the_bounds(off_grid: tuple[ActionSet, Tensor]) -> None:
    space, x = off_grid
    low, high = space.row_bounds(x)
    moves = _moves(space, x, points=13)
    for j in range(space.n_single):
        values = moves.value[:, moves.feature == j, j]
        assert bool((values >= low[:, j : j + 1]).all())
        assert bool((values <= high[:, j : j + 1]).all())


def test_shares_of_a_change_stay_between_the_factual_and_the_action(
    off_grid: tuple[ActionSet, Tensor],
) -> None:
    space, x = off_grid
    target = torch.ones(len(x), dtype=torch.int64)
    work = _Work(lambda u: u[:, :2], space, x, target, kappa=0.0)
    point = space.project(x, x + 3.0)
    every = torch.ones(space.schema.width, dtype=torch.bool)
    every[space.n_single :] = False
    for nearly_one in 1.0 - torch.logspace(-9, -1, 40):
        between = work._at(x, point, nearly_one.expand(len(x)), every)
        assert bool((between >= x.minimum(point)).all())
        assert bool((between <= x.maximum(point)).all())
        assert not bool(space.violations(x, between).any())
