"""Intervals against their definitions, and group tables that can be written down."""

import math

import numpy as np
import pandas as pd
import pytest

from cfq_bench.config.settings import DataSettings
from cfq_bench.data.protected import protected_groups
from cfq_bench.evaluation.groups import GroupValue, group_metrics, group_values
from cfq_bench.evaluation.intervals import Z, bootstrap_mean, mean_of_rates, wilson
from cfq_bench.report.diagnostics import diagnostic_lines

NAN = float("nan")

# --- intervals ---


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [  # (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), as in Wilson's tables
        (5, 10, 0.236593, 0.763407),
        (8, 10, 0.490162, 0.943318),
        (0, 10, 0.0, 0.277533),
        (10, 10, 0.722467, 1.0),
        (1, 1, 0.206549, 1.0),
    ],
)
def test_wilson_s_interval_has_its_published_values(
    hits: int, count: int, low: float, high: float
) -> None:
    assert wilson(hits, count) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize("count", [1, 3, 40, 5000])
def test_wilson_s_ends_are_where_the_score_test_rejects(count: int) -> None:
    """The ends p solve (hits/n - p)^2 = z^2 p (1 - p) / n."""
    for hits in {0, 1, count // 3, count}:
        low, high = wilson(hits, count)
        assert 0.0 <= low <= hits / count <= high <= 1.0
        for end in (low, high):
            score = (hits / count - end) ** 2 - Z**2 * end * (1 - end) / count
            assert score == pytest.approx(0.0, abs=1e-12)


def test_no_rows_have_no_interval() -> None:
    assert all(math.isnan(end) for end in wilson(0, 0))
    assert all(math.isnan(end) for end in bootstrap_mean(np.array([]), 0))
    assert all(math.isnan(end) for end in bootstrap_mean(np.array([1.0]), 0))
    assert all(math.isnan(end) for end in mean_of_rates((NAN, 0.1), (wilson(0, 0), (0.0, 0.2))))


def test_the_bootstrap_is_the_resampled_mean_s_distribution() -> None:
    # Of two rows, the mean is 0, 0.5 and 1 with probabilities 1/4, 1/2 and 1/4.
    assert bootstrap_mean(np.array([0.0, 1.0]), 0) == (0.0, 1.0)
    values = np.random.default_rng(0).exponential(2.0, 400)
    low, high = bootstrap_mean(values, 1)
    normal = 1.96 * values.std() / 20
    assert values.mean() - low == pytest.approx(normal, rel=0.15)
    assert high - values.mean() == pytest.approx(normal, rel=0.15)
    assert bootstrap_mean(values, 1) == (low, high)
    assert bootstrap_mean(values, 2) != (low, high)


def test_the_mean_of_two_rates_is_covered() -> None:
    rng = np.random.default_rng(0)
    for p, q in ((0.2, 0.1), (0.02, 0.05)):
        inside = 0
        for a, b in zip(rng.binomial(60, p, 2000), rng.binomial(90, q, 2000), strict=True):
            low, high = mean_of_rates((a / 60, b / 90), (wilson(int(a), 60), wilson(int(b), 90)))
            assert 0.0 <= low <= (a / 60 + b / 90) / 2 <= high <= 1.0
            inside += low <= (p + q) / 2 <= high
        assert 0.93 <= inside / 2000 <= 0.99


# --- tables ---


def row(direction: str, group: str, valid: bool | None, cost_f: float, cost_q: float) -> dict:
    return {
        "direction": direction,
        "status_f": "not_found" if valid is None else "found",
        "valid_q": valid,
        "cost_f": cost_f,
        "status_q": "found" if math.isfinite(cost_q) and cost_q > 0 else "not_needed",
        "cost_q": cost_q,
        "group_sex": group,
    }


ROWS = pd.DataFrame(
    [
        row("favourable", "f", True, 1.0, 1.5),
        row("favourable", "f", False, 2.0, 1.0),
        row("favourable", "f", False, 4.0, 0.0),  # f_q accepts: in VD, not in CRG
        row("favourable", "f", None, math.inf, 3.0),  # no action on f: in neither
        row("favourable", "m", True, 1.0, 2.0),
        row("adverse", "f", True, 1.0, NAN),
        row("adverse", "m", False, 1.0, NAN),
        row("adverse", "m", True, 1.0, NAN),
    ]
).astype({"valid_q": "boolean"})
CORRECT = np.array([True, False, True, True, False, True, True, True])
GROUPS = pd.DataFrame({"sex": ["f", "f", "f", "f", "m", "f", "m", "m"]})


def values() -> dict[tuple[str, str], GroupValue]:
    table = group_values(ROWS, CORRECT, GROUPS, cost_epsilon=0.0, seed=0)
    return {(value.group, value.metric): value for value in table}


def test_two_groups_written_down() -> None:
    got = values()
    expected = {
        ("f", "acc"): (4 / 5, 5),
        ("m", "acc"): (2 / 3, 3),
        ("f", "vd"): (2 / 3, 3),
        ("m", "vd"): (0.0, 1),
        ("f", "vd_adverse"): (0.0, 1),
        ("m", "vd_adverse"): (0.5, 2),
        ("f", "boundary_error"): (1 / 3, 1),
        ("m", "boundary_error"): (0.25, 1),
        ("f", "crg"): (0.0, 2),
        ("m", "crg"): (1.0, 1),
        ("f", "crg_abs"): (0.5, 2),
        ("m", "crg_abs"): (1.0, 1),
    }
    assert got.keys() == expected.keys()
    for key, (value, count) in expected.items():
        assert (got[key].value, got[key].count) == (pytest.approx(value), count), key
        assert got[key].attribute == "sex"
    assert (got["f", "vd"].low, got["f", "vd"].high) == wilson(2, 3)
    assert (got["f", "crg"].low, got["f", "crg"].high) == (-0.5, 0.5)
    assert math.isnan(got["m", "crg"].low)


def test_a_group_without_rows_is_undefined_not_perfect() -> None:
    groups = pd.DataFrame({"sex": [*GROUPS["sex"][:-1], "x"]})
    table = group_values(ROWS, CORRECT, groups, cost_epsilon=0.0, seed=0)
    own = {value.metric: value for value in table if value.group == "x"}
    assert (own["acc"].value, own["acc"].count) == (1.0, 1)
    for metric in ("vd", "vd_adverse", "boundary_error", "crg", "crg_abs"):
        assert math.isnan(own[metric].value)
        assert own[metric].count == 0


def made(attribute: str, group: str, metric: str, value: float, count: int) -> GroupValue:
    return GroupValue(attribute, group, metric, value, count, NAN, NAN)


def test_worst_and_gap_written_down() -> None:
    """Gaps are within an attribute, and a small group counts for neither."""
    table = [
        made("sex", "f", "vd", 0.10, 40),
        made("sex", "m", "vd", 0.14, 60),
        made("race", "a", "vd", 0.30, 25),
        made("race", "b", "vd", 0.25, 70),
        made("race", "c", "vd", 0.90, 19),
        made("sex", "f", "crg", -0.20, 40),
        made("sex", "m", "crg", -0.10, 30),
        made("race", "a", "crg", 0.05, 20),
        made("sex", "f", "acc", NAN, 0),
    ]
    metrics, counts = group_metrics(table, least_rows=20)
    expected = {
        "group/acc_gap": (NAN, 0),
        "group/vd_worst": (0.30, 25),
        "group/vd_gap": (0.05, 25),  # within race; 0.30 - 0.10 is across attributes
        "group/boundary_error_worst": (NAN, 0),
        "group/boundary_error_gap": (NAN, 0),
        "group/crg_worst": (0.05, 20),
        "group/crg_gap": (0.10, 30),  # race has one group that counts, hence no gap
    }
    assert metrics.keys() == counts.keys() == expected.keys()
    for key, (value, count) in expected.items():
        assert metrics[key] == pytest.approx(value, nan_ok=True), key
        assert counts[key] == count, key
    assert group_metrics(table, least_rows=19)[0]["group/vd_gap"] == pytest.approx(0.65)
    assert all(math.isnan(value) for value in group_metrics([], 1)[0].values())


@pytest.mark.parametrize("seed", range(3))
def test_tables_agree_with_pandas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 300
    groups = pd.DataFrame({"g": rng.choice(["a", "b", "c"], count), "h": rng.choice(["u"], count)})
    order = rng.permutation(count)  # rows are by direction, not in the order of the test split
    rows = pd.DataFrame(
        {
            "direction": rng.choice(["favourable", "adverse"], count),
            "status_f": rng.choice(["found", "not_found"], count, p=[0.8, 0.2]),
            "status_q": rng.choice(["found", "not_needed", "not_found"], count),
            "valid_q": pd.array(rng.random(count) < 0.7, dtype="boolean"),
            "cost_f": rng.uniform(0.5, 2, count),
            "cost_q": rng.uniform(0.5, 2, count),
            "group_g": groups["g"].to_numpy()[order],
            "group_h": "u",
        }
    )
    correct = rng.random(count) < 0.6
    table = group_values(rows, correct, groups, cost_epsilon=1e-6, seed=0)
    got = {(v.attribute, v.group, v.metric): v.value for v in table}
    found = rows[(rows["status_f"] == "found") & (rows["direction"] == "favourable")]
    failed = 1 - found["valid_q"].astype(float)
    for group, vd in failed.groupby(found["group_g"]).mean().items():
        assert got["g", group, "vd"] == pytest.approx(vd)
    both = found[found["status_q"] == "found"]
    gap = (both["cost_q"] - both["cost_f"]) / (both["cost_f"] + 1e-6)
    for group, crg in gap.groupby(both["group_g"]).mean().items():
        assert got["g", group, "crg"] == pytest.approx(crg)
    for group, acc in pd.Series(correct).groupby(groups["g"]).mean().items():
        assert got["g", group, "acc"] == pytest.approx(acc)
    assert got["h", "u", "vd"] == pytest.approx(failed.mean())


def test_the_page_shows_every_group_with_its_interval() -> None:
    table = group_values(ROWS, CORRECT, GROUPS, cost_epsilon=0.0, seed=0)
    page = "\n".join(diagnostic_lines({"groups": [vars(value) for value in table]}))
    low, high = wilson(2, 3)
    line = next(line for line in page.splitlines() if "VD  " in line)
    assert line.split() == ["VD", "f", "0.667", f"[{low:.3f},", f"{high:.3f}]", "n=3"]
    assert len(page.splitlines()) == 3 + 12
    assert diagnostic_lines({}) == []


# --- what the groups are ---


def settings_of(kind: str) -> DataSettings:
    return DataSettings.model_validate(
        {
            "name": "made",
            "about": "made",
            "loader": "made.csv",
            "target": {"column": "y", "favourable": 1},
            "features": {"age": {"kind": kind}, "sex": {"kind": "categorical"}},
            "protected": ["sex", "age"],
            "split": {"train": 10, "validation": 0.1},
            "fit": {"batch_size": 1, "teacher_epochs": 1, "epochs": 1, "weight_decay": 0.0},
            "actions": "made",
        }
    )


def test_numbers_with_many_values_are_reported_in_bands_of_the_train_rows() -> None:
    frame = pd.DataFrame({"age": [*range(101), 500], "sex": ["f", "m"] * 51})
    train, rows = np.arange(101), np.array([101, 25, 26, 50, 75, 76, 0])
    got = protected_groups(frame, train, rows, settings_of("integer"))
    assert got.columns.tolist() == ["sex", "age"]
    assert got["age"].tolist() == [
        "over 75",
        "up to 25",
        "over 25 to 50",
        "over 25 to 50",
        "over 50 to 75",
        "over 75",
        "up to 25",
    ]
    assert got["sex"].tolist() == ["m", "m", "f", "f", "m", "f", "f"]
    assert got.index.tolist() == list(range(7))


def test_bands_are_fewer_where_quartiles_coincide_and_absent_values_are_apart() -> None:
    frame = pd.DataFrame({"age": [0.0] * 60 + [*range(1, 40), None], "sex": "f"})
    train, rows = np.arange(99), np.array([0, 98, 99])
    got = protected_groups(frame, train, rows, settings_of("numeric"))
    assert got["age"].tolist() == ["up to 0", "over 14.5", "missing"]


def test_numbers_with_few_values_and_categories_are_themselves() -> None:
    frame = pd.DataFrame({"age": [1, 2, 3] * 40, "sex": ["f", None, "m"] * 40})
    got = protected_groups(frame, np.arange(60), np.array([3, 4, 5]), settings_of("integer"))
    assert got["age"].tolist() == ["1", "2", "3"]
    assert got["sex"].tolist() == ["f", "missing", "m"]
