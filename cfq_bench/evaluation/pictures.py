"""A few people's images beside their counterfactuals, kept in the record to be looked at."""

import base64
from io import BytesIO
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from cfq_bench.actions.outcome import Model, Solution
from cfq_bench.actions.solver import in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.data.dataset import Dataset
from cfq_bench.data.images import ImageData
from cfq_bench.evaluation.teacher_recourse import Direction

SHOWN = 4
"""Rows: the first of the evaluation's sample that have an action on the teacher."""
STRIPS = ("factual", "reconstruction", "on_f", "on_q")
"""x, D(E(x)), and the counterfactuals that the solver found on f and on f_q."""


@torch.no_grad()
def pictures(
    f_q: Model,
    data: Dataset,
    space: ActionSpace,
    favourable: Direction,
    on_q: Solution,
    kappa: float,
) -> dict[str, Any]:
    """What a record keeps of images; nothing of tables, nor where nobody has an action on f.

    Args:
        f_q: the quantized model.
        data: the splits that were evaluated.
        space: the action space.
        favourable: rejected rows and the teacher's actions.
        on_q: the actions found on f_q.
        kappa: the margin that actions had to reach.

    Returns:
        ``row_ids``; ``found``, whether f_q has an answer for the row; ``held``, whether the
        teacher's counterfactual is one for f_q; and each of `STRIPS`, a PNG file in base64 that
        holds one image per row, side by side. All methods of a seed show the same rows.
    """
    if not isinstance(data, ImageData):
        return {}
    on_f = favourable.solutions[kappa]
    shown = on_f.found.nonzero()[:SHOWN, 0]
    if not len(shown):
        return {}
    x, point = favourable.x[shown], on_f.point[shown]
    on_teacher = space.to_input(point)
    held = in_blocks(f_q)(on_teacher).argmax(1) == favourable.target[shown]
    images = (x, space.to_input(space.origin(x)), on_teacher, space.to_input(on_q.point[shown]))
    return {
        "row_ids": data.test.row_ids[favourable.rows[shown].cpu().numpy()].tolist(),
        "found": on_q.solved[shown].tolist(),
        "held": held.tolist(),
        **{name: strip(part) for name, part in zip(STRIPS, images, strict=True)},
    }


def strip(images: Tensor) -> str:
    """Images (B, C, H, W) in [0, 1], side by side, as a PNG file in base64; C is 1 or 3."""
    pixels = (images * 255).round().clamp(0, 255).to(torch.uint8)
    wide = torch.cat(list(pixels), dim=2).permute(1, 2, 0).cpu().numpy()  # (H, B * W, C)
    file = BytesIO()
    Image.fromarray(wide.squeeze(2) if wide.shape[2] == 1 else wide).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()
