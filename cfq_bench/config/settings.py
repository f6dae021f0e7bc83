"""The whole configuration of one run. The numbers are in ``conf/``; here is what they mean."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, SerializeAsAny, model_validator

from cfq_bench.config.actions import ActionSettings, FeatureAction
from cfq_bench.config.base import (
    AllocatorSettings,
    BackboneSettings,
    Fraction,
    Frozen,
    Later,
    MethodSettings,
    Named,
    NonNegative,
    Positive,
    SolverSettings,
    TeacherSettings,
)
from cfq_bench.config.fit import FitSettings
from cfq_bench.config.images import ImageSettings, LatentSettings, SemanticSettings
from cfq_bench.config.tablefile import TABLE_FILES, TEXT_FILES, TableFile
from cfq_bench.config.uncertainty import UncertaintySettings
from cfq_bench.errors import UserError

Bits = Annotated[int, Field(ge=2, le=8)]
FeatureKind = Literal["numeric", "integer", "ordinal", "categorical"]
Shift = Literal["none", "noise", "reweight", "imbalance"]
ImageActions = LatentSettings | SemanticSettings


class FeatureSettings(Later):
    """One column of a table."""

    LATER: ClassVar[tuple[str, ...]] = ("missing_codes",)

    kind: FeatureKind
    """numeric: real; integer: whole numbers; ordinal: ordered categories; categorical: a set."""
    unit: str = ""
    """Unit of the raw value, for people."""
    transform: Literal["none", "log1p"] = "none"
    """Applied to numeric and integer columns before they are standardized."""
    order: list[str] | None = None
    """Ordinal columns: the categories from lowest to highest."""
    missing_codes: Annotated[list[int | float | str], Field(min_length=1)] | None = None
    """Values that stand for a missing one in this column, such as -9 or 999."""

    @model_validator(mode="after")
    def _order_fits_kind(self) -> "FeatureSettings":
        if (self.kind == "ordinal") != (self.order is not None):
            raise ValueError("'order' lists an ordinal feature's categories, and only an ordinal's")
        if self.transform != "none" and self.kind not in ("numeric", "integer"):
            raise ValueError("'transform' is for numeric and integer features")
        return self


class TargetSettings(Frozen):
    """The label column."""

    column: str
    """Name of the label column."""
    favourable: int | str
    """The raw value that a person hopes for (class 1 inside)."""


class SplitSettings(Frozen):
    """How rows are divided. Train includes the validation rows that choices are made on."""

    train: Annotated[int, Field(ge=2)]
    """Rows in the train split; the others are the test split."""
    validation: Annotated[float, Field(gt=0.0, lt=1.0)]
    """Share of the train rows set aside for validation: no fit ever sees them."""


class DataSettings(Named, TableFile):
    """A table: where it comes from, its columns, its label, its split."""

    loader: str
    """Module with ``load(data_dir) -> Table``, or a text file (CSV and the like) or parquet."""
    target: TargetSettings
    features: Annotated[dict[str, FeatureSettings], Field(min_length=1)]
    protected: list[str]
    """Features whose groups are reported apart."""
    split: SplitSettings
    fit: FitSettings
    actions: str
    """The action preset used unless --actions names another."""
    missing: Literal["refuse", "drop", "impute"] = "refuse"
    """Rows with missing values: refused, dropped, or filled with the train rows' median (numbers)
    and most frequent category."""
    unseen: Literal["refuse", "ignore"] = "refuse"
    """Categories that no train row has: refused, or encoded as none of the known (all zero)."""

    @model_validator(mode="after")
    def _names_exist(self) -> "DataSettings":
        unknown = [name for name in self.protected if name not in self.features]
        if unknown:
            raise ValueError(f"protected feature {unknown[0]!r} is not one of the features")
        if self.target.column in self.features:
            raise ValueError(f"the target {self.target.column!r} is also listed as a feature")
        return self

    @model_validator(mode="after")
    def _file_is_ones_own(self) -> "DataSettings":
        fields = TableFile.model_fields
        for name in TableFile.LATER:
            if getattr(self, name) == fields[name].default:
                continue
            of_text = name in ("encoding", "separator")
            if not self.loader.lower().endswith(TEXT_FILES if of_text else TABLE_FILES):
                kind = "a text file" if of_text else "a file"
                raise ValueError(f"{name!r} is for {kind} of one's own, and {self.loader} is none")
        return self


class QuantizationSettings(Frozen):
    """What is quantized, the same for every method in a table."""

    candidates: Annotated[list[Bits], Field(min_length=1)]
    """Weight bit-widths that an allocator may choose from, ascending (paper: 2, 3, 4, 8)."""
    activation_bits: Bits | Literal["tied"]
    """Bits of hidden activations; tied: the bits of the weights that they meet (paper's r*)."""
    input_blocks: bool
    """Split the first layer into a numeric and a one-hot block with steps and bits of their own."""
    per_channel: bool
    """One weight step per output unit instead of one per layer."""
    layers: Literal["all", "first_last_8"]
    """all: every layer has the candidates; first_last_8: the first and the last layer have 8 bits,
    which count in the budget, and the others share what is left."""

    @model_validator(mode="after")
    def _ascending(self) -> "QuantizationSettings":
        if sorted(set(self.candidates)) != self.candidates:
            raise ValueError(f"candidates must ascend without repeats, got {self.candidates}")
        return self


class BudgetSettings(Frozen):
    """How many bits the weights may take, and who divides them among the layers."""

    avg_bits: Annotated[float, Field(ge=2.0, le=8.0)]
    """Average weight bits allowed: sum n_l b_l / sum n_l."""
    allocator: str
    """A name of ``conf/allocator``; auto: uniform where the budget is a candidate for all layers,
    else the method's own `mixed_allocator`."""
    bits: list[Bits] | None
    """allocator=fixed: bits per layer (per block where the first layer is split)."""


class PolicySettings(Frozen):
    """The Gumbel-Softmax bit policy (Section 4.3), used by allocator=gumbel."""

    lr: Positive
    """Adam learning rate of the bit logits."""
    initial_logit: NonNegative
    """Logits start as a ramp from 0 at the fewest bits to this at the most."""
    warmup: Fraction
    """Share of the search without policy updates, while steps and thresholds settle."""
    tau_start: Positive
    tau_end: Positive
    """Gumbel temperature at the start and at the end of the search."""
    search: Annotated[float, Field(gt=0.0, lt=1.0)]
    """Share of the optimizer steps spent on the search; the rest is the fine-tuning tail."""
    bit_cost: NonNegative
    """lambda: weight of (E[b] / avg_bits - 1)^2, two-sided so that the budget is also used up."""
    slack: Fraction
    """Discretise among allocations whose cost is within this share of the largest feasible."""
    tail: Literal["restart", "continue"]
    """restart: the tail starts from the teacher at the chosen bits; continue: from the search."""


class TrainingSettings(Frozen):
    """The optimizer of every method that trains (after the teacher)."""

    lr: Positive
    """Adam learning rate of weights and biases, cosine to 0."""
    quantizer_lr: Positive
    """Adam learning rate of log steps and log thresholds, cosine to 0."""
    threshold_l2: NonNegative
    """L2 on PACT's clipping thresholds, on alpha itself."""
    log_every: Annotated[int, Field(ge=1)]
    """Optimizer steps between two history rows."""


class EvaluationSettings(Frozen):
    """How recourse is measured, the same for every method."""

    split: Literal["test", "validation"]
    """The rows that are evaluated: validation rows for choices, test rows for results."""
    kappa: NonNegative
    """Margin, in logits, that an evaluation action must reach on f and on f_q."""
    extra_kappas: list[NonNegative]
    """Further margins at which VD and its adverse twin are reported."""
    max_rows: Annotated[int, Field(ge=1)] | None
    """Test rows solved per direction (a seeded sample); null: all."""
    exact_rows: Annotated[int, Field(ge=0)]
    """Rows on which the solver's gap to the exact optimum is taken, where one is known."""
    cost_epsilon: Positive
    """Added to the cost on f when a relative gap is taken."""
    certificates: bool
    """Prove what can be proved about the teacher's actions: the ``certificate/`` metrics."""
    certificate_lsb: NonNegative
    """Steps by which a backend may be off at every hidden unit before its quantizer rounds."""
    certificate_radius: NonNegative
    """Half side of the box around an action, in standard deviations of the changed numbers."""
    variants: Annotated[int, Field(ge=0)]
    """Fresh deployment variants on which f_q's actions are tried (E.4); 0: none."""
    uncertainty: UncertaintySettings
    """How those variants differ from f_q."""
    margin_samples: Annotated[int, Field(ge=0)]
    """Points around each action at which f_q is compared with f, beside the action itself (L.4)."""
    margin_radius: NonNegative
    """Radius of the ball that they are drawn from, in standard deviations of numbers."""
    group_min_rows: Annotated[int, Field(ge=1)]
    """Fewest rows behind a group's metric for it to count as the worst or in a gap."""
    shift: Shift
    """Another distribution of test rows (Table 26): noise on numbers that may change, one
    protected group more frequent, or unfavourable labels more frequent."""
    shift_noise: NonNegative
    """shift=noise: standard deviation, in standard deviations of the train rows."""
    shift_odds: Positive
    """shift=reweight or imbalance: factor on the odds of the group or the label."""
    shift_attribute: str | None
    """shift=reweight: protected attribute whose rarest group gains; null: the first."""


class Settings(Frozen):
    """Everything that decides a run's result. Its canonical JSON names the run."""

    seed: Annotated[int, Field(ge=0)]
    """Split, initialization, batch order and noise derive from it."""
    data: DataSettings | ImageSettings
    actions: ActionSettings | LatentSettings | SemanticSettings
    backbone: SerializeAsAny[BackboneSettings]
    teacher: SerializeAsAny[TeacherSettings]
    method: SerializeAsAny[MethodSettings]
    allocator: SerializeAsAny[AllocatorSettings]
    solver: SerializeAsAny[SolverSettings]
    quantization: QuantizationSettings
    budget: BudgetSettings
    policy: PolicySettings
    training: TrainingSettings
    evaluation: EvaluationSettings

    def table(self) -> tuple[DataSettings, ActionSettings]:
        """The data and the action set of a run on a table.

        Raises:
            UserError: the run is on images.
        """
        if isinstance(self.data, DataSettings) and isinstance(self.actions, ActionSettings):
            return self.data, self.actions
        raise UserError(f"{self.data.name} holds images: this works on tables alone")

    @model_validator(mode="after")
    def _parts_fit(self) -> "Settings":
        self._actions_fit_data()
        self._shift_fits_data()
        if isinstance(self.data, ImageSettings):
            self._options_fit_images()
        candidates = self.quantization.candidates
        budget = self.budget
        if budget.avg_bits < candidates[0]:
            raise ValueError(
                f"budget.avg_bits {budget.avg_bits:g} is below the fewest candidate bits "
                f"{candidates[0]}: raise it, or add to quantization.candidates"
            )
        whole = self.quantization.layers == "all"
        if budget.allocator == "uniform" and whole and budget.avg_bits not in candidates:
            raise ValueError(
                f"budget.allocator=uniform needs budget.avg_bits to be one of {candidates}, "
                f"got {budget.avg_bits:g}"
            )
        if (budget.allocator == "fixed") != (budget.bits is not None):
            raise ValueError("budget.bits goes with budget.allocator=fixed: give both or neither")
        return self

    def _actions_fit_data(self) -> None:
        data, actions = self.data, self.actions
        if isinstance(data, DataSettings) and isinstance(actions, ActionSettings):
            self._action_set_fits_table(data, actions)
        elif isinstance(data, DataSettings) or isinstance(actions, ActionSettings):
            what, other = ("tables", "images")
            if isinstance(data, ImageSettings):
                what, other = other, what
            raise ValueError(
                f"data {data.name!r} are {what} and actions {actions.name!r} are for {other}"
            )
        if isinstance(actions, SemanticSettings):
            for name in data.protected:
                if name not in actions.fixed:
                    raise ValueError(
                        f"{name!r} is protected and an edit may change it: name it in "
                        "actions.fixed, and not in actions.attributes"
                    )

    def _action_set_fits_table(self, data: DataSettings, actions: ActionSettings) -> None:
        for name in actions.features:
            if name not in data.features:
                raise ValueError(
                    f"actions {actions.name!r} name feature {name!r}, which data "
                    f"{data.name!r} does not have"
                )
        for name in data.features:
            if name not in actions.features:
                raise ValueError(
                    f"actions {actions.name!r} do not say what may be done to feature {name!r}"
                )
        for name, action in actions.features.items():
            self._action_fits_kind(name, action, data.features[name].kind)
        if all(action.kind == "immutable" for action in actions.features.values()):
            raise ValueError(f"actions {actions.name!r} leave nothing to change")

    def _action_fits_kind(self, name: str, action: FeatureAction, kind: FeatureKind) -> None:
        where = f"actions {self.actions.name!r}: feature {name!r} is {kind}"
        if action.step is not None and kind not in ("numeric", "integer"):
            raise ValueError(f"{where} and takes no step: steps are for numeric and integer ones")
        if kind == "integer" and action.step is not None and action.step % 1.0 != 0.0:
            raise ValueError(f"{where}, so its step must be a whole number, got {action.step:g}")
        bounds = (action.low, action.high, action.low_percentile, action.high_percentile)
        if kind == "categorical" and any(bound is not None for bound in bounds):
            raise ValueError(f"{where} and has no order, so it takes no bounds")

    def _shift_fits_data(self) -> None:
        named, protected = self.evaluation.shift_attribute, self.data.protected
        if named is not None and named not in protected:
            raise ValueError(
                f"evaluation.shift_attribute {named!r} is not one of the protected features of "
                f"data {self.data.name!r}: {', '.join(protected) or 'none'}"
            )
        if self.evaluation.shift == "reweight" and not protected:
            raise ValueError(
                f"evaluation.shift=reweight needs a protected feature; data {self.data.name!r} "
                "has none: name one in data.protected"
            )

    def _options_fit_images(self) -> None:
        for name, asked in (
            ("evaluation.certificates", self.evaluation.certificates),
            ("quantization.input_blocks", self.quantization.input_blocks),
        ):
            if asked:
                raise ValueError(f"{name}=true is for tables: leave it out for images")
        if self.evaluation.shift == "noise":
            raise ValueError("evaluation.shift=noise is for tables: pixels have no such noise")
