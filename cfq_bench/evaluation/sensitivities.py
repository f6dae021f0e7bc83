"""Which layers answers depend on: at people as they are, and where recourse leads (Figure 13)."""

from cfq_bench.actions.space import ActionSpace
from cfq_bench.backbones.base import Backbone
from cfq_bench.config.settings import QuantizationSettings
from cfq_bench.data.dataset import Dataset
from cfq_bench.evaluation.teacher_recourse import Direction
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.quantization.sensitivity import gradient_sensitivity

ROWS = 512
"""People that a mean is taken over, at most; its spread is far below differences of layers."""


def layer_sensitivities(
    teacher: Backbone,
    settings: QuantizationSettings,
    data: Dataset,
    space: ActionSpace,
    direction: Direction,
    kappa: float,
) -> list[dict[str, object]]:
    """Sensitivity of every unit of the teacher, as CF-PTQ scores them.

    Args:
        teacher: the full-precision network.
        settings: where its layers are split into units.
        data: the evaluated split: inputs and labels are the factual points.
        space: the action space.
        direction: the teacher's actions, which lead to the counterfactual points.
        kappa: their margin.

    Returns:
        A line per unit: its name (`layer`), `factual` and `counterfactual`, both non-negative; None
        where there is no such point.
    """
    x, y = data.test.inputs(slice(ROWS)), data.test.y[:ROWS]
    # `gradient_sensitivity` runs without quantizers: their kind does not matter.
    network = QuantizedNetwork(teacher, settings, "lsq", data.n_single, x)
    solution = direction.solutions[kappa]
    found = solution.found.nonzero()[:ROWS, 0]
    factual = gradient_sensitivity(network, x, y)
    counterfactual: list[float] | list[None] = [None] * len(factual)
    if len(found):
        points = space.to_input(solution.point[found])
        counterfactual = gradient_sensitivity(network, points, direction.target[found])
    return [
        {"layer": unit.name, "factual": at_x, "counterfactual": at_point}
        for unit, at_x, at_point in zip(network.units, factual, counterfactual, strict=True)
    ]
