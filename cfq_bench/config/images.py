"""Settings of image data sets, and of what may be done to an image (paper, appendix K).

Files of tables carry no `kind`, files of images do: that is how the loader tells them apart.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cfq_bench.config.actions import PercentileBounds
from cfq_bench.config.base import Frozen, Named, NonNegative, Positive
from cfq_bench.config.fit import FitSettings

Share = Annotated[float, Field(gt=0.0, lt=1.0)]


class ImageTarget(Frozen):
    """What is predicted: one value of an attribute against others."""

    column: str
    """The attribute."""
    favourable: int | str
    """The value that recourse aims at (class 1 inside)."""
    against: Annotated[list[int | str], Field(min_length=1)] | None
    """The values of class 0; images with any other value are left out. null: all others."""

    @model_validator(mode="after")
    def _two_sides(self) -> "ImageTarget":
        if self.against is not None and self.favourable in self.against:
            raise ValueError(f"favourable {self.favourable!r} is also one of 'against'")
        return self


class ImageSplit(Frozen):
    """Which images are used. The published test partition is never trained on."""

    train: Annotated[int, Field(ge=2)] | None
    """Most images of the published train partition, a seeded sample; null: all."""
    validation: Share | Literal["published"]
    """Share of those that is set aside for choices, or the published validation partition."""
    test: Annotated[int, Field(ge=2)] | None
    """Most images of the published test partition, a seeded sample; null: all."""


class ImageSettings(Named):
    """Images: where they come from, their label, their split."""

    kind: Literal["images"]
    loader: str
    """Module with ``load(data_dir) -> Images``."""
    target: ImageTarget
    protected: list[str]
    """Attributes whose groups are reported apart."""
    split: ImageSplit
    fit: FitSettings
    actions: str
    """The action space used unless --actions names another."""
    defaults: list[str] = Field(default_factory=list, exclude=True)
    """``key=value`` lines that a run on these images starts from: a backbone and a solver that fit,
    and sizes that a table need not spare. Options and overrides win; keys that the method's file
    does not have are passed over."""

    @model_validator(mode="after")
    def _target_is_not_protected(self) -> "ImageSettings":
        if self.target.column in self.protected:
            raise ValueError(f"the target {self.target.column!r} is also listed as protected")
        return self


class AutoencoderSettings(Frozen):
    """The autoencoder whose latent space actions live in: x is about D(E(x))."""

    latent: Annotated[int, Field(ge=2, le=256)]
    """Dimensions of the latent space (paper: low-dimensional)."""
    channels: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=5)]
    """Channels of each convolution of the encoder, which halves height and width; the decoder is
    its mirror image."""
    epochs: Annotated[int, Field(ge=1)]
    """Passes over the train images."""
    batch_size: Annotated[int, Field(ge=2)]
    """Images per optimizer step."""
    lr: Positive
    """Adam learning rate, cosine to 0."""
    noise: NonNegative
    """Standard deviation of Gaussian noise on the latents in training, which have one of 1: points
    between those of train images are then decoded to images as well."""


class LatentSettings(Named):
    """Any move in the latent space (Table 28): x' = D(E(x) + delta)."""

    kind: Literal["latent"]
    autoencoder: AutoencoderSettings
    bounds: PercentileBounds
    """Box of the latents, as percentiles of the train images in [0, 1]."""
    radius: Positive | None
    """Longest move ||delta||_2, in standard deviations of the latents; null: any within the box."""
    pixel_weight: NonNegative
    """lambda_pix: cost of a change of one pixel from black to white."""


class SemanticSettings(Named):
    """Edits of attributes (Table 28): x' = D(E(x) + V s), one direction in V per attribute."""

    kind: Literal["semantic"]
    autoencoder: AutoencoderSettings
    attributes: Annotated[dict[str, Positive], Field(min_length=1)]
    """Attributes that may be edited, and W: the cost of one standard deviation of each."""
    fixed: list[str]
    """Attributes that no edit may change: their coefficients are 0, and the directions of the
    others leave their linear predictors where they are."""
    radius: Positive
    """rho_s, in ||W s||_1 <= rho_s."""
    ridge: Positive
    """Penalty of the ridge regression of attributes on latents."""

    @model_validator(mode="after")
    def _fixed_stays_fixed(self) -> "SemanticSettings":
        both = [name for name in self.attributes if name in self.fixed]
        if both:
            raise ValueError(f"attribute {both[0]!r} is both editable and fixed")
        return self
