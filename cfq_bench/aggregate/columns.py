"""Columns of numbers: which metric, how it is called and written, which direction is better."""

from dataclasses import dataclass

from cfq_bench.aggregate.numbers import Form, form_of
from cfq_bench.evaluation.keys import metric_info

COMPARED = (
    "task/acc",
    "task/favourable_drift",
    "recourse/vd",
    "recourse/vd_adverse",
    "recourse/boundary_error",
    "recourse/crg",
    "recourse/crg_abs",
    "recourse/lost",
    "deploy/avg_bits",
)
"""What every comparison shows: VD never stands alone."""


@dataclass(frozen=True)
class Column:
    """One column of numbers.

    Attributes:
        key: in the values of a run, or in those of a group.
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


def metric_column(key: str, key_of_values: str | None = None) -> Column:
    """The column of a metric of the record.

    >>> metric_column("recourse/vd").arrow
    '↓'
    """
    info = metric_info(key)
    return Column(key_of_values or key, info.label, info.about, form_of(key), info.higher_is_better)
