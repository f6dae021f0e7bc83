"""Numbers as people read them: the same digits in every table."""

from collections.abc import Sequence
from typing import Literal

from cfq_bench.evaluation.keys import metric_info
from cfq_bench.statistics.summary import mean_and_sd

Form = Literal["rate", "signed", "bits", "seconds", "count"]
MISSING = "-"
_FORMATS: dict[Form, str] = {
    "rate": ".3f",
    "signed": "+.3f",
    "bits": ".2f",
    "seconds": ".2f",
    "count": ",.0f",
}
_SIGNED = (
    "recourse/crg",
    "recourse/crg_median",
    "recourse/crg_all",
    "task/favourable_drift",
    "group/crg_worst",
)


def form_of(metric: str) -> Form:
    """How a metric is written.

    >>> form_of("recourse/crg@0.25"), form_of("time/fit_s"), form_of("recourse/vd")
    ('signed', 'seconds', 'rate')
    """
    if metric.startswith("time/"):
        return "seconds"
    if metric == "deploy/bops":
        return "count"
    if metric == "deploy/avg_bits":
        return "bits"
    return "signed" if metric.split("@")[0] in _SIGNED else "rate"


def written(value: float, form: Form) -> str:
    """A number: three decimals, two for bits and seconds, a sign where the sign matters.

    What rounds to 0 has no sign.

    >>> written(0.0625, "rate"), written(-0.12, "signed"), written(3.375, "bits")
    ('0.062', '-0.120', '3.38')
    >>> written(-0.0001, "signed"), written(0.0, "signed"), written(-0.0001, "rate")
    ('0.000', '0.000', '0.000')
    """
    text = f"{value:{_FORMATS[form]}}"
    if not text.strip("+-0.,"):
        text = text.lstrip("+-")
    return f"{text} s" if form == "seconds" else text


def signed(value: float) -> str:
    """A difference.

    >>> signed(-0.12), signed(0.05)
    ('-0.120', '+0.050')
    """
    return written(value, "signed")


def format_metric(key: str, value: float | None) -> str:
    """A metric by its key; - if undefined.

    >>> format_metric("recourse/crg", 0.12), format_metric("recourse/vd", None)
    ('+0.120', '-')
    """
    return MISSING if value is None else written(value, form_of(key))


def spread_text(mean: float, sd: float | None, form: Form) -> str:
    """Mean ± standard deviation; the mean alone where there is none.

    >>> spread_text(-0.2, 0.1414, "signed"), spread_text(3.5, None, "bits")
    ('-0.200 ± 0.141', '3.50')
    """
    text = written(mean, form)
    return text if sd is None else f"{text} ± {written(sd, 'rate' if form == 'signed' else form)}"


def spread_of(values: Sequence[float | None], form: Form, expected: int) -> str:
    """Mean ± standard deviation of values, and how many there are where some are missing.

    Args:
        values: None where undefined.
        form: how they are written.
        expected: how many there should be.

    >>> spread_of([0.1, 0.3, None], "rate", 3), spread_of([], "rate", 0)
    ('0.200 ± 0.141 (2)', '-')
    """
    known = [value for value in values if value is not None]
    if not known:
        return MISSING
    count = f" ({len(known)})" if len(known) < expected else ""
    return spread_text(*mean_and_sd(known), form) + count


def label_of(metric: str) -> str:
    """A column's head: ``recourse/vd@0`` is VD at 0.

    >>> label_of("recourse/vd"), label_of("recourse/vd@0.25")
    ('VD', 'VD @ 0.25')
    """
    suffix = f" @ {metric.split('@')[1]}" if "@" in metric else ""
    return metric_info(metric).label + suffix
