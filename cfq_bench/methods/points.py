"""The recourse points that a method trains at: where they come from and how they are moved."""

import time
from dataclasses import replace

import torch
from torch import Tensor

from cfq_bench.actions.outcome import Model, target_margin
from cfq_bench.actions.space import ActionSpace
from cfq_bench.actions.teacher_actions import RecoursePoints, choose_targets, teacher_actions
from cfq_bench.config.cfq import PointSettings
from cfq_bench.methods.base import Context, Phase
from cfq_bench.methods.qat import QATMethod
from cfq_bench.seeds import derive_seed


class PointMethod(QATMethod):
    """A method that looks at the teacher's recourse points in every batch.

    Attributes:
        points: all of them, where they are computed before training; `rows` are train positions.
    """

    config: PointSettings

    def __init__(self, config: PointSettings, context: Context) -> None:
        super().__init__(config, context)
        self.points: RecoursePoints | None = None
        seed = context.settings.seed
        self.draws = torch.Generator().manual_seed(derive_seed(seed, "recourse"))
        self.moves = torch.Generator().manual_seed(derive_seed(seed, "recourse", "moves"))

    def begin(self, phase: Phase) -> None:
        """Compute the teacher's actions once, unless they are computed in every batch."""
        super().begin(phase)
        if self.uses_points() and self.config.source != "on_the_fly":
            self.all_points()

    def uses_points(self) -> bool:
        """Whether the objective has a term at recourse points."""
        return True

    def all_points(self) -> RecoursePoints:
        """The points of all train rows, or the pool; computed at the first call."""
        if self.points is None:
            config = self.config
            if config.source == "pool":
                self.points = self.context.recourse_pool(
                    config.target, config.pool_size, config.pool_kappas
                )
            else:
                start = time.perf_counter()
                self.points = self._all_teacher_actions()
                self.context.add_time("teacher_actions_s", time.perf_counter() - start)
        return self.points

    def _share(self, batch: int) -> int:
        return max(1, round(self.config.fraction * batch))

    def _points_of(self, x: Tensor, rows: Tensor) -> RecoursePoints:
        """The points of one batch, moved as the settings say."""
        points, config = self._clean_points_of(x, rows), self.config
        teacher, space = self.context.teacher, self.context.actions
        if config.noise > 0 or config.neighbours > 0:
            origin = space.origin(self.context.data.train.inputs(points.rows))
        if config.noise > 0:
            points = noisy(points, teacher, space, origin, config.noise, self.moves)
        if config.neighbours > 0:
            near = [
                neighbours(points, teacher, space, origin, config.radius, self.moves)
                for _ in range(config.neighbours)
            ]
            points = RecoursePoints.join([points, *near])
        return points

    def _clean_points_of(self, x: Tensor, rows: Tensor) -> RecoursePoints:
        count = self._share(len(x))
        rows = rows[:count]
        if self.config.source == "on_the_fly":
            start = time.perf_counter()
            points = replace(self._teacher_actions(x[:count]), rows=rows)
            self.context.add_time("teacher_actions_s", time.perf_counter() - start)
            return points.take(self._taking_part(rows))
        if self.points is None:
            raise RuntimeError("begin() computes the teacher's actions before training")
        if self.config.source == "cached":
            return self.points.take(rows[self._taking_part(rows)])
        size = len(self.points.target)
        drawn = torch.randint(size, (count,), generator=self.draws) if size else torch.zeros(0)
        return self.points.take(drawn.long().to(x.device))

    def _taking_part(self, rows: Tensor) -> Tensor:
        """(B,) bool, the train rows for which the target policy wants an action at all."""
        predicted = self.context.teacher_logits[rows].argmax(1)
        _, takes_part = choose_targets(predicted, self.config.target)
        return takes_part

    def _all_teacher_actions(self) -> RecoursePoints:
        """Those of all train rows, in order."""
        parts, first = [], 0
        for x in self.context.data.train.blocks():
            part = self._teacher_actions(x)
            parts.append(replace(part, rows=part.rows + first))
            first += len(x)
        return RecoursePoints.join(parts)

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


def noisy(
    points: RecoursePoints,
    teacher: Model,
    space: ActionSpace,
    origin: Tensor,
    sigma: float,
    generator: torch.Generator,
) -> RecoursePoints:
    """Pi_A(x)(delta + sigma xi) with xi ~ N(0, I) (paper, Table 19).

    Args:
        points: P points.
        teacher: inputs to logits, asked again at the new points.
        space: the action space.
        origin: (P, D) coordinates of each point's factual row.
        sigma: in the space's coordinates (standard deviations of numeric columns).
        generator: of xi, on the CPU.
    """
    xi = torch.randn(points.point.shape, generator=generator).to(origin.device)
    return _moved(points, teacher, space, space.project(origin, points.point + sigma * xi))


def neighbours(
    points: RecoursePoints,
    teacher: Model,
    space: ActionSpace,
    origin: Tensor,
    radius: float,
    generator: torch.Generator,
) -> RecoursePoints:
    """One point of A(x) near each point, from the Euclidean ball of `radius` around it.

    The proposal is uniform in the ball. Projecting it onto A(x) may lead out of the ball again
    (another category, another integer, another choice of k features); the neighbour is then the
    point itself.

    Args:
        points: P points.
        teacher: inputs to logits, asked again at the new points.
        space: the action space.
        origin: (P, D) coordinates of each point's factual row.
        radius: in the space's coordinates (standard deviations of numeric columns).
        generator: of the proposals, on the CPU.
    """
    count, width = points.point.shape
    direction = torch.nn.functional.normalize(torch.randn((count, width), generator=generator))
    length = radius * torch.rand((count, 1), generator=generator) ** (1.0 / width)
    proposal = points.point + (length * direction).to(origin.device)
    near = space.project(origin, proposal)
    inside = (near - points.point).norm(dim=1, keepdim=True) <= radius
    return _moved(points, teacher, space, torch.where(inside, near, points.point))


def _moved(
    points: RecoursePoints, teacher: Model, space: ActionSpace, point: Tensor
) -> RecoursePoints:
    """The same rows and targets at other points of A(x)."""
    with torch.no_grad():
        inputs = space.to_input(point)
        logits = teacher(inputs)
    valid = target_margin(logits, points.target) > 0
    return replace(points, point=point, inputs=inputs, valid=valid, logits=logits)
