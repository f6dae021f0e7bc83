"""The evaluation solver: gradient and greedy candidates, pruned and shrunk to the margin.

Plain projected gradient overshoots the margin and misses feasible rows; on logistic regression its
mean gap to the exact optimum is 19-143 %, this search's 0-8 %. CRG must not measure the solver.
"""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.greedy import exchanged, greedy_actions
from cfq_bench.actions.outcome import Model, Status
from cfq_bench.actions.pgd import projected_gradient
from cfq_bench.actions.shrink import shrink
from cfq_bench.actions.solver import Solver
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.base import Positive, SolverSettings
from cfq_bench.errors import UserError


class Config(SolverSettings):
    """Settings of the search."""

    steps: Annotated[int, Field(ge=1)]
    """Projected-gradient steps (T)."""
    step_size: Positive
    """Projected-gradient step size (alpha)."""
    grid_points: Annotated[int, Field(ge=2)]
    """Values tried per numeric feature by the greedy search."""
    bisections: Annotated[int, Field(ge=1)]
    """Halvings when a change is shrunk towards the factual."""


class Search(Solver):
    """Projected gradient with accumulator, and greedy single-feature changes; the cheaper one.

    The answer then has one of its changes exchanged for another, where that is cheaper.
    """

    def search(
        self, model: Model, space: ActionSpace, x: Tensor, target: Tensor, kappa: float
    ) -> tuple[Tensor, Tensor]:
        """See `Solver.search`."""
        if not isinstance(space, ActionSet):
            raise UserError(f"solver {self.config.name} is for tables: use solver=latent_search")
        config = self.config
        by_gradient, gradient_ok = projected_gradient(
            model,
            space,
            x,
            target,
            kappa=kappa,
            steps=config.steps,
            step_size=config.step_size,
        )
        with torch.no_grad():
            greedy, greedy_ok = greedy_actions(
                model, space, x, target, kappa, points=config.grid_points
            )
            hard = (~gradient_ok & ~greedy_ok).nonzero()[:, 0]
            if len(hard):
                bold, bold_ok = greedy_actions(
                    model,
                    space,
                    x[hard],
                    target[hard],
                    kappa,
                    points=config.grid_points,
                    price_matters=False,
                )
                greedy = greedy.index_copy(0, hard, bold)
                greedy_ok = greedy_ok.index_copy(0, hard, bold_ok)
            # One pass over both candidates of every row.
            twice = torch.cat([x, x])
            valid = torch.cat([gradient_ok, greedy_ok])
            points = shrink(
                model,
                space,
                twice,
                torch.cat([target, target]),
                torch.cat([by_gradient, greedy]),
                valid,
                kappa,
                bisections=config.bisections,
            )
            cost = torch.where(valid, space.cost(twice, points), torch.inf)
            first, second = cost.chunk(2)
            point = torch.where((second < first)[:, None], points[len(x) :], points[: len(x)])
            found = gradient_ok | greedy_ok
            point = self._exchange(model, space, x, target, point, found, kappa)
        return point, torch.where(found, int(Status.FOUND), int(Status.NOT_FOUND)).to(torch.int8)

    def _exchange(
        self,
        model: Model,
        space: ActionSet,
        x: Tensor,
        target: Tensor,
        point: Tensor,
        found: Tensor,
        kappa: float,
    ) -> Tensor:
        """Exchange one change for another where the result, shrunk, is cheaper."""
        rows = found.nonzero()[:, 0]
        other, differs = exchanged(
            model, space, x[rows], target[rows], point[rows], kappa, self.config.grid_points
        )
        rows, other = rows[differs], other[differs]
        x, target = x[rows], target[rows]
        small = shrink(
            model,
            space,
            x,
            target,
            other,
            differs[differs],
            kappa,
            bisections=self.config.bisections,
        )
        cheaper = space.cost(x, small) < space.cost(x, point[rows])
        return point.index_copy(0, rows, torch.where(cheaper[:, None], small, point[rows]))
