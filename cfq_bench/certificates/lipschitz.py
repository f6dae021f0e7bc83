"""The paper's own bound (L.3), as a row to compare with."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from cfq_bench.certificates.chain import Layer
from cfq_bench.certificates.rounding import grid_step


def logit_perturbation(
    layers: Sequence[Layer], point: Tensor, bits: int, *, per_channel: bool
) -> Tensor:
    """Epsilon (B,) of L.3: by how much rounding to nearest with b bits moves the logits, in l2.

    sum over layers of (product of later Lipschitz constants) S_l |dW_l|: the telescoped bound of
    L.3.1 with its linear specialization, |dW z| <= |dW|_2 |z|_2, and the entrywise |dW| <= s / 2
    of L.3.2. Activations stay in full precision, so the activation term is zero.

    Where the paper leaves a choice: later layers have full-precision weights, L_j = |W_j|_2, as
    its hybrid networks do; C_l is sqrt(out in), which turns the entrywise bound into a spectral
    one; and S_l is |z| + what earlier layers have moved, a bound over the hybrid networks. The
    paper's remark takes |z| of the full-precision network alone: that is an estimate, no proof.

    Args:
        layers: of the teacher.
        point: (B, d) float32.
        bits: of every weight.
        per_channel: one grid for each output unit instead of one for the layer.
    """
    z = point.double().cpu()
    total = z.new_zeros(len(z))
    for layer in layers:
        step = grid_step(layer.weight, bits, per_channel=per_channel)
        change = math.sqrt(layer.weight.shape[1]) * float((step / 2).square().sum().sqrt())
        lipschitz = float(torch.linalg.matrix_norm(layer.weight, 2))
        total = lipschitz * total + change * (z.square().sum(1).sqrt() + total)
        z = (z @ layer.weight.T + layer.bias).clamp_min(0.0)
    return total


def proved_by_lipschitz(
    layers: Sequence[Layer], point: Tensor, margin: Tensor, bits: int, *, per_channel: bool
) -> Tensor:
    """Points (B,) bool whose teacher margin exceeds 2 epsilon (Proposition 5.1).

    Args:
        layers: of the teacher.
        point: (B, d) float32.
        margin: (B,) the teacher's target margin there.
        bits: of every weight.
        per_channel: one grid for each output unit instead of one for the layer.
    """
    return margin.double().cpu() > 2 * logit_perturbation(
        layers, point, bits, per_channel=per_channel
    )
