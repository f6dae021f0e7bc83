"""The base of every settings model, and the settings that plug-in files extend."""

from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)

from cfq_bench.text import hidden

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NonNegative = Annotated[float, Field(ge=0.0)]


def _one_line(text: str) -> str:
    if not text.strip(". "):
        raise ValueError(f"{text!r} is no name: use letters or digits")
    if (found := hidden(text)) is not None:
        raise ValueError(f"the name holds {found}: use letters that can be seen, on one line")
    return text


Label = Annotated[str, AfterValidator(_one_line)]
"""What tables, pages and messages call something."""


class Frozen(BaseModel):
    """A settings model: frozen, finite, without unknown keys, without silent type conversion.

    Strict, because pydantic's lax mode turns ``true`` into 1.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class Later(Frozen):
    """A model with settings that came later and change nothing by default.

    They are left out of the dump while they have their default, so that runs keep their names.
    """

    LATER: ClassVar[tuple[str, ...]] = ()
    """Names of those settings."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        unsaid = {name for name in self.LATER if getattr(self, name) == fields[name].default}
        return {name: value for name, value in dump(self).items() if name not in unsaid}


class Named(Frozen):
    """Settings that come from one YAML file of a group, ``conf/<group>/<name>.yaml``."""

    name: Label
    """The YAML file's stem: the public name everywhere."""
    about: str = Field(default="", exclude=True)
    """One line for `cfq-bench list`; no part of a run's identity."""

    @field_validator("about")
    @classmethod
    def _about_is_one_line(cls, about: str) -> str:
        return " ".join(about.split())


class PlugIn(Named):
    """Settings whose meaning is code: the file that holds the class, named by the YAML.

    The file defines ``class Config(PlugIn subclass)`` for its own settings, beside the class that
    uses them.
    """

    module: str
    """Dotted name of an importable module, or the path of a .py file."""


class MethodSettings(PlugIn):
    """What every quantization method's ``Config`` has."""

    epoch_factor: Positive = 1.0
    """Optimizer steps as a multiple of the data set's `fit.epochs` (1 is the matched length)."""

    def auto_allocator(self, uniform: bool) -> str:
        """Who divides the bits where budget.allocator is auto.

        Args:
            uniform: whether one bit-width for all layers spends the whole budget.
        """
        return "uniform"


class AllocatorSettings(PlugIn):
    """What every bit allocator's ``Config`` has."""


class SolverSettings(PlugIn):
    """What every recourse solver's ``Config`` has."""


class BackboneSettings(PlugIn):
    """What every backbone's ``Config`` has."""

    def halved(self) -> "BackboneSettings | None":
        """The same backbone with half its hidden units or channels; None: it has none to halve."""
        return None


class TeacherSettings(PlugIn):
    """What every teacher objective's ``Config`` has."""

    uses_actions: ClassVar[bool] = False
    """Whether the teacher depends on the action set, which is then part of its cache key."""

    patience: Annotated[int, Field(ge=1)]
    """Epochs without a better validation loss before training stops."""
