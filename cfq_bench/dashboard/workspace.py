"""The dashboard's views as a Weights & Biases workspace: the one place that builds it.

The builder needs no network and no account; saving does. What it builds is compared with a golden
file, because the library's format changes between minor versions, which is why it is pinned.
"""

import json
import os
from typing import TYPE_CHECKING, Any

from cfq_bench.aggregate.columns import COMPARED, metric_column
from cfq_bench.aggregate.rows import PAIRED
from cfq_bench.dashboard.payload import CHART_METRICS
from cfq_bench.errors import UserError
from cfq_bench.evaluation.keys import METRICS

if TYPE_CHECKING:
    from wandb_workspaces.workspaces import Section, Workspace

NAME = "cfq-bench"
_EXTRA = "pip install 'cfq-bench[wandb-workspace]'"
_GROUPS = ("method.name", "data.name", "budget.avg_bits")
"""Config keys that the runs are grouped by: what is left are the seeds."""
_AGAINST = ("task/acc", "task/favourable_drift", "deploy/avg_bits")
_SIZE = (8, 6)
"""Width and height of a panel; a workspace is 24 wide."""


def workspace(entity: str, project: str) -> "Workspace":
    """Build the workspace; nothing is sent.

    Args:
        entity: the W&B user or team.
        project: its project.

    Raises:
        UserError: the extra is not installed.
    """
    try:
        import wandb_workspaces.workspaces as ws
    except ImportError:
        raise UserError(f"wandb-workspaces is not installed: {_EXTRA}") from None
    return ws.Workspace(
        entity=entity,
        project=project,
        name=NAME,
        sections=[_comparison(), _curves(), _tradeoffs(), _diagnostics()],
        runset_settings=ws.RunsetSettings(
            groupby=[ws.Config(key) for key in _GROUPS],
            order=[ws.Ordering(ws.Summary(PAIRED), ascending=True)],
        ),
        auto_generate_panels=False,
    )


def as_json(built: "Workspace") -> str:
    """What would be sent, with the made-up ids left out: equal workspaces give equal text."""
    model = json.loads(built._to_model().model_dump_json(by_alias=True, exclude_none=True))
    return json.dumps(_without_ids(model), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def save(built: "Workspace") -> str:
    """Send the workspace to W&B.

    Returns:
        Its address.

    Raises:
        UserError: there is no key, or the server refused.
    """
    import wandb

    if not (os.environ.get("WANDB_API_KEY") or wandb.api.api_key):
        raise UserError("no W&B key: run `wandb login`, or see the workspace with --print")
    try:
        return str(built.save().url)
    except Exception as error:  # wandb's errors share no base class
        raise UserError(f"W&B did not take the workspace: {error}") from error


def _without_ids(value: Any) -> Any:
    """Drop what the library draws at random, so that the text can be compared."""
    if isinstance(value, dict):
        random = ("__id__", "id", "name") if "displayName" in value else ("__id__", "id")
        return {k: _without_ids(v) for k, v in value.items() if k not in random}
    return [_without_ids(item) for item in value] if isinstance(value, list) else value


def _section(name: str, panels: list[Any], *, is_open: bool = True) -> "Section":
    """Panels side by side, three in a line."""
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws

    width, height = _SIZE
    for i, panel in enumerate(panels):
        x, y = i % 3 * width, i // 3 * height
        panel.layout = wr.Layout(x=x, y=y, w=width, h=height)
    return ws.Section(name=name, panels=panels, is_open=is_open)


def _comparison() -> "Section":
    """One bar chart per column of the comparison: mean over seeds, with the standard deviation."""
    import wandb_workspaces.reports.v2 as wr

    panels = [
        wr.BarPlot(
            title=_title(key),
            metrics=[wr.SummaryMetric(key)],
            groupby=wr.Config("method.name"),
            groupby_aggfunc="mean",
            groupby_rangefunc="stddev",
        )
        for key in COMPARED
    ]
    return _section("Methods", panels)


def _curves() -> "Section":
    import wandb_workspaces.reports.v2 as wr

    panels = [
        wr.ScatterPlot(
            title=f"{_title(key)} against the budget",
            x=wr.Config("budget.avg_bits"),
            y=wr.SummaryMetric(key),
        )
        for key in CHART_METRICS
    ]
    return _section("Budget curves", panels)


def _tradeoffs() -> "Section":
    import wandb_workspaces.reports.v2 as wr

    panels = [
        wr.ScatterPlot(
            title=f"{_title(y)} against {metric_column(x).label}",
            x=wr.SummaryMetric(x),
            y=wr.SummaryMetric(y),
        )
        for y in (PAIRED, "recourse/vd")
        for x in _AGAINST
    ]
    return _section("Trade-offs", panels)


def _diagnostics() -> "Section":
    """Margins and protected groups, and single runs side by side."""
    import wandb_workspaces.reports.v2 as wr

    keys = [key for key in METRICS if key.startswith(("margin/", "group/"))]
    panels: list[Any] = [
        wr.BarPlot(
            title=_title(key), metrics=[wr.SummaryMetric(key)], groupby=wr.Config("method.name")
        )
        for key in keys
    ]
    return _section("Margins, groups and runs", [*panels, wr.RunComparer()], is_open=False)


def _title(key: str) -> str:
    column = metric_column(key)
    return f"{column.label} {column.arrow}".strip()
