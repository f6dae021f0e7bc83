"""Group-CFQ: the recourse term of the worst-off group (paper, H.2).

    L_task + eta * max over g of E_{x in g} L_valid(f_q(x + delta_fp)) + lambda * BitCost

with the expectation over a group's points in the batch.
"""

import pandas as pd
import torch
from torch import Tensor

from cfq_bench.actions.teacher_actions import RecoursePoints
from cfq_bench.config.cfq import CFQSettings
from cfq_bench.errors import unknown_name
from cfq_bench.methods.base import Context, NotApplicableError
from cfq_bench.methods.cfq import CFQ


class Config(CFQSettings):
    """Settings of group-CFQ."""

    group: str | None
    """The protected feature whose groups are compared; null: the data set's first."""


class CFQGroup(CFQ):
    """CFQ whose recourse term is the worst mean over the groups of a protected feature."""

    config: Config

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        known = context.settings.data.protected
        if not known:
            raise NotApplicableError("the data set names no protected feature")
        if config.group is not None and config.group not in known:
            raise unknown_name("protected feature", config.group, known)
        names = context.data.train_groups[config.group or known[0]]
        codes, found = pd.factorize(names, sort=True)
        self.count = len(found)
        self.group_of_row = torch.from_numpy(codes).to(context.runtime.device)

    def over_points(self, each: Tensor, points: RecoursePoints) -> Tensor:
        """The greatest of the groups' means; a group without a point that counts is left out."""
        counts = points.valid.float() if self.config.valid_only else torch.ones_like(each)
        return worst_mean(each, counts, self.group_of_row[points.rows], self.count)


def worst_mean(each: Tensor, counts: Tensor, group: Tensor, groups: int) -> Tensor:
    """Greatest weighted mean over groups with a positive weight; 0 if there is none.

    Args:
        each: (P,) non-negative terms.
        counts: (P,) weights, 0 or 1.
        group: (P,) int64 in [0, groups).
        groups: number of groups.

    >>> each, ones = torch.tensor([1.0, 3.0, 5.0]), torch.ones(3)
    >>> worst_mean(each, ones, torch.tensor([0, 0, 1]), 3)
    tensor(5.)
    """
    zeros = each.new_zeros(groups)
    sums, sizes = (zeros.index_add(0, group, v) for v in (each * counts, counts))
    return (sums / sizes.clamp_min(1.0)).max()
