"""Image data sets as text: one described with its action space, and what a check found."""

from pathlib import Path

from cfq_bench.config.images import ImageSettings, LatentSettings, SemanticSettings
from cfq_bench.config.settings import Settings
from cfq_bench.data.images import ImageData, load_image_data
from cfq_bench.data.sources import named_data_dir
from cfq_bench.errors import unknown_name
from cfq_bench.report.data_lines import aligned, row_counts, unpublished


def images_check(
    settings: Settings, own: ImageSettings, data_dir: Path | None, *, seed: int
) -> str:
    """Load the images that a run would; one line that they are sound, and notes worth reading.

    Raises:
        UserError: what is wrong.
    """
    data = load_image_data(own, seed, named_data_dir(data_dir))
    if isinstance(settings.actions, SemanticSettings):
        for name in [*settings.actions.attributes, *settings.actions.fixed]:
            if name not in data.train_attributes:
                raise unknown_name("attribute", name, data.train_attributes.columns)
    lines = [f"{own.name}: sound, with actions {settings.actions.name}"]
    lines.append(f"  {row_counts(data)}, {_shape(data)}")
    lines += [f"  note: {note}" for note in unpublished(own.loader, Path(data.source))]
    return "\n".join(lines) + "\n"


def images_description(
    settings: Settings, own: ImageSettings, data_dir: Path | None, *, seed: int
) -> str:
    """Images and their action space as a page."""
    data = load_image_data(own, seed, named_data_dir(data_dir))
    target, train = own.target, data.train
    against = "all others" if target.against is None else ", ".join(map(str, target.against))
    share = float(train.y.double().mean())
    facts = [
        ["source", data.source],
        ["rows", row_counts(data)],
        ["images", _shape(data)],
        ["target", f"{target.column}: {target.favourable!r} is favourable, against {against}"],
        ["", f"{share:.1%} of the train rows are favourable"],
        ["protected", ", ".join(own.protected) or "none"],
        ["actions", f"{settings.actions.name}: {_action_line(settings)}"],
    ]
    return "\n".join([f"{own.name}: {own.about}", aligned(facts)])


def _shape(data: ImageData) -> str:
    colours, height, width = data.input_shape
    return f"{height} x {width} pixels, {colours} channel" + ("s" if colours > 1 else "")


def _action_line(settings: Settings) -> str:
    actions = settings.actions
    if isinstance(actions, SemanticSettings):
        edited, fixed = ", ".join(actions.attributes), ", ".join(actions.fixed) or "nothing"
        return f"edits of {edited}; {fixed} fixed; cost at most {actions.radius:g}"
    if not isinstance(actions, LatentSettings):
        raise TypeError(f"{actions.name} is no action space of images")
    low, high = 100 * actions.bounds.low, 100 * actions.bounds.high
    reach = "any length" if actions.radius is None else f"length at most {actions.radius:g}"
    return (
        f"{actions.autoencoder.latent} latents within train percentiles {low:g} to {high:g}, "
        f"{reach}, pixel weight {actions.pixel_weight:g}"
    )
