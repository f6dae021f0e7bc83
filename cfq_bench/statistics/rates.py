"""Rates that are 0 or 1 in a sample: how large, or how small, they may be all the same."""

from collections.abc import Mapping

_SHARES = (
    "task/acc",
    "task/agreement",
    "recourse/frr",
    "recourse/vd",
    "recourse/vd_adverse",
    "recourse/lost",
    "recourse/free",
    "certificate/backend",
    "certificate/box_verified",
    "certificate/box_refuted",
    "certificate/box_undecided",
    "certificate/teacher",
    "certificate/teacher_any",
    "certificate/l3",
    "robust/nominal_success",
    "robust/worst_success",
    "margin/safe_fraction",
    "margin/failure_outside",
    "margin/safe_fraction_q95",
    "margin/failure_inside_q95",
    "margin/failure_outside_q95",
)
"""Metrics that are a number of rows over a number of rows."""
_ERROR, _HALVES = "recourse/boundary_error", ("recourse/vd", "recourse/vd_adverse")


def certain_bounds(
    metric: str, value: float | None, counts: Mapping[str, int]
) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a share that is 0 of n, or n of n; None for any other value.

    No failure among a few people does not say that there is none: a spread over seeds, or rows, of
    equal zeros would claim that. The boundary error is the mean of two shares.

    Args:
        metric: its key.
        value: of the metric.
        counts: rows behind each metric.

    >>> low, high = certain_bounds("recourse/vd", 0.0, {"recourse/vd": 61})
    >>> low, round(high, 3)
    (0.0, 0.059)
    >>> certain_bounds("recourse/vd", 0.5, {"recourse/vd": 61}) is None
    True
    """
    # Not every command needs NumPy, which this imports.
    from cfq_bench.evaluation.intervals import mean_of_rates, wilson

    base, _, kappa = metric.partition("@")
    parts = _HALVES if base == _ERROR else (base,) if base in _SHARES else ()
    sizes = [counts.get(f"{part}@{kappa}" if kappa else part, 0) for part in parts]
    if value not in (0.0, 1.0) or not sizes or not all(sizes):
        return None
    rate = int(value)
    own = [wilson(rate * size, size) for size in sizes]
    return own[0] if len(own) == 1 else mean_of_rates((rate, rate), (own[0], own[1]))
