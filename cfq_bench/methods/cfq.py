"""CFQ: Counterfactual-Faithful Quantization (paper, Section 4).

    task * CE(f_q(x), y) + distill * KL(f || f_q)(x) + eta * L_valid(f_q(x + delta_fp))
        + beta * L_hinge + L_match + lambda * BitCost

where delta_fp is the teacher's recourse action. `conf/method/cfq.yaml` is the paper's objective;
`conf/method/cfq_distilled.yaml` drops the labels and asks for the teacher's own output at x and at
x + delta_fp.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.actions.outcome import target_margin
from cfq_bench.actions.teacher_actions import RecoursePoints, choose_targets
from cfq_bench.config.cfq import CFQSettings
from cfq_bench.data.datamodule import Batch
from cfq_bench.methods.matching import unrolled_action
from cfq_bench.methods.points import PointMethod
from cfq_bench.methods.qat import distillation


class Config(CFQSettings):
    """CFQ has no settings beside those that its extensions share."""


class CFQ(PointMethod):
    """Trains f_q to keep the target at the teacher's recourse points, under a bit budget."""

    config: CFQSettings

    def uses_points(self) -> bool:
        """Whether L_valid or L_hinge has a weight."""
        return self.config.eta > 0 or self.config.beta > 0

    def objective(self, batch: Batch) -> Tensor:
        """The CFQ loss; f_q sees factual rows and recourse points in one forward pass."""
        x, y, rows = batch
        config = self.config
        points = self._points_of(x, rows) if self.uses_points() else None
        if points is None or not len(points.target):
            loss = self._at_factuals(self(x), y, rows)
        else:
            logits = self(torch.cat([x, points.inputs]))
            loss = self._at_factuals(logits[: len(x)], y, rows)
            loss = loss + self._at_recourse(logits[len(x) :], points)
        if config.match_direction > 0 or config.match_cost > 0:
            loss = loss + self._match(x[: self._share(len(x))])
        return loss

    def _at_factuals(self, logits: Tensor, y: Tensor, rows: Tensor) -> Tensor:
        loss = torch.zeros((), device=logits.device)
        if self.config.task > 0:
            loss = loss + self.config.task * F.cross_entropy(logits, y)
        if self.config.distill > 0:
            teacher = self.context.teacher_logits[rows]
            loss = loss + self.config.distill * distillation(logits, teacher)
        return loss

    def _at_recourse(self, logits: Tensor, points: RecoursePoints) -> Tensor:
        """Return eta * L_valid + beta * L_hinge, mean over the points that count."""
        config = self.config
        each = config.eta * self.validity(logits, points)
        if config.beta > 0:
            short = config.gamma - target_margin(logits, points.target)
            each = each + config.beta * short.clamp_min(0.0)
        return self.over_points(each, points)

    def validity(self, logits: Tensor, points: RecoursePoints) -> Tensor:
        """L_valid (P,) of each point, from a network's logits there."""
        if self.config.valid == "hard":
            return F.cross_entropy(logits, points.target, reduction="none")
        student, teacher = F.log_softmax(logits, 1), F.log_softmax(points.logits, 1)
        return F.kl_div(student, teacher, reduction="none", log_target=True).sum(1)

    def over_points(self, each: Tensor, points: RecoursePoints) -> Tensor:
        """One number of the terms (P,) of a batch's points: the mean over those that count."""
        if not self.config.valid_only:
            return each.mean()
        counts = points.valid.float()
        return (each * counts).sum() / counts.sum().clamp_min(1.0)

    def _match(self, x: Tensor) -> Tensor:
        """L_match: unrolled K steps on f_q against the detached K steps on f."""
        config, space = self.config, self.context.actions
        with torch.no_grad():
            predicted = self.context.teacher(x).argmax(1)
        target, takes_part = choose_targets(predicted, config.target)
        theirs = self._teacher_actions(x).point
        ours = unrolled_action(self, space, x, target, config.steps, config.step_size)
        origin = space.origin(x)
        distance = (space.scaled_action(origin, ours) - space.scaled_action(origin, theirs)).abs()
        cost = (space.cost(origin, ours) - space.cost(origin, theirs)).abs()
        each = config.match_direction * distance.sum(1) + config.match_cost * cost
        return (each * takes_part).sum() / takes_part.sum().clamp_min(1)
