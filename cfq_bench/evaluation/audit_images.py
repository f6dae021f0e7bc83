"""Do moves in a latent space, and edits of attributes, obey their YAML? Checked in numpy.

As in `auditing` for tables, nothing here uses the action spaces' own projections and checks: boxes,
lengths, prices and costs are worked out again, in float64, from the settings, the train latents and
the points. The autoencoder alone is shared, for it defines what a latent is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cfq_bench.actions.latent import Coded
from cfq_bench.actions.outcome import Model, Solution, Status
from cfq_bench.config.images import LatentSettings, SemanticSettings
from cfq_bench.evaluation.audit_columns import Floats
from cfq_bench.evaluation.audit_solution import MARGIN_TOLERANCE, margins_alone
from cfq_bench.evaluation.auditing import Line, lines, table_of

TOLERANCE = 1e-4
"""Relative, of lengths and costs, and in standard deviations: float32 sums of a hundred terms."""


@dataclass(frozen=True)
class ImageQuestion:
    """What a solver was asked.

    Attributes:
        model: images to logits.
        actions: the preset.
        coded: the autoencoder.
        to_image: points to images, as the action space makes them.
        train_latents: (N, D).
        attributes: of the train images, a column of 1 and -1 each; for edits.
        x: (B, C, H, W) factual images.
        target: (B,) int64.
        kappa: margin that an action must exceed.
    """

    model: Model
    actions: LatentSettings | SemanticSettings
    coded: Coded
    to_image: Callable[[Tensor], Tensor]
    train_latents: Tensor
    attributes: pd.DataFrame
    x: Tensor
    target: Tensor
    kappa: float


@torch.no_grad()
def image_violations(asked: ImageQuestion, solution: Solution) -> pd.DataFrame:
    """Everything that is wrong with the answers, in the columns of `raw_violations`; on a CPU."""
    rows = (solution.status == int(Status.FOUND)).nonzero()[:, 0]
    origin, point = asked.coded.encode(asked.x[rows]), solution.point[rows]
    images = asked.to_image(point)
    cost = solution.cost[rows].double().numpy()
    found = (
        _moves(asked, asked.actions, origin, point, images, cost)
        if isinstance(asked.actions, LatentSettings)
        else _edits(asked, asked.actions, origin, point, images, cost)
    )
    margins = margins_alone(asked.model, images, asked.target[rows])
    short = ~(margins > asked.kappa - MARGIN_TOLERANCE)  # True for nan
    found += lines(short, "", "margin", _shows(margins), lambda _: f"above {asked.kappa:g}")
    table = table_of(found)
    table["row"] = rows.numpy()[table["row"].to_numpy(dtype=np.int64)]
    table = pd.concat([table, table_of(_statuses(asked, solution))])
    return table.sort_values("row", kind="stable", ignore_index=True)


def _statuses(asked: ImageQuestion, solution: Solution) -> list[Line]:
    """Images whose reconstruction has the target, and those alone, are left as they are."""
    status = solution.status.numpy()
    found, needless = (status == int(each) for each in (Status.FOUND, Status.NOT_NEEDED))
    origin = asked.coded.encode(asked.x)
    own = margins_alone(asked.model, asked.coded.decode(origin), asked.target)
    same = (solution.point[:, : origin.shape[1]] == origin).all(1)
    same &= (solution.point[:, origin.shape[1] :] == 0).all(1)
    cost, shown = solution.cost.numpy(), _shows(status)
    expected = np.where(needless, 0.0, np.inf)
    return [
        *lines(~needless & (own > MARGIN_TOLERANCE), "", "status", shown, lambda _: "not needed"),
        *lines(needless & (own < -MARGIN_TOLERANCE), "", "status", shown, lambda _: "needed"),
        *lines(~found & ~same.numpy(), "", "unchanged", shown, lambda _: "as it is unless found"),
        *lines(~found & (cost != expected), "", "cost", _shows(cost), _shows(expected)),
    ]


def _moves(
    asked: ImageQuestion,
    actions: LatentSettings,
    origin: Tensor,
    point: Tensor,
    images: Tensor,
    cost: Floats,
) -> list[Line]:
    """Box, radius and cost of a move from latents `origin` to `point`, (B, D) each."""
    train, z, there = (part.double().numpy() for part in (asked.train_latents, origin, point))
    low, high = np.quantile(train, [actions.bounds.low, actions.bounds.high], axis=0)
    low, high = np.minimum(low, z) - TOLERANCE, np.maximum(high, z) + TOLERANCE
    length = np.sqrt(((there - z) ** 2).sum(1))
    before = asked.coded.decode(origin).double().numpy()
    pixels = np.abs(images.double().numpy() - before).sum((1, 2, 3))
    found: list[Line] = []
    for i in range(z.shape[1]):
        outside = ~((low[:, i] <= there[:, i]) & (there[:, i] <= high[:, i]))
        allowed = _between(low[:, i], high[:, i])
        found += lines(outside, f"z{i + 1}", "box", _shows(there[:, i]), allowed)
    if actions.radius is not None:
        most = actions.radius
        far = ~(length <= most * (1 + TOLERANCE))
        found += lines(far, "", "radius", _shows(length), lambda _: f"at most {most:g}")
    found += _wrong(cost, length + actions.pixel_weight * pixels)
    return found + _wrong_images(images, asked.coded.decode(point))


def _edits(
    asked: ImageQuestion,
    actions: SemanticSettings,
    origin: Tensor,
    point: Tensor,
    images: Tensor,
    cost: Floats,
) -> list[Line]:
    """Fixed attributes, rho and cost of edits; points are latents (B, D) followed by edits."""
    size = origin.shape[1]
    names = [*actions.attributes, *actions.fixed]
    edits = point[:, size:].double().numpy()
    prices = np.array([*actions.attributes.values(), *([1.0] * len(actions.fixed))])
    found: list[Line] = []
    moved = (point[:, :size] != origin).any(1).numpy()
    found += lines(moved, "", "latents", _shows(moved), lambda _: "those of the image itself")
    for i, name in enumerate(names):
        if name in actions.fixed:
            changed = edits[:, i] != 0.0
            found += lines(changed, name, "fixed", _shows(edits[:, i]), lambda _: "0")
    priced = np.abs(edits * prices).sum(1)
    most = actions.radius
    far = ~(priced <= most * (1 + TOLERANCE))
    found += lines(far, "", "radius", _shows(priced), lambda _: f"at most {most:g}")
    found += _wrong(cost, priced)
    directions = ridge_directions(asked, actions, names)
    there = torch.from_numpy(origin.double().numpy() + edits @ directions).float()
    found += _wrong_images(images, asked.coded.decode(there))
    # What an edit does to the linear predictor of a fixed attribute, in standard deviations.
    for i, name in enumerate(names):
        if name in actions.fixed:
            shift = np.abs(edits @ (directions @ directions[i]))
            found += lines(
                ~(shift <= TOLERANCE * actions.radius),
                name,
                "predictor",
                _shows(shift),
                lambda _: "unmoved",
            )
    return found


def ridge_directions(
    asked: ImageQuestion, actions: SemanticSettings, names: list[str]
) -> np.ndarray:
    """(A, D) float64 of length 1, worked out again by least squares on augmented rows.

    Editable ones have no part in the span of the fixed ones.
    """
    z = asked.train_latents.double().numpy()
    z = z - z.mean(0)
    y = (asked.attributes[names] == 1).to_numpy(dtype=np.float64)
    y = y - y.mean(0)
    penalty = np.sqrt(len(z) * actions.ridge) * np.eye(z.shape[1])
    stacked = np.vstack([z, penalty]), np.vstack([y, np.zeros((z.shape[1], y.shape[1]))])
    slopes = np.linalg.lstsq(*stacked, rcond=None)[0].T
    count = len(actions.attributes)
    free, fixed = slopes[:count], slopes[count:]
    if len(fixed):
        free = free - np.linalg.lstsq(fixed.T, free.T, rcond=None)[0].T @ fixed
    every = np.vstack([free, fixed])
    return np.asarray(every / np.linalg.norm(every, axis=1, keepdims=True))


def _wrong(said: Floats, computed: Floats) -> list[Line]:
    close = np.abs(said - computed) <= TOLERANCE * (1.0 + computed)
    return lines(~close, "", "cost", _shows(said), _shows(computed))


def _wrong_images(images: Tensor, expected: Tensor) -> list[Line]:
    """Images that are not what the decoder makes of the point."""
    apart = (images - expected).abs().flatten(1).amax(1).double().numpy()
    return lines(~(apart <= 10 * TOLERANCE), "", "image", _shows(apart), lambda _: "as decoded")


def _between(low: Floats, high: Floats) -> Callable[[int], str]:
    return lambda i: f"{low[i]:.6g} to {high[i]:.6g}"


def _shows(values: np.ndarray) -> Callable[[int], str]:
    return lambda i: f"{values[i]:.9g}"
