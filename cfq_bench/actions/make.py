"""The action space of a run, from its settings and its train rows."""

from typing import Any

import torch

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.latent import Coded, LatentSpace
from cfq_bench.actions.semantic import SemanticSpace
from cfq_bench.actions.space import ActionSpace
from cfq_bench.autoencoder.fit import obtain_autoencoder
from cfq_bench.cache import Cache
from cfq_bench.config.actions import ActionSettings
from cfq_bench.config.images import LatentSettings
from cfq_bench.config.settings import Settings
from cfq_bench.data.dataset import Dataset, TabularData
from cfq_bench.data.images import ImageData
from cfq_bench.training.trainer import Runtime


def make_space(
    settings: Settings, data: Dataset, cache: Cache, runtime: Runtime
) -> tuple[ActionSpace, dict[str, Any]]:
    """The action space, and what a record says of the autoencoder behind it (tables: nothing).

    Raises:
        UserError: settings do not fit the data, or a cached autoencoder is corrupt.
    """
    if isinstance(data, TabularData):
        _, table_actions = settings.table()
        return ActionSet(data.schema, table_actions, data.train.x), {}
    actions = settings.actions
    if not isinstance(data, ImageData) or isinstance(actions, ActionSettings):
        raise TypeError(f"{type(data).__name__} and {type(actions).__name__} do not go together")
    trained = obtain_autoencoder(actions.autoencoder, data, settings.seed, cache, runtime)
    coded = Coded(trained.network)
    with torch.no_grad():
        latents = torch.cat([coded.encode(x) for x in data.train.blocks()])
    told = {"validation_mse": trained.error, "mean_image_mse": trained.baseline}
    if isinstance(actions, LatentSettings):
        return LatentSpace(actions, coded, latents), {"autoencoder": told}
    return SemanticSpace(actions, coded, latents, data.train_attributes), {"autoencoder": told}
