"""One way to load whatever a run's data settings name."""

from pathlib import Path

from cfq_bench.config.images import ImageSettings
from cfq_bench.config.settings import DataSettings
from cfq_bench.data.dataset import Dataset, load_data
from cfq_bench.data.images import load_image_data


def load_dataset(
    settings: DataSettings | ImageSettings, seed: int, data_dir: Path | None = None
) -> Dataset:
    """Read, check and split a data set.

    Raises:
        UserError: see `load_data` and `load_image_data`.
    """
    if isinstance(settings, ImageSettings):
        return load_image_data(settings, seed, data_dir)
    return load_data(settings, seed, data_dir)
