"""The metrics as torchmetrics classes: thin shells with sum-states over the pure functions."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from cfq_bench.evaluation import functional as F


class _Mean(Metric):
    """Mean of per-row values; NaN before the first row."""

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0, dtype=torch.int64), dist_reduce_fx="sum")

    def _add(self, values: Tensor) -> None:
        self.total += values.double().sum()
        self.count += values.numel()

    def compute(self) -> Tensor:
        """The mean, float32."""
        return (self.total / self.count).float()


class ValidityDrop(_Mean):
    """Share of teacher actions that fail on the quantized model; see `validity_drop`.

    >>> metric = ValidityDrop()
    >>> metric.update(torch.tensor([1, 0, 1, 1]), torch.tensor([1, 1, 1, 1]))
    >>> metric.compute()
    tensor(0.2500)
    """

    higher_is_better = False

    def update(self, predicted_q_at_action: Tensor, target: Tensor) -> None:
        """Add rows: classes (B,) of f_q at the teacher's recourse points, and targets (B,)."""
        self._add((predicted_q_at_action != target).double())


class Agreement(_Mean):
    """Share of rows on which both models agree.

    >>> metric = Agreement()
    >>> metric.update(torch.tensor([1, 0]), torch.tensor([1, 1]))
    >>> metric.compute()
    tensor(0.5000)
    """

    higher_is_better = True

    def update(self, predicted_q: Tensor, predicted_f: Tensor) -> None:
        """Add rows: classes (B,) of both models."""
        self._add((predicted_q == predicted_f).double())


class FavourableDrift(_Mean):
    """Growth of the favourable rate; see `favourable_drift`. Neither direction is better.

    >>> metric = FavourableDrift()
    >>> metric.update(torch.tensor([1, 1]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor(0.5000)
    """

    higher_is_better = None

    def __init__(self, favourable: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.favourable = favourable

    def update(self, predicted_q: Tensor, predicted_f: Tensor) -> None:
        """Add rows: classes (B,) of both models."""
        q, f = predicted_q == self.favourable, predicted_f == self.favourable
        self._add(q.double() - f.double())


class CostGap(_Mean):
    """CRG: mean relative growth of the minimal cost. Neither direction is better by itself.

    >>> metric = CostGap()
    >>> metric.update(torch.tensor([2.0, 1.0]), torch.tensor([3.0, 1.0]))
    >>> metric.compute()
    tensor(0.2500)
    """

    higher_is_better: bool | None = None

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def update(self, cost_f: Tensor, cost_q: Tensor) -> None:
        """Add rows: minimal costs (B,) on the teacher and on the quantized model."""
        self._add(F.cost_gap(cost_f, cost_q, self.epsilon))


class AbsoluteCostGap(CostGap):
    """|CRG|: mean absolute relative change of the minimal cost.

    >>> metric = AbsoluteCostGap()
    >>> metric.update(torch.tensor([2.0, 1.0]), torch.tensor([3.0, 0.5]))
    >>> metric.compute()
    tensor(0.5000)
    """

    higher_is_better = False

    def update(self, cost_f: Tensor, cost_q: Tensor) -> None:
        """Add rows: minimal costs (B,) on the teacher and on the quantized model."""
        self._add(F.cost_gap(cost_f, cost_q, self.epsilon).abs())


class DirectionSimilarity(_Mean):
    """DirSim: mean cosine of scaled actions; see `direction_similarity`.

    >>> metric = DirectionSimilarity()
    >>> metric.update(torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0]]))
    >>> metric.compute()
    tensor(1.)
    """

    higher_is_better = True

    def update(self, action_f: Tensor, action_q: Tensor) -> None:
        """Add rows: scaled actions (B, D)."""
        self._add(F.direction_similarity(action_f, action_q))


class ActionOverlap(_Mean):
    """ActOverlap: mean Jaccard overlap of the changed features; see `action_overlap`.

    >>> metric = ActionOverlap()
    >>> metric.update(torch.tensor([[True, True]]), torch.tensor([[True, False]]))
    >>> metric.compute()
    tensor(0.5000)
    """

    higher_is_better = True

    def update(self, changed_f: Tensor, changed_q: Tensor) -> None:
        """Add rows: changed features (B, F) bool."""
        self._add(F.action_overlap(changed_f, changed_q))


class BoundaryError(Metric):
    """(VD + its adverse twin) / 2; see `boundary_error`.

    >>> metric = BoundaryError()
    >>> metric.update(torch.tensor([0, 1]), torch.tensor([1, 1]))  # favourable: one of two fails
    >>> metric.update(torch.tensor([0, 0]), torch.tensor([0, 0]))  # adverse: none fails
    >>> metric.compute()
    tensor(0.2500)
    """

    higher_is_better = False
    full_state_update = False
    failed: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("failed", torch.zeros(2, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros(2, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, predicted_q_at_action: Tensor, target: Tensor) -> None:
        """Add rows of either direction: target 1 is favourable, target 0 adverse."""
        for direction in (0, 1):
            rows = target == direction
            self.failed[direction] += (predicted_q_at_action[rows] != direction).sum()
            self.count[direction] += rows.sum()

    def compute(self) -> Tensor:
        """Mean of both failure rates, float32."""
        return (self.failed / self.count).mean().float()
