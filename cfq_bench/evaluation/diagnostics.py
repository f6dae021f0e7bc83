"""What a record says beyond its headline: margins, protected groups, sensitivities of layers."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from cfq_bench.actions.outcome import Model
from cfq_bench.actions.solver import in_blocks
from cfq_bench.actions.space import ActionSpace
from cfq_bench.backbones.base import Backbone
from cfq_bench.config.settings import Settings
from cfq_bench.data.dataset import Dataset
from cfq_bench.evaluation.groups import as_lines, group_metrics, group_values
from cfq_bench.evaluation.margins import margin_metrics, margin_quantiles, margins_at_actions
from cfq_bench.evaluation.sensitivities import layer_sensitivities
from cfq_bench.evaluation.teacher_recourse import Direction
from cfq_bench.seeds import derive_seed


@dataclass(frozen=True)
class Diagnostics:
    """What they add to a record.

    Attributes:
        metrics: the ``margin/`` and ``group/`` keys; NaN where undefined.
        counts: rows behind each.
        details: ``margins``, quantiles; ``groups``, every metric of every group;
            ``sensitivities``, of every layer of the teacher.
        rows: the per-row results with a column `eps_hat`.
    """

    metrics: dict[str, float]
    counts: dict[str, int]
    details: dict[str, Any]
    rows: pd.DataFrame


def diagnose(
    settings: Settings,
    f_q: Model,
    teacher: Backbone,
    data: Dataset,
    space: ActionSpace,
    directions: list[Direction],
    rows: pd.DataFrame,
) -> Diagnostics:
    """Margins and groups of one evaluation.

    Args:
        settings: of the run.
        f_q: the quantized model.
        teacher: the full-precision model.
        data: the splits that were evaluated.
        space: the action space.
        directions: the teacher's actions, favourable first.
        rows: the evaluation's per-row results, in the order of `directions`.
    """
    evaluation = settings.evaluation
    margins = [
        margins_at_actions(
            teacher,
            f_q,
            space,
            direction,
            evaluation.kappa,
            samples=evaluation.margin_samples,
            radius=evaluation.margin_radius,
            seed=derive_seed(settings.seed, "margins", direction.name),
        )
        for direction in directions
    ]
    with torch.no_grad():
        predicted = torch.cat([in_blocks(f_q)(x).argmax(1) for x in data.test.blocks()])
    correct = predicted == data.test.y
    values = group_values(
        rows,
        correct.cpu().numpy(),
        data.test_groups,
        cost_epsilon=evaluation.cost_epsilon,
        seed=settings.seed,
    )
    metrics, counts = margin_metrics(margins[0])
    sensitivities = layer_sensitivities(
        teacher, settings.quantization, data, space, directions[0], evaluation.kappa
    )
    of_groups = group_metrics(values, evaluation.group_min_rows)
    eps_hat = torch.cat([margin.eps_hat for margin in margins])
    return Diagnostics(
        metrics | of_groups[0],
        counts | of_groups[1],
        {
            "margins": margin_quantiles(margins[0]),
            "groups": as_lines(values),
            "sensitivities": sensitivities,
        },
        rows.assign(eps_hat=eps_hat.cpu().numpy()),
    )
