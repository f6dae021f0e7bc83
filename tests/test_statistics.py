"""Intervals that cover what they claim, pairs at common seeds, exact tests."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from cfq_bench.statistics.bootstrap import (
    Interval,
    expanded_level,
    hierarchical_interval,
    percentile_interval,
    seed_interval,
)
from cfq_bench.statistics.paired import paired_difference, sign_test
from cfq_bench.statistics.rates import certain_bounds
from cfq_bench.statistics.seeds import compared_seeds, shared_seeds
from cfq_bench.statistics.summary import summarize
from tests.support.waiting import run_python

values = st.lists(st.floats(-10, 10), min_size=2, max_size=12)


def test_a_percentile_interval_is_scipys() -> None:
    data = np.random.default_rng(3).exponential(size=40)
    theirs = scipy.stats.bootstrap(
        (data,), np.mean, n_resamples=9999, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    ours = percentile_interval(data)
    width = theirs.high - theirs.low
    assert ours.mean == pytest.approx(data.mean())
    assert ours.low == pytest.approx(theirs.low, abs=0.03 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.03 * width)


def test_two_values_give_the_exact_percentile_interval() -> None:
    # Means of two draws from {0, 1}: 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4.
    assert percentile_interval([0.0, 1.0], 0.95) == Interval(0.5, 0.0, 1.0)
    assert percentile_interval([0.0, 1.0], 0.40) == Interval(0.5, 0.5, 0.5)


def test_the_level_is_raised_to_students_width() -> None:
    for n in (3, 5, 30):
        tail = (1 - expanded_level(0.95, n)) / 2
        normal = scipy.stats.norm.ppf(1 - tail) * math.sqrt((n - 1) / n)
        assert normal == pytest.approx(scipy.stats.t.ppf(0.975, n - 1))


@pytest.mark.parametrize(("n", "least"), [(2, 0.93), (5, 0.93), (10, 0.93)])
def test_seed_intervals_cover_the_mean(n: int, least: float) -> None:
    rng = np.random.default_rng(n)
    draws = rng.normal(1.0, 0.1, (600, n))
    found = [seed_interval(row) for row in draws]
    covered = np.mean([i is not None and i.low <= 1.0 <= i.high for i in found])
    assert covered >= least


def test_hierarchical_intervals_cover_a_rate_that_varies_between_seeds() -> None:
    rng = np.random.default_rng(8)
    covered = []
    for _ in range(200):
        rates = rng.beta(4, 16, size=5)  # mean 0.2
        parts = [[(rng.random(60) < rate).astype(float)] for rate in rates]
        found = hierarchical_interval(parts)
        assert found is not None
        covered.append(found.low <= 0.2 <= found.high)
    assert np.mean(covered) >= 0.92


def test_one_seed_says_nothing_of_others() -> None:
    assert hierarchical_interval([[np.array([0.0, 1.0, 1.0])]]) is None


@given(values)
@settings(max_examples=60, deadline=None)
def test_an_interval_is_at_least_students(data: list[float]) -> None:
    scale = max(float(scipy.stats.sem(data)), 1e-300)  # equal values have none
    ends = scipy.stats.t.interval(0.95, len(data) - 1, np.mean(data), scale)
    noise = 1e-9 * (1 + max(map(abs, data)))
    over_rows = hierarchical_interval([[np.array([value, value])] for value in data])
    for found in (seed_interval(data), over_rows):
        assert found is not None
        assert found.low <= ends[0] + noise
        assert found.high >= ends[1] - noise


def test_groups_of_a_seed_weigh_the_same_whatever_their_size() -> None:
    found = hierarchical_interval([[np.ones(10), np.zeros(1000)], [np.ones(3), np.zeros(7)]])
    assert found == Interval(0.5, 0.5, 0.5)


def test_groups_of_equal_size_are_drawn_apart() -> None:
    rows = np.tile([0.0, 1.0], 50)
    both = hierarchical_interval([[rows, 1.0 - rows], [rows, 1.0 - rows]])
    # Shared draws would cancel exactly and claim certainty.
    assert both is not None
    assert both.high - both.low > 0.1


def test_nothing_to_draw_from_gives_no_interval() -> None:
    assert hierarchical_interval([]) is None
    assert hierarchical_interval([[np.array([])]]) is None
    assert seed_interval([0.3]) is None


@given(values)
@settings(max_examples=60, deadline=None)
def test_an_interval_holds_its_mean(data: list[float]) -> None:
    found = seed_interval(data)
    assert found is not None
    assert found.low <= found.mean <= found.high


@given(values, st.floats(-5, 5))
@settings(max_examples=40, deadline=None)
def test_an_interval_moves_with_the_data(data: list[float], shift: float) -> None:
    one, other = seed_interval(data), seed_interval([value + shift for value in data])
    assert one is not None
    assert other is not None
    assert other.low == pytest.approx(one.low + shift, abs=1e-8)
    assert other.high == pytest.approx(one.high + shift, abs=1e-8)


def test_intervals_are_the_same_in_any_process() -> None:
    code = (
        "from cfq_bench.statistics.bootstrap import seed_interval, hierarchical_interval as h;"
        "print(seed_interval([.1, .5, .2]), h([[[0, 1, 1]], [[0, 0, 1, 1]]]))"
    )
    assert run_python(code) == run_python(code)


def test_pairs_are_taken_at_common_seeds_alone() -> None:
    found = paired_difference({0: 0.3, 1: 0.5, 7: 99.0}, {0: 0.1, 1: 0.4, 2: -99.0})
    assert found is not None
    assert found.seeds == (0, 1)
    assert found.by_seed == pytest.approx((0.2, 0.1))
    assert found.mean == pytest.approx(0.15)
    assert not found.over_rows
    assert paired_difference({0: 1.0}, {1: 1.0}) is None


def test_pairing_removes_what_the_seeds_share() -> None:
    seeds = range(5)
    hard = {s: 0.1 * s for s in seeds}
    found = paired_difference({s: hard[s] - 0.05 for s in seeds}, hard)
    assert found is not None
    assert found.clear
    assert found.interval is not None
    assert found.interval.low == pytest.approx(-0.05)


def test_rows_refine_the_interval_and_leave_the_mean() -> None:
    rng = np.random.default_rng(1)
    rows = {s: {i: float(v) for i, v in enumerate(rng.random(50) < 0.4)} for s in range(3)}
    none = {s: dict.fromkeys(range(50), 0.0) for s in range(3)}
    means = {s: float(np.mean(list(rows[s].values()))) for s in range(3)}
    found = paired_difference(means, dict.fromkeys(range(3), 0.0), [(rows, none)])
    assert found is not None
    assert found.over_rows
    assert found.mean == pytest.approx(np.mean(list(means.values())))


@pytest.mark.parametrize(
    "rows",
    [
        {0: {1: 1.0, 2: 0.0}},  # seed 1 is missing
        {0: {1: 1.0, 2: 1.0}, 1: {1: 1.0, 2: 0.0}},  # they are not the metric's rows
    ],
)
def test_rows_that_do_not_give_the_metric_are_not_used(rows: dict[int, dict[int, float]]) -> None:
    none = {seed: dict.fromkeys(group, 0.0) for seed, group in rows.items()}
    found = paired_difference({0: 0.5, 1: 0.5}, {0: 0.0, 1: 0.0}, [(rows, none)])
    assert found is not None
    assert not found.over_rows


def test_one_seed_without_rows_has_no_interval_and_is_not_clear() -> None:
    found = paired_difference({0: 0.9}, {0: 0.1})
    assert found is not None
    assert found.interval is None
    assert not found.clear


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), max_size=12))
@settings(max_examples=60, deadline=None)
def test_the_sign_test_is_the_exact_binomial(signs: list[float]) -> None:
    up, n = sum(s > 0 for s in signs), sum(s != 0 for s in signs)
    found = sign_test(signs)
    if n == 0:
        assert found is None
        return
    extreme = sum(math.comb(n, k) for k in range(n + 1) if abs(2 * k - n) >= abs(2 * up - n))
    assert found == pytest.approx(extreme / 2**n)


def test_a_summary_uses_the_seeds_it_is_given() -> None:
    found = summarize({0: 1.0, 1: 3.0, 2: None, 3: 50.0}, [0, 1, 2])
    assert found is not None
    assert (found.mean, found.seeds) == (2.0, (0, 1))
    assert found.std == pytest.approx(math.sqrt(2))
    assert summarize({0: None}, [0]) is None
    alone = summarize({4: 0.5}, [4])
    assert alone is not None
    assert alone.std is None
    assert alone.interval is None


@pytest.mark.parametrize(
    ("rows", "seeds"),
    [
        ([], ()),
        ([[0, 1], [1, 0, 2], [2]], (0, 1)),
        ([[10, 2], [2, 10]], (2, 10)),
        ([[1], [0]], (0,)),  # of equals the lesser seeds, whatever the rows' order
        ([[0, 1, 2, 3, 4], [0, 1, 2]], (0, 1, 2)),
        ([[0, 1, 2, 3, 4], [0, 1]], (0, 1, 2, 3, 4)),
    ],
)
def test_the_seeds_that_a_table_is_compared_on(rows: list[list[int]], seeds: tuple[int]) -> None:
    assert compared_seeds(rows) == seeds
    assert compared_seeds(rows[::-1]) == seeds


def test_shared_seeds_of_nothing_are_none() -> None:
    assert shared_seeds([]) == ()


@pytest.mark.parametrize(
    ("metric", "value", "bounds"),
    [
        ("recourse/vd", 0.0, (0.0, 0.05925)),  # z^2 / (61 + z^2)
        ("recourse/vd@0.25", 0.0, (0.0, 0.27753)),  # the counts of that margin
        ("task/acc", 1.0, (0.94075, 1.0)),
        ("recourse/boundary_error", 0.0, (0.0, 0.5 * math.hypot(0.05925, 0.03699))),
        ("recourse/vd", 0.1, None),
        ("recourse/crg", 0.0, None),  # no share of rows
        ("recourse/lost", 0.0, None),  # nobody was counted
    ],
)
def test_none_of_a_few_is_not_none(
    metric: str, value: float, bounds: tuple[float, float] | None
) -> None:
    counts = {"recourse/vd": 61, "recourse/vd@0.25": 10, "recourse/vd_adverse": 100}
    found = certain_bounds(metric, value, {**counts, "task/acc": 61, "recourse/crg": 5})
    assert found == (None if bounds is None else pytest.approx(bounds, abs=1e-5))


def test_statistics_needs_no_torch() -> None:
    code = (
        "import sys, cfq_bench.statistics.paired, cfq_bench.statistics.summary;"
        "assert 'torch' not in sys.modules"
    )
    run_python(code)
