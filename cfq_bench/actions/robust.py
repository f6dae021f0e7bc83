"""Robust recourse (paper, E.2): actions that hold on f_q and on sampled deployments of it."""

from collections.abc import Sequence
from typing import Annotated
from weakref import WeakKeyDictionary

import torch
from pydantic import Field
from torch import Tensor, nn

from cfq_bench.actions.outcome import Model, Status, target_margin
from cfq_bench.actions.search import Search
from cfq_bench.actions.solver import Solver, in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.base import Positive, SolverSettings
from cfq_bench.config.uncertainty import UncertaintySettings
from cfq_bench.errors import UserError
from cfq_bench.quantization.deployed import DeployedNetwork
from cfq_bench.quantization.variants import deployment_variants
from cfq_bench.seeds import derive_seed


class Config(SolverSettings):
    """Settings of the robust solver."""

    variants: Annotated[int, Field(ge=1)]
    """M, sampled deployments on which an action must hold."""
    seed: Annotated[int, Field(ge=0)]
    """Of the deployments; evaluations never draw the same."""
    uncertainty: UncertaintySettings
    """How deployments differ from f_q."""
    steps: Annotated[int, Field(ge=1)]
    """Projected-gradient steps of the search (T)."""
    step_size: Positive
    """Its step size (alpha)."""
    grid_points: Annotated[int, Field(ge=2)]
    """Values tried per numeric feature by its greedy part."""
    bisections: Annotated[int, Field(ge=1)]
    """Halvings when a change is shrunk towards the factual."""


class Robust(Solver):
    """The standard search on the worst of f_q and its deployments.

    Where it finds nothing, the row is not found: an action that is not robust is never returned.
    A model that is not quantized has no deployments but itself: there this is the search.
    """

    def __init__(self, config: Config, calibration: Tensor | None = None) -> None:
        super().__init__(config, calibration)
        self._search = Search(config)
        self._drawn: WeakKeyDictionary[nn.Module, list[nn.Module]] = WeakKeyDictionary()

    def standard(self) -> Search:
        """The same search on f_q alone."""
        return self._search

    def search(
        self, model: Model, space: ActionSpace, x: Tensor, target: Tensor, kappa: float
    ) -> tuple[Tensor, Tensor]:
        """See `Solver.search`."""
        network = in_blocks(model).network
        if not isinstance(network, DeployedNetwork):
            return self._search.search(model, space, x, target, kappa)
        variants = self.variants(network)
        point = space.origin(x).clone()
        status = torch.full((len(x),), int(Status.NOT_FOUND), dtype=torch.int8, device=x.device)
        for wanted in sorted(set(target.tolist())):
            rows = target == wanted
            worst = in_blocks(WorstCase([network, *variants], wanted))
            point[rows], status[rows] = self._search.search(
                worst, space, x[rows], target[rows], kappa
            )
        return point, status

    def variants(self, network: DeployedNetwork) -> list[nn.Module]:
        """The M deployments of a network, drawn once.

        Raises:
            UserError: rows are needed to calibrate on, and there are none.
        """
        if network not in self._drawn:
            config, rows = self.config, self.calibration
            if rows is None and config.uncertainty.calibration_rows > 0:
                raise UserError(
                    "solver 'robust' needs train rows to calibrate deployments on: give them to "
                    "make_solver, or set solver.uncertainty.calibration_rows=0"
                )
            rows = torch.empty(0) if rows is None else rows
            seed = derive_seed(config.seed, "robust solver")
            self._drawn[network] = deployment_variants(
                network, config.variants, config.uncertainty, rows, seed
            )
        return self._drawn[network]


class WorstCase(nn.Module):
    """For every row the logits of the model that is least in favour of one class.

    A target margin above kappa then says: above kappa on every model. The gradient is that of the
    chosen model.

    Args:
        members: models of the same inputs and classes; of equals, the first is chosen.
        target: the class.
    """

    def __init__(self, members: Sequence[nn.Module], target: int) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.target = target

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, d) -> (B, classes)."""
        logits = torch.stack([member(inputs) for member in self.members])  # (M, B, C)
        every = logits.detach().flatten(0, 1)  # (M B, C)
        target = torch.full((len(every),), self.target, device=inputs.device)
        margins = target_margin(every, target).view(len(logits), -1)  # (M, B)
        worst = margins.argmin(dim=0)  # (B,)
        return logits[worst, torch.arange(len(inputs), device=inputs.device)]
