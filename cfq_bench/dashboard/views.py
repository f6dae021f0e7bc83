"""The page's tables: which numbers stand in which columns, and how each is written."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cfq_bench.dashboard.summary import GROUP_METRICS, Run
from cfq_bench.evaluation.keys import METRICS, metric_info
from cfq_bench.report.compare import COLUMNS

Form = Literal["rate", "signed", "bits"]
_SIGNED = ("recourse/crg", "task/favourable_drift", "group/crg_worst")
PAIRED = "recourse/boundary_error"
BASELINE = "lsq"
"""The last column of the comparison: differences of `PAIRED` to this method's usual row."""
QUANTILES = {"0.05": "5 %", "0.25": "25 %", "0.5": "median", "0.75": "75 %", "0.95": "95 %"}
"""Levels of the margins that a record keeps."""
_GROUP_KEYS = {
    "acc": "task/acc",
    **{name: f"recourse/{name}" for name in GROUP_METRICS if name != "acc"},
}


@dataclass(frozen=True)
class Column:
    """One column of numbers.

    Attributes:
        key: in `Run.values`, or in the values of a group.
        label: its head.
        about: what it means, in a sentence.
        form: how a number is written.
        better: whether higher is better; None where neither direction is.
    """

    key: str
    label: str
    about: str
    form: Form = "rate"
    better: bool | None = None

    @property
    def arrow(self) -> str:
        """The direction that is better."""
        return {True: "↑", False: "↓", None: ""}[self.better]


@dataclass(frozen=True)
class View:
    """One section of tables, one table for each setting.

    Attributes:
        name: in addresses and ids.
        title: its heading.
        about: what to look for.
        columns: in order; those that no run of a table has are left out, unless `whole`.
        whole: keep all columns.
        by_group: one row for each protected group of each method.
        paired: add the paired difference to the baseline.
    """

    name: str
    title: str
    about: str
    columns: tuple[Column, ...]
    whole: bool = False
    by_group: bool = False
    paired: bool = False


def metric_column(key: str, key_of_values: str | None = None) -> Column:
    """The column of a metric of the record.

    >>> metric_column("recourse/vd").arrow
    '↓'
    """
    info = metric_info(key)
    form: Form = "signed" if key in _SIGNED else "rate"
    if key == "deploy/avg_bits":
        form = "bits"
    return Column(key_of_values or key, info.label, info.about, form, info.higher_is_better)


def views(runs: Iterable[Run]) -> list[View]:
    """The page's views; layers are those that the runs have."""
    layers = sorted({key for run in runs for key in run.values if key.startswith("bits:")})
    return [
        View(
            "comparison",
            "Methods",
            "Mean ± standard deviation over seeds. An arrow says which direction is better. VD "
            "falls for free when a model becomes lenient: read it with VD adverse and drift.",
            tuple(metric_column(key) for key in COLUMNS),
            whole=True,
            paired=True,
        ),
        View(
            "bits",
            "Bits per layer",
            "Weight bits of each layer, mean ± standard deviation over seeds.",
            (*map(_layer, layers), metric_column("deploy/avg_bits")),
        ),
        View(
            "margins",
            "Margins at recourse points",
            "Logits by which f_q keeps the teacher's actions, by quantile (below 0 an action "
            "breaks), and how far logits moved there.",
            tuple(
                Column(f"margin_q:{level}", name, f"f_q's margin, {name} over actions", "signed")
                for level, name in QUANTILES.items()
            )
            + _keys("margin/"),
        ),
        View(
            "groups",
            "Protected groups",
            "The same metrics for each group. The worst of several groups is above their mean even "
            "where all are alike.",
            tuple(metric_column(_GROUP_KEYS[name], name) for name in GROUP_METRICS),
            by_group=True,
        ),
        View("gaps", "Worst groups and gaps", "Over the groups with enough rows.", _keys("group/")),
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
