"""What every action space offers: action sets of tables, latent spaces and semantic edits.

An action is kept as the *point* it leads to, in the space's own coordinates, and not as the
difference to the factual: clipping, one-hot groups and integer grids are then exact in floating
point (x + (u - x) need not be u), and an unchanged column is bitwise unchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from torch import Tensor


class ActionSpace(Protocol):
    """Coordinates, a projection, a cost and a map to model inputs. B rows, D coordinates."""

    @property
    def names(self) -> Sequence[str]:
        """Names (F,) of what `changed` tells apart."""
        ...

    @property
    def fingerprint(self) -> str:
        """sha256 of everything that the space is made of: caches are keyed by it."""
        ...

    def origin(self, x: Tensor) -> Tensor:
        """Coordinates (B, D) of the factual inputs x.

        An image's are those of its reconstruction: ``to_input(origin(x))`` is about x, and the
        image that a solver starts from. Only a table's encoded rows are their own origins.
        """
        ...

    def project(self, origin: Tensor, point: Tensor) -> Tensor:
        """Nearest feasible points (B, D) in the sense of the space; idempotent."""
        ...

    def projector(self, origin: Tensor) -> Callable[[Tensor], Tensor]:
        """`project` for fixed origins, for loops that project many points of the same rows."""
        ...

    def cost(self, origin: Tensor, point: Tensor) -> Tensor:
        """Cost (B,) >= 0 of going from each origin to its point; 0 for the origin itself."""
        ...

    def to_input(self, point: Tensor) -> Tensor:
        """Model inputs of points, differentiable."""
        ...

    def scaled_action(self, origin: Tensor, point: Tensor) -> Tensor:
        """W delta (B, D): the action in units of cost, for directions and overlaps."""
        ...

    def changed(self, origin: Tensor, point: Tensor) -> Tensor:
        """(B, F) bool: which features an action changes."""
        ...

    def violations(self, origin: Tensor, point: Tensor) -> Tensor:
        """(B,) bool: which points lie outside A(x), checked in raw units."""
        ...

    def quality(self, origin: Tensor, point: Tensor) -> Mapping[str, Tensor]:
        """What is said of actions beside their cost, (B,) each by name; nothing of a table's."""
        ...
