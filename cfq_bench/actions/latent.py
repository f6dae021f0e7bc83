"""Moves in the latent space of an autoencoder (paper, Table 28): x' = D(E(x) + delta).

The paper's cost, ||delta||_2 + lambda_pix ||x' - x||_1, charges an image for what the autoencoder
loses of it even where delta = 0. Here x stands for its reconstruction D(E(x)) in that term, and in
everything that a solver does: no action costs 0, and a counterfactual differs from its factual by
delta alone. Costs are in standard deviations of the latents.
"""

import hashlib
import json
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.actions.solver import IMAGE_BLOCK, in_blocks
from cfq_bench.autoencoder.network import Autoencoder
from cfq_bench.config.images import LatentSettings, SemanticSettings

ROUNDING = 1e-6
"""Share by which a length may exceed its bound before it is shortened: a shortened one may end a
rounding error above it, and a projection must not move what it has projected."""


class Coded:
    """An autoencoder called on blocks of fixed size.

    An image's latents and a point's image depend neither on neighbours nor on the number of rows.

    Args:
        network: frozen, in evaluation mode.
    """

    def __init__(self, network: Autoencoder) -> None:
        self.encode = in_blocks(network.encode, IMAGE_BLOCK)
        self.decode = in_blocks(network.decode, IMAGE_BLOCK)
        digest = hashlib.sha256()
        for name, value in sorted(network.state_dict().items()):
            digest.update(name.encode() + value.cpu().numpy().tobytes())
        self.fingerprint = digest.hexdigest()


def resolved_sha256(
    settings: LatentSettings | SemanticSettings, coded: Coded, **fitted: Tensor
) -> str:
    """sha256 of a space's settings, its autoencoder, and what was fitted to the train latents."""
    resolved = {
        "settings": settings.model_dump(mode="json"),
        "autoencoder": coded.fingerprint,
        **{name: values.tolist() for name, values in fitted.items()},
    }
    return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()


class LatentSpace:
    """The box of the train images' latents. B rows, D latents; points are latents (B, D).

    Args:
        settings: box, radius and the price of pixels.
        coded: the autoencoder.
        train_latents: (N, D), for the box.
    """

    def __init__(self, settings: LatentSettings, coded: Coded, train_latents: Tensor) -> None:
        self.settings = settings
        self.coded = coded
        ends = train_latents.new_tensor([settings.bounds.low, settings.bounds.high])
        self.low, self.high = train_latents.quantile(ends, dim=0).unbind()

    @property
    def names(self) -> list[str]:
        """``z1`` ... ``zD``."""
        return [f"z{i}" for i in range(1, len(self.low) + 1)]

    @property
    def fingerprint(self) -> str:
        """sha256 of the settings, the autoencoder's weights and the box."""
        return resolved_sha256(self.settings, self.coded, low=self.low, high=self.high)

    def origin(self, x: Tensor) -> Tensor:
        """E(x)."""
        with torch.no_grad():
            return self.coded.encode(x)

    def to_input(self, point: Tensor) -> Tensor:
        """D(z), differentiable."""
        return self.coded.decode(point)

    def row_bounds(self, origin: Tensor) -> tuple[Tensor, Tensor]:
        """Box of each row, (B, D) each; a factual outside the common box is its own bound."""
        return torch.minimum(self.low, origin), torch.maximum(self.high, origin)

    def project(self, origin: Tensor, point: Tensor) -> Tensor:
        """Clip to the box, then shorten what is longer than the radius."""
        return self.projector(origin)(point)

    def projector(self, origin: Tensor) -> Callable[[Tensor], Tensor]:
        """`project` for fixed origins."""
        low, high = self.row_bounds(origin)
        radius = self.settings.radius

        def project(point: Tensor) -> Tensor:
            inside = point.clamp(low, high)
            if radius is None:
                return inside
            length = (inside - origin).norm(dim=1, keepdim=True)
            short = origin + (inside - origin) * (radius / length)
            # Between origin and box there is nothing but box, up to rounding.
            too_long = length > radius * (1 + ROUNDING)
            return torch.where(too_long, short.clamp(low, high), inside)

        return project

    def cost(self, origin: Tensor, point: Tensor) -> Tensor:
        """Cost (B,): ||delta||_2 + lambda_pix ||D(z + delta) - D(z)||_1."""
        length: Tensor = (point - origin).norm(dim=1)
        if self.settings.pixel_weight == 0.0:
            return length
        pixels = (self.to_input(point) - self.to_input(origin)).flatten(1).abs().sum(dim=1)
        return length + self.settings.pixel_weight * pixels

    def scaled_action(self, origin: Tensor, point: Tensor) -> Tensor:
        """Delta (B, D), in standard deviations."""
        return point - origin

    def changed(self, origin: Tensor, point: Tensor) -> Tensor:
        """(B, D) bool: latents that differ."""
        return point != origin

    def violations(self, origin: Tensor, point: Tensor) -> Tensor:
        """(B,) bool: outside the box or the radius, or not finite."""
        low, high = self.row_bounds(origin)
        bad = (point < low).any(1) | (point > high).any(1) | ~point.isfinite().all(1)
        if self.settings.radius is not None:
            bad |= (point - origin).norm(dim=1) > self.settings.radius * (1 + 10 * ROUNDING)
        return bad

    def quality(self, origin: Tensor, point: Tensor) -> dict[str, Tensor]:
        """`norm` ||delta||_2, and `consistency`: cosine of z and E(D(z)).

        A point that lies where the autoencoder has seen images is found again in its own image.
        """
        again = self.origin(self.to_input(point))
        return {
            "norm": (point - origin).norm(dim=1),
            "consistency": F.cosine_similarity(point, again, dim=1),
        }
