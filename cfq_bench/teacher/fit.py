"""Train a teacher, or take it from the cache: once for everything in its key."""

from functools import partial

from torch import Tensor

from cfq_bench.actions.space import ActionSpace
from cfq_bench.backbones.base import Backbone, make_backbone
from cfq_bench.backbones.batch_norm import fold_batch_norm
from cfq_bench.cache import Cache
from cfq_bench.config.plugin import load_class
from cfq_bench.config.settings import Settings
from cfq_bench.data.datamodule import SplitDataModule
from cfq_bench.data.dataset import Dataset
from cfq_bench.seeds import derive_seed
from cfq_bench.teacher.base import TeacherContext, TeacherObjective
from cfq_bench.teacher.keys import teacher_key
from cfq_bench.training.trainer import KeepBest, Runtime, fit, freeze


def obtain_teacher(
    settings: Settings, data: Dataset, space: ActionSpace, cache: Cache, runtime: Runtime
) -> Backbone:
    """The frozen teacher of a run, in evaluation mode on the runtime's device.

    Its batch norms are folded: everything after training sees the network that is deployed.

    Raises:
        UserError: the cached file is corrupt.
    """
    network = fold_batch_norm(_fresh(settings, data))

    def train() -> dict[str, Tensor]:
        trained = _fresh(settings, data)
        _train(settings, data, space, trained, runtime)
        return dict(fold_batch_norm(trained).state_dict())

    key = {**teacher_key(settings, data, space), "device": runtime.device.type}
    network.load_state_dict(cache.get_or_make("teacher", key, train))
    freeze(network.to(runtime.device))
    return network


def _fresh(settings: Settings, data: Dataset, *number: int) -> Backbone:
    kind = load_class(settings.backbone.module, Backbone)
    seed = derive_seed(settings.seed, "teacher", "init", *map(str, number))
    return make_backbone(kind, settings.backbone, data.input_shape, seed)


def _train(
    settings: Settings, data: Dataset, space: ActionSpace, network: Backbone, runtime: Runtime
) -> None:
    epochs, size = settings.data.fit.teacher_epochs, settings.data.fit.batch_size
    order = derive_seed(settings.seed, "teacher", "order")
    steps = epochs * len(SplitDataModule(data, size, order).train_loader)
    context = TeacherContext(
        network, space, partial(_fresh, settings, data), settings.data.fit.weight_decay, steps
    )
    kind = load_class(settings.teacher.module, TeacherObjective)
    objective: TeacherObjective | None = kind(settings.teacher, context)
    while objective is not None:
        fit(
            objective,
            SplitDataModule(data, size, order),
            Runtime(runtime.device, False, runtime.progress),
            what="training the teacher",
            max_epochs=epochs,
            total_steps=steps,
            log_every=settings.training.log_every,
            validate=True,
            callbacks=[KeepBest("val_loss", settings.teacher.patience)],
        )
        objective = objective.then()
