"""Certificates of one deployed network: on any backend, and around a point.

Both are sound and incomplete: what is proved holds; what is not proved may hold too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from cfq_bench.actions.outcome import Model, target_margin
from cfq_bench.actions.solver import in_blocks
from cfq_bench.certificates.bound import lower_margin
from cfq_bench.certificates.chain import Layer

MOST_BOXES = 256
"""Boxes a row may take before it is left undecided."""
ROUNDS = 14
"""Times that a row's boxes are halved before it is left undecided."""
CHUNK = 512
"""Boxes bounded together; bounds the memory."""


def backend_margin(layers: Sequence[Layer], point: Tensor, target: Tensor, lsb: float) -> Tensor:
    """Target margin (B,) float64 that no backend falls short of.

    A backend computes the network in float32, in any order of summation, and may in addition be
    off by `lsb` steps at every hidden unit before its quantizer rounds. Without quantizers, the
    float32 errors alone are covered.

    Args:
        layers: from `read_chain`.
        point: (B, d) float32.
        target: (B,) int64 in {0, 1}.
        lsb: in steps of the hidden quantizers.
    """
    margins = [
        lower_margin(layers, part, part, wanted, lsb=lsb).margin
        for part, wanted in zip(
            torch.split(point.double().cpu(), CHUNK), torch.split(target.cpu(), CHUNK), strict=True
        )
    ]
    return torch.cat(margins)


class Verdict(IntEnum):
    """What is known about a box of points."""

    VERIFIED = 0
    """Every float32 point of the box keeps the target: proved."""
    REFUTED = 1
    """A point of the box loses it, and is shown."""
    UNDECIDED = 2
    """Neither, within the boxes and rounds allowed."""


@dataclass(frozen=True)
class BoxAnswer:
    """Answers for B rows.

    Attributes:
        verdict: (B,) int8, `Verdict`.
        witness: (B, d) float32: a point that the network refuses where refuted, else the point
            itself.
    """

    verdict: Tensor
    witness: Tensor


@torch.no_grad()
def verify_boxes(
    model: Model,
    layers: Sequence[Layer],
    point: Tensor,
    target: Tensor,
    moved: Tensor,
    radius: float,
    *,
    most_boxes: int = MOST_BOXES,
    rounds: int = ROUNDS,
) -> BoxAnswer:
    """Branch and bound over u +- radius in the columns that moved.

    Boxes that the bound does not prove are tried on the network itself, at their centre and at the
    corner where the relaxed margin is least, and then halved along their widest side.

    Args:
        model: the network that is deployed.
        layers: the same, from `read_chain`.
        point: (B, d) float32.
        target: (B,) int64 in {0, 1}.
        moved: (B, d) bool columns that vary; the others stay.
        radius: in units of the columns.
        most_boxes: per row.
        rounds: of halving.
    """
    search = _Search(in_blocks(model), layers, point, target, most_boxes)
    center = point.double().cpu()
    reach = radius * moved.double().cpu()
    low, high = _inward(center - reach, center + reach)
    row = torch.arange(len(point))
    search.attempt(row, point.cpu())  # the point itself comes first
    row = row[search.verdict == Verdict.VERIFIED]
    low, high = low[row], high[row]
    for _ in range(rounds + 1):
        row, low, high = search.undecided(row, low, high)
        if not len(row):
            break
        row, low, high = _halved(row, low, high)
    search.give_up(row)
    return BoxAnswer(search.verdict, search.witness.to(point.device))


class _Search:
    """The rows' verdicts so far, and the boxes spent on them."""

    def __init__(
        self, model: Model, layers: Sequence[Layer], point: Tensor, target: Tensor, most: int
    ) -> None:
        self.model, self.layers, self.most = model, layers, most
        self.device, self.target = point.device, target.cpu()
        self.witness = point.cpu().clone()
        self.verdict = torch.full((len(point),), int(Verdict.VERIFIED), dtype=torch.int8)
        self.spent = torch.zeros(len(point), dtype=torch.int64)

    def undecided(self, row: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bound and try the boxes; return those that must be halved."""
        self.spent.index_add_(0, row, torch.ones_like(row))
        open_ = torch.zeros(len(row), dtype=torch.bool)
        for start in range(0, len(row), CHUNK):
            part = slice(start, start + CHUNK)
            bound = lower_margin(self.layers, low[part], high[part], self.target[row[part]])
            left = ~(bound.margin > 0)
            open_[part] = left
            corner = torch.where(bound.slope > 0, low[part], high[part])
            middle = (low[part] + high[part]) / 2
            self.attempt(row[part][left], middle[left].float())
            self.attempt(row[part][left], corner[left].float())
        # A row takes two boxes for each that is halved.
        thin = (high == low).all(1)  # a point cannot be halved
        counts = torch.zeros_like(self.spent).index_add_(0, row[open_], torch.ones_like(row[open_]))
        self.give_up(row[open_ & (thin | (self.spent + 2 * counts > self.most)[row])])
        open_ &= self.verdict[row] == Verdict.VERIFIED
        return row[open_], low[open_], high[open_]

    def attempt(self, row: Tensor, tried: Tensor) -> None:
        """Refute rows whose points (N, d) float32 the network itself refuses."""
        if not len(row):
            return
        target = self.target[row]
        logits = self.model(tried.to(self.device)).cpu()
        failed = target_margin(logits, target) <= 0
        self.verdict[row[failed]] = int(Verdict.REFUTED)
        self.witness[row[failed]] = tried[failed]

    def give_up(self, row: Tensor) -> None:
        """Leave rows undecided, those refuted already excepted."""
        row = row[self.verdict[row] == Verdict.VERIFIED]
        self.verdict[row] = int(Verdict.UNDECIDED)


def _inward(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Ends of the float32 numbers between float64 ends, as float64."""
    inf = torch.tensor(torch.inf)
    least, most = low.float(), high.float()
    least = torch.where(least.double() < low, torch.nextafter(least, inf), least)
    most = torch.where(most.double() > high, torch.nextafter(most, -inf), most)
    return least.double(), most.double()


def _halved(row: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Two boxes for each: its halves along the widest side."""
    widest = (high - low).argmax(dim=1, keepdim=True)
    middle = ((low + high) / 2).gather(1, widest)
    below = high.scatter(1, widest, middle)
    above = low.scatter(1, widest, middle)
    return torch.cat([row, row]), torch.cat([low, above]), torch.cat([below, high])
