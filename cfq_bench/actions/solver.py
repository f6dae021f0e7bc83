"""The frame around every solver: who needs an action, blocks of rows, and the final check."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.actions.outcome import Model, Solution, Status, target_margin
from cfq_bench.actions.space import ActionSpace
from cfq_bench.config.base import SolverSettings
from cfq_bench.config.plugin import load_class

BLOCK = 256
"""Rows per network call. Matrix products of one fixed shape, so that a row's logits, and with them
its answer, depend neither on its neighbours nor on the number of rows."""
ALIGN = 16
"""Encoded rows start at multiples of this many floats: else, at odd widths, the order in which a
row's products are summed depends on its place in the block."""
IMAGE_BLOCK = 32
"""Images per network call: padding to 256 would cost more than what few images need."""
CHUNK = 2048
"""Rows solved together; bounds the memory of candidate sets."""

Progress = Callable[[int], None]
"""Told how many more rows are done."""


class Solver(ABC):
    """Searches for cheap actions. Subclasses implement `search`; `solve` is what callers use.

    Args:
        config: the solver's settings.
        calibration: (N, d) rows that models were calibrated on, for solvers that ask how their
            deployment may vary.
    """

    def __init__(self, config: Any, calibration: Tensor | None = None) -> None:
        self.config = config
        self.calibration = calibration

    def standard(self) -> "Solver | None":
        """The plain solver that this one's cost and time are reported against, if there is one."""
        return None

    @abstractmethod
    def search(
        self, model: Model, space: ActionSpace, x: Tensor, target: Tensor, kappa: float
    ) -> tuple[Tensor, Tensor]:
        """Search for rows that all need an action.

        Args:
            model: inputs to logits, called on blocks of fixed size; `in_blocks(model).network` is
                the network itself.
            space: the action space.
            x: (B, ...) factual inputs.
            target: (B,) int64 wanted classes.
            kappa: margin in logits that an action must exceed.

        Returns:
            The points (B, D), and `Status` (B,) int8: FOUND, NOT_FOUND or INFEASIBLE.
        """

    def solve(
        self,
        model: Model,
        space: ActionSpace,
        x: Tensor,
        target: Tensor,
        kappa: float,
        progress: Progress | None = None,
    ) -> Solution:
        """Answer every row; see `Solution`.

        A row's answer is the same in any batch. Every action that is returned lies in A(x) and
        exceeds the margin: both are checked again at the end.

        Raises:
            RuntimeError: the solver returned an action outside A(x): an internal error.
        """
        parts = []
        # What a gradient keeps of thousands of images at once would fit in no memory.
        size = CHUNK if x.dim() == 2 else BLOCK
        for start in range(0, len(x), size):
            rows = slice(start, start + size)
            parts.append(self._solve_chunk(model, space, x[rows], target[rows], kappa))
            if progress is not None:
                progress(len(parts[-1].status))
        if not parts:
            return _nothing(space, x)
        return Solution(
            torch.cat([part.point for part in parts]),
            torch.cat([part.status for part in parts]),
            torch.cat([part.cost for part in parts]),
            torch.cat([part.margin for part in parts]),
        )

    def _solve_chunk(
        self, model: Model, space: ActionSpace, x: Tensor, target: Tensor, kappa: float
    ) -> Solution:
        blocked = in_blocks(model)
        with torch.no_grad():
            origin = space.origin(x)
            start = target_margin(blocked(space.to_input(origin)), target)
        needed = start <= 0
        point = origin.clone()
        status = torch.full((len(x),), int(Status.NOT_NEEDED), dtype=torch.int8, device=x.device)
        if bool(needed.any()):
            point[needed], status[needed] = self.search(
                blocked, space, x[needed], target[needed], kappa
            )
        found = status == Status.FOUND
        point = torch.where(found[:, None], point, origin)
        with torch.no_grad():
            margin = target_margin(blocked(space.to_input(point)), target)
        if bool((space.violations(origin, point) | (found & (margin <= kappa))).any()):
            raise RuntimeError(f"{type(self).__name__} returned an action that breaks a constraint")
        cost = torch.where(status == Status.NOT_NEEDED, 0.0, torch.inf)
        cost = torch.where(found, space.cost(origin, point), cost)
        return Solution(point, status, cost, margin)


def make_solver(config: SolverSettings, calibration: Tensor | None = None) -> Solver:
    """The solver that a settings object names; see `Solver` for the rows."""
    solver: Solver = load_class(config.module, Solver)(config, calibration)
    return solver


class Blocked:
    """A model called on blocks of exactly `block` rows, padded with zeros; differentiable.

    Images come in blocks of `IMAGE_BLOCK`.

    Args:
        network: the model itself, for solvers that read its weights.
        block: rows per call.
    """

    def __init__(self, network: Model, block: int) -> None:
        self.network = network
        self.block = block

    def __call__(self, inputs: Tensor) -> Tensor:
        """Logits of any number of rows."""
        count = len(inputs)
        block = self.block if inputs.dim() == 2 else min(self.block, IMAGE_BLOCK)
        missing = -count % block
        if inputs.dim() == 2:
            width = inputs.shape[1]
            inputs = F.pad(inputs, (0, -width % ALIGN, 0, missing))[:, :width]
        elif missing:
            padding = inputs.new_zeros(missing, *inputs.shape[1:])
            inputs = torch.cat([inputs, padding])
        return torch.cat([self.network(part) for part in torch.split(inputs, block)])[:count]


def in_blocks(model: Model, block: int = BLOCK) -> Blocked:
    """Call a model on blocks of fixed size; a model that is called so already stays as it is."""
    if isinstance(model, Blocked) and model.block == block:
        return model
    return Blocked(model, block)


def _nothing(space: ActionSpace, x: Tensor) -> Solution:
    empty = torch.zeros(0, device=x.device)
    return Solution(space.origin(x), empty.to(torch.int8), empty, empty.clone())
