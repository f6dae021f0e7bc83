"""What the browser gets: the runs as compact JSON, from which its script draws and filters."""

import json
from dataclasses import asdict
from typing import Any

from cfq_bench.aggregate.columns import metric_column
from cfq_bench.aggregate.labels import Labels
from cfq_bench.aggregate.rows import BITS, FULL_PRECISION_BITS, NEAR, PAIRED, winnable
from cfq_bench.aggregate.runs import GROUP_METRICS, Run
from cfq_bench.aggregate.tables import PAIRED_ABOUT, PAIRED_LABEL
from cfq_bench.dashboard.index import Snapshot
from cfq_bench.dashboard.views import View, value_keys

CHART_METRICS = (
    "recourse/boundary_error",
    "recourse/vd",
    "recourse/vd_adverse",
    "recourse/crg_abs",
    "recourse/crg",
    "recourse/lost",
    "task/favourable_drift",
    "task/acc",
)
"""What the charts may show; the first one is shown first."""


def payload(snapshot: Snapshot, labels: Labels, shown: list[View]) -> dict[str, Any]:
    """The data of the page.

    Words that many runs share are listed once; a run names them by their place in the list.
    """
    keys = list(dict.fromkeys([*value_keys(shown), *CHART_METRICS]))
    place = {
        name: {key: i for i, key in enumerate(table)}
        for name, table in (
            ("table", labels.tables),
            ("curve", labels.curves),
        )
    }
    row_place = {text: i for i, text in enumerate(labels.order)}
    return {
        "version": snapshot.version,
        "keys": keys,
        "groupKeys": GROUP_METRICS,
        "views": [_view(view) for view in shown],
        "metrics": [asdict(metric_column(key)) for key in CHART_METRICS],
        "paired": {"key": PAIRED, "label": PAIRED_LABEL, "about": PAIRED_ABOUT},
        "bits": {"key": BITS, "full": FULL_PRECISION_BITS, "near": NEAR},
        "tables": list(labels.tables.values()),
        "baselines": [labels.baselines[key] for key in labels.tables],
        "curves": list(labels.curves.values()),
        "rows": labels.order,
        "problems": snapshot.problems,
        "runs": [
            {**_run(run, keys, place), "row": row_place[labels.row(run)]} for run in snapshot.runs
        ],
    }


def _view(view: View) -> dict[str, Any]:
    """A view, and of every column whether its best value is marked."""
    content = asdict(view)
    for column in content["columns"]:
        column["marked"] = not view.by_group and winnable(column["key"])
    return content


def _run(run: Run, keys: list[str], place: dict[str, dict[str, int]]) -> dict[str, Any]:
    return {
        "id": run.run_id,
        "status": run.status,
        "data": run.data,
        "method": run.method,
        "budget": run.budget,
        "seed": run.seed,
        "table": place["table"][run.table],
        "curve": place["curve"][run.curve],
        "values": [run.values.get(key) for key in keys],
        "groups": [[line.attribute, line.group, *line.values] for line in run.groups],
    }


def as_json(data: object) -> str:
    """JSON that may stand in a script element: nothing in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
