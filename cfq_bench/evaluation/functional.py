"""The metrics of recourse under quantization, as functions of per-row tensors.

B rows, D coordinates, F features. Every function returns one value per row or one scalar; rows are
selected by the caller, because the population is part of each metric's definition
(`cfq_bench.evaluation.evaluate`).
"""

import torch
from torch import Tensor


def share(flags: Tensor) -> Tensor:
    """Share of True among (B,) bool; NaN for no rows, in [0, 1] otherwise.

    >>> share(torch.tensor([True, False, False, True]))
    tensor(0.5000)
    """
    return flags.double().mean().float() if len(flags) else torch.tensor(torch.nan)


def favourable_drift(predicted_q: Tensor, predicted_f: Tensor, favourable: int = 1) -> Tensor:
    """P[f_q(x) = y_tgt] - P[f(x) = y_tgt], in [-1, 1].

    Args:
        predicted_q: (B,) int64 classes of the quantized model.
        predicted_f: (B,) int64 classes of the teacher.
        favourable: the class that recourse aims at.

    >>> favourable_drift(torch.tensor([1, 1]), torch.tensor([0, 1]))
    tensor(0.5000)
    """
    return share(predicted_q == favourable) - share(predicted_f == favourable)


def validity_drop(predicted_q_at_action: Tensor, target: Tensor) -> Tensor:
    """VD (Section 3.3, target form): share of teacher actions with f_q(x + delta*_f) != y_tgt.

    Args:
        predicted_q_at_action: (B,) int64, f_q's classes at the teacher's recourse points.
        target: (B,) int64.

    Returns:
        A scalar in [0, 1]; lower is better.

    >>> validity_drop(torch.tensor([1, 0, 1, 1]), torch.tensor([1, 1, 1, 1]))
    tensor(0.2500)
    """
    return share(predicted_q_at_action != target)


def cost_gap(cost_f: Tensor, cost_q: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Relative growth of the minimal cost, per row: (c_q - c_f) / (c_f + eps).

    CRG (Section 3.3) is its mean, `crg_median` its median, `crg_abs` the mean of its absolute
    value.

    Args:
        cost_f: (B,) minimal costs on the teacher, > 0.
        cost_q: (B,) minimal costs on the quantized model, >= 0.
        epsilon: added to the denominator.

    >>> cost_gap(torch.tensor([2.0, 1.0]), torch.tensor([3.0, 1.0]), 0.0)
    tensor([0.5000, 0.0000])
    """
    return (cost_q - cost_f) / (cost_f + epsilon)


def direction_similarity(action_f: Tensor, action_q: Tensor, epsilon: float = 1e-12) -> Tensor:
    """Cosine of W delta*_f and W delta*_q, per row, in [-1, 1].

    Args:
        action_f: (B, D) scaled teacher actions.
        action_q: (B, D) scaled actions on the quantized model.
        epsilon: added to the product of the norms.

    >>> direction_similarity(torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0]]))
    tensor([1.])
    """
    f, q = action_f.double(), action_q.double()
    norms = f.square().sum(1).sqrt() * q.square().sum(1).sqrt()
    return ((f * q).sum(1) / (norms + epsilon)).float()


def action_overlap(changed_f: Tensor, changed_q: Tensor) -> Tensor:
    """Jaccard overlap of the changed features, per row, in [0, 1]; 1 where neither changes any.

    Args:
        changed_f: (B, F) bool.
        changed_q: (B, F) bool.

    >>> action_overlap(torch.tensor([[True, True]]), torch.tensor([[True, False]]))
    tensor([0.5000])
    """
    both = (changed_f & changed_q).sum(1).float()
    either = (changed_f | changed_q).sum(1).float()
    return torch.where(either > 0, both / either.clamp_min(1.0), 1.0)


def boundary_error(vd: Tensor, vd_adverse: Tensor) -> Tensor:
    """(VD + its adverse twin) / 2, in [0, 1]: a shifted boundary cannot lower it.

    >>> boundary_error(torch.tensor(0.2), torch.tensor(0.1))
    tensor(0.1500)
    """
    return (vd + vd_adverse) / 2


def optimality_gap(cost: Tensor, optimal: Tensor) -> Tensor:
    """A solver's cost over the exact optimum, per row: c / c* - 1.

    >>> optimality_gap(torch.tensor([1.1]), torch.tensor([1.0]))
    tensor([0.1000])
    """
    return cost / optimal - 1.0


def logit_perturbation(logits_f: Tensor, logits_q: Tensor) -> Tensor:
    """||g_q(u) - g(u)||_inf, per row (Section 5): the most that any logit moved; >= 0.

    Args:
        logits_f: (..., C) logits of the teacher.
        logits_q: (..., C) logits of the quantized model at the same inputs.

    >>> logit_perturbation(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.25, -1.0]]))
    tensor([2.])
    """
    return (logits_q - logits_f).abs().amax(-1)


def safe_margin(margin_f: Tensor, epsilon: Tensor) -> Tensor:
    """Which rows meet the condition of Proposition 5.1: m_f(x + delta*_f) > 2 eps.

    Args:
        margin_f: (B,) the teacher's target margins at its actions, in logits.
        epsilon: (B,), or a scalar for all rows: the logit perturbation there, >= 0.

    Returns:
        (B,) bool.

    >>> safe_margin(torch.tensor([0.5, 0.2]), torch.tensor([0.2, 0.1]))
    tensor([ True, False])
    """
    return margin_f > 2.0 * epsilon
