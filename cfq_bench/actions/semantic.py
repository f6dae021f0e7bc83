"""Edits of attributes as directions in latent space (paper, Table 28): x' = D(E(x) + V s).

A ridge regression of each attribute on the train latents gives a direction. Those of the editable
attributes are then made orthogonal to those of the fixed ones, so that an edit leaves the linear
predictors of the fixed attributes where they are, and have length 1: s is in standard deviations
of the latents. What the decoder and a classifier make of an edit is not linear: that Male or Young
cannot be read off the pixels differently is not promised.
"""

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.actions.latent import ROUNDING, Coded, resolved_sha256
from cfq_bench.config.images import SemanticSettings
from cfq_bench.errors import UserError, unknown_name


class SemanticSpace:
    """Edits of A attributes, the fixed ones' being 0, with ||W s||_1 <= rho.

    Points (B, D + A) are the factual's latents, which no edit changes, followed by s: an input can
    then be made of a point alone.

    Args:
        settings: attributes, their prices, rho.
        coded: the autoencoder.
        train_latents: (N, D).
        attributes: of the train images, 1 where an image has one.

    Raises:
        UserError: an attribute does not exist, or no train image differs in it.
    """

    def __init__(
        self,
        settings: SemanticSettings,
        coded: Coded,
        train_latents: Tensor,
        attributes: pd.DataFrame,
    ) -> None:
        self.settings = settings
        self.coded = coded
        self.latent = train_latents.shape[1]
        self.names = [*settings.attributes, *settings.fixed]
        for name in self.names:
            if name not in attributes:
                raise unknown_name("attribute", name, attributes.columns)
            if attributes[name].nunique() < 2:
                raise UserError(
                    f"attribute {name!r} is the same in all train images: there is no direction "
                    "in which to edit it"
                )
        device = train_latents.device
        count = len(settings.attributes)
        self.free = torch.arange(len(self.names), device=device) < count
        prices = [*settings.attributes.values(), *([1.0] * len(settings.fixed))]
        self.weight = torch.tensor(prices, device=device)
        labels = torch.tensor((attributes[self.names] == 1).to_numpy(), device=device)
        self.directions = directions(train_latents, labels, self.free, settings.ridge)

    @property
    def fingerprint(self) -> str:
        """sha256 of the settings, the autoencoder's weights and the directions."""
        return resolved_sha256(self.settings, self.coded, directions=self.directions)

    def origin(self, x: Tensor) -> Tensor:
        """E(x), and no edit."""
        with torch.no_grad():
            return F.pad(self.coded.encode(x), (0, len(self.names)))

    def to_input(self, point: Tensor) -> Tensor:
        """D(z + V s), differentiable."""
        return self.coded.decode(self.latents(point))

    def latents(self, point: Tensor) -> Tensor:
        """Z + V s (B, D)."""
        return point[:, : self.latent] + point[:, self.latent :] @ self.directions

    def project(self, origin: Tensor, point: Tensor) -> Tensor:
        """The factual's latents, no edit of fixed attributes, and W s in the l1 ball of rho."""
        return self.projector(origin)(point)

    def projector(self, origin: Tensor) -> Callable[[Tensor], Tensor]:
        """`project` for fixed origins."""
        base = origin[:, : self.latent]

        def project(point: Tensor) -> Tensor:
            edit = torch.where(self.free, point[:, self.latent :], 0.0)
            priced = in_l1_ball(edit * self.weight, self.settings.radius)
            # What was inside stays bitwise: s * w / w need not be s.
            edit = torch.where(priced == edit * self.weight, edit, priced / self.weight)
            return torch.cat([base, edit], dim=1)

        return project

    def cost(self, origin: Tensor, point: Tensor) -> Tensor:
        """Cost (B,): ||W s||_1."""
        return self.scaled_action(origin, point).abs().sum(dim=1)

    def steepest(self, gradient: Tensor) -> Tensor:
        """The edit of one attribute that raises a margin most for its price (see `Priced`).

        ||W s||_1 is least, for a given rise g . s, where s is one attribute's: that of the greatest
        |g_j| / w_j.
        """
        slope = torch.where(self.free, gradient[:, self.latent :], 0.0)
        best = (slope.abs() / self.weight).argmax(1, keepdim=True)
        edit = torch.zeros_like(slope).scatter(1, best, slope.gather(1, best))
        return F.pad(edit, (self.latent, 0))

    def scaled_action(self, origin: Tensor, point: Tensor) -> Tensor:
        """W s (B, A)."""
        return point[:, self.latent :] * self.weight

    def changed(self, origin: Tensor, point: Tensor) -> Tensor:
        """(B, A) bool: attributes that are edited."""
        return point[:, self.latent :] != 0

    def violations(self, origin: Tensor, point: Tensor) -> Tensor:
        """(B,) bool: other latents, an edit of a fixed attribute, beyond rho, or not finite."""
        bad = (point[:, : self.latent] != origin[:, : self.latent]).any(1)
        bad |= (self.changed(origin, point) & ~self.free).any(1) | ~point.isfinite().all(1)
        return bad | (self.cost(origin, point) > self.settings.radius * (1 + 10 * ROUNDING))

    def quality(self, origin: Tensor, point: Tensor) -> dict[str, Tensor]:
        """`norm` ||V s||_2, and `consistency`: cosine of z + V s and what E finds in its image."""
        there = self.latents(point)
        again = self.origin(self.coded.decode(there))[:, : self.latent]
        return {
            "norm": (there - origin[:, : self.latent]).norm(dim=1),
            "consistency": F.cosine_similarity(there, again, dim=1),
        }


def directions(latents: Tensor, labels: Tensor, free: Tensor, ridge: float) -> Tensor:
    """One direction of length 1 per attribute.

    Args:
        latents: (N, D) float32.
        labels: (N, A) bool.
        free: (A,) bool, the editable attributes.
        ridge: penalty per image, on standardized latents.

    Returns:
        (A, D) float32; those of free attributes are orthogonal to those of the others.
    """
    z = latents.double() - latents.double().mean(0)
    y = labels.double() - labels.double().mean(0)
    eye = torch.eye(z.shape[1], dtype=torch.float64, device=z.device)
    slopes = torch.linalg.solve(z.T @ z / len(z) + ridge * eye, z.T @ y / len(z)).T  # (A, D)
    fixed, _ = torch.linalg.qr(slopes[~free].T)  # (D, fixed)
    along = slopes - (slopes @ fixed) @ fixed.T
    return F.normalize(torch.where(free[:, None], along, slopes), dim=1).float()


def in_l1_ball(values: Tensor, radius: float) -> Tensor:
    """Nearest points of the l1 ball (Duchi et al. 2008); what is inside stays as it is.

    Args:
        values: (B, A).
        radius: of the ball.

    >>> in_l1_ball(torch.tensor([[3.0, -1.0], [0.5, 0.25]]), 2.0)
    tensor([[2.0000, 0.0000],
            [0.5000, 0.2500]])
    """
    size = values.abs()
    falling = size.sort(dim=1, descending=True).values
    rank = torch.arange(1, values.shape[1] + 1, device=values.device)
    excess = (falling.cumsum(1) - radius) / rank
    kept = (falling > excess).sum(1, keepdim=True).clamp_min(1)
    threshold = excess.gather(1, kept - 1)
    shrunk = values.sign() * (size - threshold).clamp_min(0.0) + 0.0  # never -0.0
    outside = size.sum(1, keepdim=True) > radius * (1 + ROUNDING)
    return torch.where(outside, shrunk, values)
