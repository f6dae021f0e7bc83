"""Train a teacher, or take it from the cache: once per (data, backbone, teacher, seed)."""

from typing import Any

from torch import Tensor

from cfq_bench.backbones.base import Backbone, make_backbone
from cfq_bench.cache import Cache
from cfq_bench.config.plugin import load_class
from cfq_bench.config.settings import Settings
from cfq_bench.data.datamodule import TableDataModule
from cfq_bench.data.dataset import TabularData
from cfq_bench.seeds import derive_seed
from cfq_bench.teacher.base import TeacherObjective
from cfq_bench.training.trainer import KeepBest, Runtime, fit, freeze


def teacher_key(settings: Settings, data: TabularData) -> dict[str, Any]:
    """Everything that decides a teacher, as JSON data; the key of its cache entry."""
    return {
        "data": data.fingerprint,
        "fit": settings.data.fit.model_dump(mode="json", exclude={"epochs"}),
        "backbone": settings.backbone.model_dump(mode="json", exclude={"name"}),
        "teacher": settings.teacher.model_dump(mode="json", exclude={"name"}),
        "seed": settings.seed,
    }


def obtain_teacher(
    settings: Settings, data: TabularData, cache: Cache, runtime: Runtime
) -> Backbone:
    """The frozen teacher of a run, in evaluation mode on the runtime's device.

    Raises:
        UserError: the cached file is corrupt.
    """
    network = _fresh(settings, data)

    def train() -> dict[str, Tensor]:
        _train(settings, data, network, runtime)
        return dict(network.state_dict())

    key = {**teacher_key(settings, data), "device": runtime.device.type}
    network.load_state_dict(cache.get_or_make("teacher", key, train))
    freeze(network.to(runtime.device))
    return network


def _fresh(settings: Settings, data: TabularData) -> Backbone:
    kind = load_class(settings.backbone.module, Backbone)
    seed = derive_seed(settings.seed, "teacher", "init")
    return make_backbone(kind, settings.backbone, data.schema.width, seed)


def _train(settings: Settings, data: TabularData, network: Backbone, runtime: Runtime) -> None:
    epochs = settings.data.fit.teacher_epochs
    batches = TableDataModule(
        data, settings.data.fit.batch_size, derive_seed(settings.seed, "teacher", "order")
    )
    steps = epochs * len(batches.train_loader)
    objective_class = load_class(settings.teacher.module, TeacherObjective)
    objective: TeacherObjective = objective_class(
        settings.teacher, network, settings.data.fit.weight_decay, steps
    )
    fit(
        objective,
        batches,
        Runtime(runtime.device, False, runtime.progress),
        what="training the teacher",
        max_epochs=epochs,
        total_steps=steps,
        log_every=settings.training.log_every,
        validate=True,
        callbacks=[KeepBest("val_loss", settings.teacher.patience)],
    )
