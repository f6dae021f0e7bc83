"""Post-training quantization: the teacher's weights on a grid, nothing trained.

`conf/method/ptq.yaml` has uniform bits where the budget is a candidate. `mixed_ptq.yaml` divides
every budget by sensitivity at train rows. `cf_ptq.yaml` is the paper's CF-PTQ (Tables 14 to 17): it
looks at the teacher's recourse points as well. Its two switches, the cells of Table 16:

    method.points           X_cal (factual), or U_cal = X_cal + {x + delta_fp(x)} (augmented)
    method.mixed_allocator  sensitivity, or cf_sensitivity

The paper takes the teacher's K-step actions; here delta_fp are the minimal-cost ones of the
recourse pool, which every method shares. h_l, whose error its calibration minimises, is read as the
output of layer l before its activation, on inputs of the float network: phi_l is then found for
each layer by itself, as its formula has it.
"""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from cfq_bench.config.base import NonNegative
from cfq_bench.config.qat import QuantizedSettings
from cfq_bench.methods.base import Context, NotApplicableError, Phase
from cfq_bench.methods.quantized import QuantizedMethod
from cfq_bench.quantization.calibration import Calibration, calibrate
from cfq_bench.quantization.sampling import spread_images


class Config(QuantizedSettings):
    """Settings of PTQ."""

    rule: Literal["minmax", "percentile", "mse", "output"]
    """How steps are found: the whole range, all but the tails, least squared error of weights and
    activations, or least squared error of each layer's output (the paper's CF-PTQ)."""
    percentile: Annotated[float, Field(gt=0.5, le=1.0)]
    """rule=percentile: share of the values on either side that is not clipped."""
    points: Literal["factual", "augmented"]
    """Calibration rows: train rows, or these and the teacher's recourse points."""
    pool_size: Annotated[int, Field(ge=1)]
    """points=augmented: train rows whose recourse is solved."""
    pool_kappas: Annotated[list[NonNegative], Field(min_length=1)]
    """points=augmented: margins of their actions, dealt out to the rows in turn."""
    always_mixed: bool
    """`mixed_allocator` also divides budgets that uniform bits would spend."""

    def auto_allocator(self, uniform: bool) -> str:
        """Uniform bits where they spend the budget, unless the method always divides it."""
        return "uniform" if uniform and not self.always_mixed else self.mixed_allocator


class PTQ(QuantizedMethod):
    """Calibrates steps and thresholds, then chooses bits; the weights stay the teacher's."""

    config: Config

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        if self.allocator.learns:
            name = context.settings.allocator.name
            raise NotApplicableError(f"{name} learns its bits in training, and PTQ does not train")

    def phases(self) -> list[Phase]:
        """Nothing to train."""
        return []

    def prepare(self) -> None:
        """Calibrate, then choose bits at the calibrated steps."""
        calibrate(
            self.network, self._points(), Calibration(self.config.rule, self.config.percentile)
        )
        self.network.select_bits(self.choose_bits())

    def _points(self) -> Tensor:
        config, factual = self.config, self.calibration_rows()
        if config.points == "factual":
            return factual
        pool = self.context.recourse_pool("opposite", config.pool_size, config.pool_kappas)
        return torch.cat([factual, spread_images(pool.inputs)])
