"""CFQ: Counterfactual-Faithful Quantization (paper, Section 4).

    task * CE(f_q(x), y) + distill * KL(f || f_q)(x) + eta * L_valid(f_q(x + delta_fp))
        + beta * L_hinge + L_match + lambda * BitCost

where delta_fp is the teacher's recourse action. `conf/method/cfq.yaml` is the paper's objective;
`conf/method/cfq_distilled.yaml` drops the labels and asks for the teacher's own output at x and at
x + delta_fp.
"""

import time
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.actions.outcome import target_margin
from cfq_bench.actions.teacher_actions import RecoursePoints, choose_targets, teacher_actions
from cfq_bench.config.base import Fraction, NonNegative, Positive
from cfq_bench.config.qat import QATSettings, Target
from cfq_bench.data.datamodule import Batch
from cfq_bench.methods.base import Context, Phase
from cfq_bench.methods.matching import unrolled_action
from cfq_bench.methods.qat import QATMethod, distillation
from cfq_bench.seeds import derive_seed


class Config(QATSettings):
    """Settings of CFQ."""

    task: NonNegative
    """Weight of the cross-entropy on the labels at x."""
    distill: NonNegative
    """Weight of the KL to the teacher at x (0 in the paper)."""
    eta: NonNegative
    """Weight of L_valid at the recourse points (Section 4.2)."""
    valid: Literal["hard", "soft"]
    """L_valid: hard is the cross-entropy with the target, soft the KL to the teacher there."""
    target: Target
    """Which class the actions aim at."""
    source: Literal["cached", "on_the_fly", "pool"]
    """Actions: K steps once before training, K steps in every batch, or minimal-cost ones."""
    steps: Annotated[int, Field(ge=1)]
    """K, projected-gradient steps of cached and on_the_fly (paper: 1 to 3)."""
    step_size: Positive
    """alpha of these steps."""
    early_stop: bool
    """A row stops at its first valid iterate instead of going all K steps."""
    valid_only: bool
    """Leave out points where the teacher itself does not give the target."""
    fraction: Annotated[Fraction, Field(gt=0.0)]
    """Share of each batch that carries recourse terms."""
    pool_size: Annotated[int, Field(ge=1)]
    """source=pool: train rows that are solved."""
    pool_kappas: Annotated[list[NonNegative], Field(min_length=1)]
    """source=pool: margins, dealt out to the rows in turn."""
    beta: NonNegative
    """Weight of L_hinge (Appendix B)."""
    gamma: Positive
    """Margin that L_hinge asks for, in logits."""
    match_direction: NonNegative
    """alpha_1 of L_match: l1 distance of the quantized network's K-step action to the teacher's."""
    match_cost: NonNegative
    """alpha_2 of L_match: difference of their costs."""


class CFQ(QATMethod):
    """Trains f_q to keep the target at the teacher's recourse points, under a bit budget."""

    config: Config

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.points: RecoursePoints | None = None
        seed = derive_seed(context.settings.seed, "recourse")
        self.draws = torch.Generator().manual_seed(seed)

    def begin(self, phase: Phase) -> None:
        """Compute the teacher's actions once, unless they are computed in every batch."""
        super().begin(phase)
        config = self.config
        if self.points is not None or not self._uses_points() or config.source == "on_the_fly":
            return
        if config.source == "pool":
            self.points = self.context.recourse_pool(
                config.target, config.pool_size, config.pool_kappas
            )
            return
        start = time.perf_counter()
        self.points = self._teacher_actions(self.context.data.train.x)
        self.context.add_time("teacher_actions_s", time.perf_counter() - start)

    def objective(self, batch: Batch) -> Tensor:
        """The CFQ loss; f_q sees factual rows and recourse points in one forward pass."""
        x, y, rows = batch
        config = self.config
        points = self._points_of(x, rows) if self._uses_points() else None
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
        if config.valid == "hard":
            each = F.cross_entropy(logits, points.target, reduction="none")
        else:
            student, teacher = F.log_softmax(logits, 1), F.log_softmax(points.logits, 1)
            each = F.kl_div(student, teacher, reduction="none", log_target=True).sum(1)
        each = config.eta * each
        if config.beta > 0:
            short = config.gamma - target_margin(logits, points.target)
            each = each + config.beta * short.clamp_min(0.0)
        if not config.valid_only:
            return each.mean()
        counts = points.valid.float()
        return (each * counts).sum() / counts.sum().clamp_min(1.0)

    def _match(self, x: Tensor) -> Tensor:
        """L_match: unrolled K steps on f_q against the detached K steps on f."""
        config, space = self.config, self.context.actions
        with torch.no_grad():
            predicted = self.context.teacher(x).argmax(1)
        target, takes_part = choose_targets(predicted, config.target)
        theirs = self._teacher_actions(x).inputs
        ours = unrolled_action(self, space, x, target, config.steps, config.step_size)
        origin = space.origin(x)
        distance = (space.scaled_action(origin, ours) - space.scaled_action(origin, theirs)).abs()
        cost = (space.cost(origin, ours) - space.cost(origin, theirs)).abs()
        each = config.match_direction * distance.sum(1) + config.match_cost * cost
        return (each * takes_part).sum() / takes_part.sum().clamp_min(1)

    def _uses_points(self) -> bool:
        config = self.config
        return config.eta > 0 or config.beta > 0

    def _share(self, batch: int) -> int:
        return max(1, round(self.config.fraction * batch))

    def _points_of(self, x: Tensor, rows: Tensor) -> RecoursePoints:
        count = self._share(len(x))
        if self.config.source == "on_the_fly":
            start = time.perf_counter()
            points = self._teacher_actions(x[:count])
            self.context.add_time("teacher_actions_s", time.perf_counter() - start)
            return points.take(self._taking_part(rows[:count]))
        if self.points is None:
            raise RuntimeError("begin() computes the teacher's actions before training")
        if self.config.source == "cached":
            rows = rows[:count]
            return self.points.take(rows[self._taking_part(rows)])
        size = len(self.points.target)
        drawn = torch.randint(size, (count,), generator=self.draws) if size else torch.zeros(0)
        return self.points.take(drawn.long().to(x.device))

    def _taking_part(self, rows: Tensor) -> Tensor:
        """(B,) bool, the train rows for which the target policy wants an action at all."""
        predicted = self.context.teacher_logits[rows].argmax(1)
        _, takes_part = choose_targets(predicted, self.config.target)
        return takes_part

    def _teacher_actions(self, x: Tensor) -> RecoursePoints:
        config = self.config
        return teacher_actions(
            self.context.teacher,
            self.context.actions,
            x,
            config.target,
            steps=config.steps,
            step_size=config.step_size,
            keep="first" if config.early_stop else "last",
        )
