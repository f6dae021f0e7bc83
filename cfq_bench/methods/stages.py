"""Methods that train a float network of their own first, and then quantize it.

Mix these classes in before a `QATMethod`: its `objective` trains both networks.
"""

import copy
from abc import abstractmethod
from typing import Any

import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor

from cfq_bench.backbones.base import Backbone, make_backbone
from cfq_bench.config.compression import FloatStageSettings, PruneSettings, StudentSettings
from cfq_bench.errors import UserError
from cfq_bench.methods.base import Context, Method, NotApplicableError, Phase
from cfq_bench.methods.qat import QATMethod
from cfq_bench.quantization.pruning import Masks, masks_of, prunable
from cfq_bench.seeds import derive_seed
from cfq_bench.training.trainer import cosine

SCORED_IMAGES = 1024
"""Images that importance is scored on: gradients of all of them would fit in no memory."""


class FloatStage(QATMethod):
    """A phase named `float` before the quantized ones; the method is its student meanwhile."""

    config: FloatStageSettings

    @abstractmethod
    def make_student(self) -> Backbone:
        """The float network, on the run's device."""

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, C) of the network that the present phase trains."""
        return self.origin(x) if self.phase.name == "float" else super().forward(x)

    def phases(self) -> list[Phase]:
        """The float network's share of the steps, then the quantized network's."""
        (whole,) = Method.phases(self)
        first = round(self.config.float_share * whole.steps)
        rest = max(1, whole.steps - first)
        quantized = self.quantized_phases(Phase("tune", rest, 0, rest))
        return [Phase("float", first, 0, first), *quantized] if first else quantized

    def begin(self, phase: Phase) -> None:
        """Quantize the float network as it is once it has been trained."""
        if self.phase.name == "float" != phase.name:
            self.restart()
        super().begin(phase)

    def restart(self) -> None:
        """Start the quantized network from the float one."""
        self.network.reset(self.origin, self.calibration_rows())

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Adam and cosine; in the phase `float` for the student alone."""
        if self.phase.name != "float":
            return super().configure_optimizers()
        parameters = self.origin.parameters()
        optimizer = torch.optim.Adam(parameters, lr=self.config.float_lr, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(self.phase.horizon))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def most_scored(x: Tensor) -> int | None:
    """How many of a table's rows, or of images, scores are taken on; None: all."""
    return None if x.dim() == 2 else SCORED_IMAGES


class Pruned(FloatStage):
    """Removes weights or neurons of a copy of the teacher; subclasses score them.

    What is removed is 0 in every forward pass: the masks act on the copy before it is quantized and
    on both networks after every optimizer step, and the code of 0 is 0 at any bit-width.
    """

    config: PruneSettings

    def __init__(self, config: PruneSettings, context: Context) -> None:
        super().__init__(config, context)
        self.masks = Masks(self.origin)
        self.is_pruned = False

    @abstractmethod
    def scores(self) -> list[Tensor]:
        """Importance of what may be removed, as `pruning.magnitude` returns it."""

    def scored_rows(self) -> tuple[Tensor, Tensor]:
        """Inputs and labels that scores are taken on: a table's train rows, or many images."""
        train = self.context.data.train
        rows = slice(most_scored(train.x))
        return train.inputs(rows), train.y[rows]

    def make_student(self) -> Backbone:
        """A copy of the teacher that may be trained.

        Raises:
            NotApplicableError: neurons are to be removed and there are none.
        """
        teacher = self.context.teacher
        if self.config.prune == "neurons" and not prunable(teacher):
            raise NotApplicableError("the backbone has no hidden units to prune")
        return copy.deepcopy(teacher).requires_grad_(True)

    def begin(self, phase: Phase) -> None:
        """Prune before the first phase."""
        if not self.is_pruned:
            config = self.config
            scores = self.scores()
            self.masks.set(masks_of(self.origin, config.prune, scores, config.prune_fraction))
            self.masks.prune(self.origin)
            self.restart()
            self.is_pruned = True
        super().begin(phase)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Keep what is removed at 0."""
        super().on_train_batch_end(outputs, batch, batch_idx)
        self.masks.prune(self.origin)
        self.masks.hold(self.network)

    def deployment(self) -> dict[str, Any]:
        """Bits of every unit, and what pruning left of it.

        Only whole neurons save operations: a network of single zeros is computed in full.
        """
        described = super().deployment()
        masks = list(self.masks.of_units(self.network))
        kept = {unit.name: int(mask.sum()) for unit, mask in masks}
        if self.config.prune == "weights":
            return {**described, "kept": kept}
        macs = {unit.name: kept[unit.name] * unit.positions for unit, _ in masks}
        return {**described, "kept": kept, "macs": macs}


class Student(FloatStage):
    """A smaller network of the teacher's kind, trained from a fresh initialization."""

    config: StudentSettings

    def make_student(self) -> Backbone:
        """The student.

        Raises:
            NotApplicableError: the backbone has no hidden units that could be fewer.
            UserError: the student is not smaller than the teacher.
        """
        context = self.context
        teacher, backbone = context.teacher, context.settings.backbone
        own = self.config.student_hidden
        if own is None or not getattr(backbone, "hidden", [1]):
            smaller = backbone.halved()
        elif hasattr(backbone, "hidden"):
            smaller = backbone.model_copy(update={"hidden": own})
        else:
            raise UserError(
                f"method.student_hidden {own} is for MLPs, and backbone {backbone.name} is "
                "none: set it to null for half the channels"
            )
        if smaller is None:
            raise NotApplicableError("the backbone has no hidden units: no student is smaller")
        seed = derive_seed(context.settings.seed, "student", "init")
        student = make_backbone(type(teacher), smaller, teacher.shape, seed, teacher.classes)
        count, most = (sum(p.numel() for p in net.parameters()) for net in (student, teacher))
        if count >= most:
            raise UserError(
                f"method.student_hidden {own} gives {count} parameters and the teacher has "
                f"{most}: a student is smaller"
            )
        return student.to(context.runtime.device)
