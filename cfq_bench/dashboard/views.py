"""The page's tables: which numbers stand in which columns, and how each is written."""

from collections.abc import Iterable
from dataclasses import dataclass

from cfq_bench.aggregate.columns import Column, metric_column
from cfq_bench.aggregate.runs import GROUP_METRICS, Run
from cfq_bench.aggregate.tables import Wanted
from cfq_bench.evaluation.keys import METRICS
from cfq_bench.report.compare import COMPARISON

QUANTILES = {"0.05": "5 %", "0.25": "25 %", "0.5": "median", "0.75": "75 %", "0.95": "95 %"}
"""Levels of the margins that a record keeps."""
_GROUP_KEYS = {
    "acc": "task/acc",
    **{name: f"recourse/{name}" for name in GROUP_METRICS if name != "acc"},
}


@dataclass(frozen=True, kw_only=True)
class View(Wanted):
    """One section of tables, one table for each setting.

    Attributes:
        name: in addresses and ids.
        title: its heading.
        about: what to look for.
    """

    name: str
    title: str
    about: str


def views(runs: Iterable[Run]) -> list[View]:
    """The page's views; layers are those that the runs have."""
    layers = sorted({key for run in runs for key in run.values if key.startswith("bits:")})
    return [
        View(
            COMPARISON.columns,
            whole=COMPARISON.whole,
            paired=COMPARISON.paired,
            name="comparison",
            title="Methods",
            about="Mean ± standard deviation over the seeds that the rows of a table are compared "
            "on. An arrow says which direction is better; the best of the rows at these seeds and "
            "bits is bold. VD falls for free when a model becomes lenient: read it with VD adverse "
            "and drift.",
        ),
        View(
            (*map(_layer, layers), metric_column("deploy/avg_bits")),
            name="bits",
            title="Bits per layer",
            about="Weight bits of each layer, mean ± standard deviation over seeds.",
        ),
        View(
            tuple(
                Column(f"margin_q:{level}", name, f"f_q's margin, {name} over actions", "signed")
                for level, name in QUANTILES.items()
            )
            + _keys("margin/"),
            name="margins",
            title="Margins at recourse points",
            about="Logits by which f_q keeps the teacher's actions, by quantile (below 0 an action "
            "breaks), and how far logits moved there.",
        ),
        View(
            tuple(metric_column(_GROUP_KEYS[name], name) for name in GROUP_METRICS),
            by_group=True,
            name="groups",
            title="Protected groups",
            about="The same metrics for each group. The worst of several groups is above their "
            "mean even where all are alike.",
        ),
        View(
            _keys("group/"),
            name="gaps",
            title="Worst groups and gaps",
            about="Over the groups with enough rows.",
        ),
    ]


def value_keys(shown: Iterable[View]) -> list[str]:
    """The keys of `Run.values` that the views show."""
    keys = (column.key for view in shown if not view.by_group for column in view.columns)
    return list(dict.fromkeys(keys))


def _layer(key: str) -> Column:
    name = key.removeprefix("bits:")
    return Column(key, name, f"weight bits of {name}", "bits")


def _keys(prefix: str) -> tuple[Column, ...]:
    return tuple(metric_column(key) for key in METRICS if key.startswith(prefix))
