"""The unrolled student action of L_match (paper, Section 4.2)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.actions.outcome import Model
from cfq_bench.actions.space import ActionSpace


def unrolled_action(
    model: Model, space: ActionSpace, x: Tensor, target: Tensor, steps: int, step_size: float
) -> Tensor:
    """K projected-gradient steps on `model` whose result is differentiable in its parameters.

    The projection (clip, argmax, top-k, rounding) has no useful derivative: it is passed straight
    through on the coordinates that it left changed, and blocks the others.

    Args:
        model: inputs to logits, being trained.
        space: the action space.
        x: (B, ...) factual inputs.
        target: (B,) int64.
        steps: K.
        step_size: alpha.

    Returns:
        (B, D) points of A(x).
    """
    origin = space.origin(x)
    free = point = origin
    for _ in range(steps):
        at = point if point.requires_grad else point.detach().requires_grad_(True)
        loss = F.cross_entropy(model(space.to_input(at)), target, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, at, create_graph=True)
        free = free - step_size * gradient
        projected = space.project(origin, free.detach())
        moved = (projected != origin).float()
        point = projected.detach() + (free - free.detach()) * moved
    return point
