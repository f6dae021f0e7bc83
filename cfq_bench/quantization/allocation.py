"""Who chooses the bits of each unit, when it is not a trained policy."""

import torch
from torch import Tensor

from cfq_bench.backbones.base import Backbone
from cfq_bench.quantization.cost import feasible_allocations
from cfq_bench.quantization.functional import lsq, signed_range
from cfq_bench.quantization.layers import QuantLinear
from cfq_bench.quantization.network import QuantizedNetwork

USE_UP = 0.05
"""An allocation spends at least 95 % of what its candidates can spend within the budget."""


def discretise(network: QuantizedNetwork, budget: float, slack: float) -> list[int]:
    """Most likely allocation under the bit policy, among those that use up the budget.

    Args:
        network: with bit logits.
        budget: greatest average bits.
        slack: share of the largest feasible average that may be left over before the rest is spent.

    Returns:
        Bits of each unit. What the most likely allocation leaves of the budget is spent where it
        raises a unit to its next candidate, smallest unit first.
    """
    if network.policy_logits is None:
        raise RuntimeError("this network has no bit policy")
    candidates, sizes = network.settings.candidates, network.sizes
    score = torch.log_softmax(network.policy_logits.detach().cpu(), 1)
    best = max(
        feasible_allocations(sizes, candidates, budget, slack),
        key=lambda item: (sum(float(score[u, r]) for u, r in enumerate(item[0])), item[1]),
    )
    return spend_rest([candidates[r] for r in best[0]], sizes, candidates, budget)


def spend_rest(
    bits: list[int], sizes: list[int], candidates: list[int], budget: float
) -> list[int]:
    """Raise units to their next candidate, smallest unit first, while the budget allows.

    >>> spend_rest([4, 4, 4], [768, 2048, 64], [2, 3, 4, 8], 4.1)
    [4, 4, 8]
    """
    bits = list(bits)
    allowed = budget * sum(sizes) + 1e-6
    raised = True
    while raised:
        raised = False
        for unit in sorted(range(len(bits)), key=lambda u: sizes[u]):
            higher = [b for b in candidates if b > bits[unit]]
            spent = sum(n * b for n, b in zip(sizes, bits, strict=True))
            if higher and spent + sizes[unit] * (higher[0] - bits[unit]) <= allowed:
                bits[unit] = higher[0]
                raised = True
    return bits


@torch.no_grad()
def pool_mse(
    network: QuantizedNetwork, teacher: Backbone, points: Tensor, budget: float
) -> list[int]:
    """Bits with the least summed logit error, quantizing one unit at a time.

    Args:
        network: freshly started from the teacher.
        teacher: the full-precision network.
        points: (P, d) inputs on which the logits are compared: the recourse pool.
        budget: greatest average bits.

    Returns:
        Bits of each unit, by exhaustive search.
    """
    reference = teacher(points)
    error = [
        [
            _error_of_one(network, unit, r, points, reference)
            for r in range(len(network.settings.candidates))
        ]
        for unit in network.units
    ]
    candidates = network.settings.candidates
    best = min(
        feasible_allocations(network.sizes, candidates, budget, USE_UP),
        key=lambda item: (sum(error[u][r] for u, r in enumerate(item[0])), -item[1]),
    )
    return [candidates[r] for r in best[0]]


def _error_of_one(
    network: QuantizedNetwork, unit: QuantLinear, index: int, points: Tensor, reference: Tensor
) -> float:
    """Mean squared logit error with the weights of one unit quantized and all else in float."""
    low, high = signed_range(unit.candidates[index])
    quantized = lsq(unit.weight, unit.log_step[index].exp(), low, high)
    logits = network.float_forward(points, {unit: quantized})
    return float((logits - reference).square().mean())
