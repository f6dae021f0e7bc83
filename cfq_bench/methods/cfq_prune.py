"""CFQ for pruning: what is removed is chosen by what it costs at recourse points.

Paper, Table 24: structured pruning selects a structure that keeps the target valid at teacher
recourse points; unstructured masks are scored by the task loss and the counterfactual-validity loss
together. The pruned network is then trained and quantized under CFQ's objective.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.config.cfq import CFQSettings
from cfq_bench.config.compression import PruneSettings
from cfq_bench.methods.cfq import CFQ
from cfq_bench.methods.stages import Pruned, most_scored
from cfq_bench.quantization.pruning import sensitivity


class Config(PruneSettings, CFQSettings):
    """CFQ's settings and those of pruning."""

    saliency: Literal["recourse", "both"]
    """Scores: first-order change of L_valid at the recourse points, or of the task loss as well."""


class CFQPrune(Pruned, CFQ):
    """The CFQ loss of a network pruned by the saliency of L_valid."""

    config: Config

    def scores(self) -> list[Tensor]:
        """Saliency on all train rows' points that count, weighted as the losses are."""
        config, (x, y) = self.config, self.scored_rows()
        points = self.all_points()
        if config.valid_only:
            points = points.take(points.valid)
        most = most_scored(points.inputs)
        if most is not None and len(points.target) > most:
            points = points.take(torch.arange(most, device=points.target.device))

        def at_points(logits: Tensor) -> Tensor:
            return self.validity(logits, points)

        def at_rows(logits: Tensor) -> Tensor:
            return F.cross_entropy(logits, y, reduction="none")

        valid = sensitivity(self.origin, config.prune, points.inputs, at_points)
        if config.saliency == "recourse":
            return valid
        task = sensitivity(self.origin, config.prune, x, at_rows)
        pairs = zip(task, valid, strict=True)
        return [config.task * one + config.eta * other for one, other in pairs]
