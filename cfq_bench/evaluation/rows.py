"""Per-row results: what subgroup tables, plots, intervals and drill-down are made from."""

import pandas as pd
import torch

from cfq_bench.actions.outcome import Model, Solution, Status, target_margin
from cfq_bench.actions.space import ActionSpace
from cfq_bench.data.dataset import Dataset
from cfq_bench.evaluation.teacher_recourse import Direction


@torch.no_grad()
def row_table(
    direction: Direction,
    on_q: Solution | None,
    f_q: Model,
    predicted_q: torch.Tensor,
    space: ActionSpace,
    data: Dataset,
    kappa: float,
) -> pd.DataFrame:
    """One line for each test row of a direction.

    Columns: `row_id`, `direction`, `label`, `predicted_q`, then on the teacher's action `status_f`,
    `cost_f`, `margin_f`, `margin_q` (f_q's margin there), `valid_q`, `changed_f` (names,
    comma-separated); on the quantized model's own action `status_q`, `cost_q`, `changed_q` (empty
    where it is not solved); and one `group_...` column per protected attribute.
    """
    on_f = direction.solutions[kappa]
    rows = direction.rows.cpu()
    found = on_f.found.cpu()
    margin_q = target_margin(f_q(space.to_input(on_f.point)), direction.target).cpu()
    table = pd.DataFrame(
        {
            "row_id": data.test.row_ids[rows.numpy()],
            "direction": direction.name,
            "label": data.test.y.cpu()[rows].numpy(),
            "predicted_q": predicted_q.cpu()[rows].numpy(),
            "status_f": _status(on_f),
            "cost_f": on_f.cost.cpu().numpy(),
            "margin_f": on_f.margin.cpu().numpy(),
            "margin_q": margin_q.numpy(),
            "valid_q": pd.array((margin_q > 0).numpy(), dtype="boolean"),
            "changed_f": _changed(space, direction, on_f),
        }
    )
    # Without an action on the teacher there is nothing that could fail on f_q.
    table.loc[~found.numpy(), ["valid_q", "margin_q"]] = None
    if on_q is None:
        table = table.assign(status_q=None, cost_q=float("nan"), changed_q="")
    else:
        table = table.assign(
            status_q=_status(on_q),
            cost_q=on_q.cost.cpu().numpy(),
            changed_q=_changed(space, direction, on_q),
        )
    for name in data.test_groups.columns:
        table[f"group_{name}"] = data.test_groups[name].to_numpy()[rows.numpy()]
    return table


def _status(solution: Solution) -> list[str]:
    return [Status(code).name.lower() for code in solution.status.tolist()]


def _changed(space: ActionSpace, direction: Direction, solution: Solution) -> list[str]:
    changed = space.changed(space.origin(direction.x), solution.point).cpu()
    return [
        ",".join(n for n, c in zip(space.names, row, strict=True) if c) for row in changed.tolist()
    ]
