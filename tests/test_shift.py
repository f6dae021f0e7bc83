"""Shifted test rows: what changes, what does not, and that training never sees them."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import FeatureSettings, Settings
from cfq_bench.data.dataset import Split, TabularData, load_data
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.data.shift import shifted, thinned
from cfq_bench.errors import UserError
from cfq_bench.evaluation.keys import METRICS
from cfq_bench.experiment import Options, run
from cfq_bench.methods.base import Context
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from cfq_bench.report.page import record_page
from cfq_bench.teacher.keys import recourse_key

pytestmark = pytest.mark.slow

KINDS = ("noise", "reweight", "imbalance")


def settings_of(data: str, *overrides: str, method: str = "fp32") -> Settings:
    return load_settings(method, data, overrides=[f"evaluation.{text}" for text in overrides])


@pytest.fixture(scope="module", params=["compas", "german"])
def data(request: pytest.FixtureRequest) -> tuple[str, TabularData]:
    return request.param, load_data(settings_of(request.param).data, 0)


def test_no_shift_is_the_same_object(data: tuple[str, TabularData]) -> None:
    name, before = data
    after, told = shifted(before, settings_of(name))
    assert after is before
    assert told == {"kind": "none", "rows": len(before.test)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_meets_the_same_rows_and_no_other_split_changes(
    data: tuple[str, TabularData], kind: str
) -> None:
    name, before = data
    one, two = (
        shifted(before, settings_of(name, f"shift={kind}", method=method))[0]
        for method in ("lsq", "cfq_distilled")
    )
    assert torch.equal(one.test.x, two.test.x)
    assert one.test.row_ids.tolist() == two.test.row_ids.tolist()
    assert one.fingerprint == two.fingerprint != before.fingerprint
    assert one.train is before.train
    assert one.validation is before.validation
    other = settings_of(name, f"shift={kind}").model_copy(update={"seed": 1})
    assert shifted(before, other)[0].fingerprint != one.fingerprint


def test_noise_leaves_immutables_bitwise_and_integers_whole(data: tuple[str, TabularData]) -> None:
    name, before = data
    settings = settings_of(name, "shift=noise")
    after, _ = shifted(before, settings)
    assert torch.equal(after.test.y, before.test.y)
    assert after.test.row_ids.tolist() == before.test.row_ids.tolist()
    assert after.test_groups.equals(before.test_groups)
    old, new = before.schema.decode(before.test.x), before.schema.decode(after.test.x)
    train = before.schema.decode(before.train.x)
    moved = set()
    for feature in before.schema.features:
        columns = slice(feature.start, feature.stop)
        action = settings.actions.features[feature.name].kind
        if action == "immutable" or feature.kind in ("categorical", "ordinal"):
            assert torch.equal(after.test.x[:, columns], before.test.x[:, columns]), feature.name
            continue
        assert feature.kind == "integer"
        single = after.test.x[:, : before.schema.n_single]
        whole = before.schema.standardize(before.schema.destandardize(single).round())
        assert torch.equal(whole[:, feature.start], single[:, feature.start]), feature.name
        changed = new[feature.name] != old[feature.name]
        assert torch.equal(
            after.test.x[~changed.to_numpy(), feature.start],
            before.test.x[~changed.to_numpy(), feature.start],
        )
        if changed.any():
            moved.add(feature.name)
        inside = new[feature.name].between(train[feature.name].min(), train[feature.name].max())
        own_outside = ~old[feature.name].between(
            train[feature.name].min(), train[feature.name].max()
        )
        assert (inside | own_outside).all(), feature.name
    assert len(moved) >= 2
    still, _ = shifted(before, settings_of(name, "shift=noise", "shift_noise=0"))
    assert torch.equal(still.test.x, before.test.x)


def test_noise_has_the_strength_that_is_asked_for() -> None:
    """Real columns: standard deviation 0.25, no drift, and a wide train range clips nobody."""
    frame = pd.DataFrame({"a": [-100.0, 100.0], "b": [-50.0, 50.0]})
    kinds = {name: FeatureSettings(kind="numeric") for name in frame}
    schema = FeatureSchema.fit(frame, kinds)
    train = Split(schema.encode(frame), torch.tensor([0, 1]), np.arange(2))
    rows = torch.zeros(4000, 2)
    test = Split(rows, torch.zeros(4000, dtype=torch.int64), np.arange(4000))
    nobody = pd.DataFrame(index=range(4000))
    made = TabularData(train, train, test, nobody, nobody, nobody, "made", "0", schema)
    base = settings_of("compas", "shift=noise", "shift_noise=0.25")
    actions = base.actions.model_copy(update={"features": {"a": _free(), "b": _fixed()}})
    after, _ = shifted(made, base.model_copy(update={"actions": actions}))
    assert float(after.test.x[:, 0].std()) == pytest.approx(0.25, rel=0.05)
    assert float(after.test.x[:, 0].mean()) == pytest.approx(0.0, abs=0.02)
    assert torch.equal(after.test.x[:, 1], rows[:, 1])
    narrow = dataclasses.replace(made, train=Split(train.x * 0.1, train.y, train.row_ids))
    after, _ = shifted(narrow, base.model_copy(update={"actions": actions}))
    assert float(after.test.x[:, 0].abs().max()) == pytest.approx(0.1)


def _free() -> object:
    return settings_of("compas").actions.features["priors_count"]


def _fixed() -> object:
    return settings_of("compas").actions.features["age"]


@pytest.mark.parametrize("odds", [3.0, 0.5])
def test_imbalance_multiplies_the_odds_of_the_unfavourable_label(
    data: tuple[str, TabularData], odds: float
) -> None:
    name, before = data
    after, told = shifted(before, settings_of(name, "shift=imbalance", f"shift_odds={odds}"))
    counts = [
        [int((split.y == label).sum()) for label in (0, 1)] for split in (before.test, after.test)
    ]
    (bad, good), (bad_left, good_left) = counts
    assert bad_left / good_left == pytest.approx(odds * bad / good, rel=0.02)
    assert (bad_left == bad) == (odds > 1)
    assert (good_left == good) == (odds < 1)
    assert told["rows"] == len(after.test) == bad_left + good_left
    assert told["share_before"] == pytest.approx(bad / (bad + good))
    assert told["share_after"] == pytest.approx(bad_left / (bad_left + good_left))
    # Nobody counts twice, and every row is the one that it was.
    ids = after.test.row_ids.tolist()
    assert len(set(ids)) == len(ids)
    place = [before.test.row_ids.tolist().index(i) for i in ids]
    assert torch.equal(after.test.x, before.test.x[place])
    assert after.test_groups.equals(before.test_groups.iloc[place].reset_index(drop=True))


def test_reweighting_multiplies_the_odds_of_the_rarest_group(data: tuple[str, TabularData]) -> None:
    name, before = data
    for attribute in settings_of(name).data.protected:
        rare = before.test_groups[attribute].value_counts()
        rare = rare[rare >= 20]
        overrides = ["shift=reweight", f"shift_attribute={attribute}"]
        if len(rare) < 2:
            with pytest.raises(UserError, match="expected two: name another"):
                shifted(before, settings_of(name, *overrides))
            continue
        after, told = shifted(before, settings_of(name, *overrides))
        group = rare.idxmin()
        assert (told["attribute"], told["group"]) == (attribute, group)
        was, now = (
            (frame[attribute] == group).sum() / (frame[attribute] != group).sum()
            for frame in (before.test_groups, after.test_groups)
        )
        assert now == pytest.approx(3.0 * was, rel=0.02)
    first, told = shifted(before, settings_of(name, "shift=reweight"))
    assert told["attribute"] == settings_of(name).data.protected[0]
    assert len(first.test) < len(before.test)


@pytest.mark.parametrize("kind", ["reweight", "imbalance"])
def test_odds_of_one_change_nothing(data: tuple[str, TabularData], kind: str) -> None:
    name, before = data
    after, _ = shifted(before, settings_of(name, f"shift={kind}", "shift_odds=1"))
    assert torch.equal(after.test.x, before.test.x)
    assert after.fingerprint == before.fingerprint


def test_thinning_keeps_someone_of_either_side() -> None:
    chosen = np.array([True] * 3 + [False] * 4)
    for odds in (1e-6, 1e6):
        kept = thinned(chosen, odds, np.random.default_rng(0))
        assert kept.tolist() == sorted(kept)
        assert min(chosen[kept].sum(), (~chosen[kept]).sum()) == 1
    draws = {tuple(thinned(chosen, 4.0, np.random.default_rng(s))) for s in range(20)}
    assert len(draws) > 1


def test_settings_that_cannot_be_are_refused_in_one_line() -> None:
    with pytest.raises(UserError, match="shift_attribute 'age' is not one of the protected"):
        settings_of("compas", "shift=reweight", "shift_attribute=age")
    with pytest.raises(UserError, match="needs a protected feature"):
        load_settings("lsq", "compas", overrides=["data.protected=[]", "evaluation.shift=reweight"])
    with pytest.raises(UserError):
        settings_of("compas", "shift=rotation")


def test_what_is_cached_for_shifted_rows_is_not_taken_for_others(
    make_context: Callable[..., Context],
) -> None:
    context = make_context("lsq", "evaluation.shift=noise")
    device = context.runtime.device
    keys = []
    for kind, strength in (("none", 0.5), ("noise", 0.5), ("noise", 0.7), ("imbalance", 0.5)):
        settings = settings_of("german", f"shift={kind}", f"shift_noise={strength}")
        data, _ = shifted(context.data, settings)
        keys.append(
            str(
                recourse_key(
                    context.settings, data, context.actions, device, "cfq_bench.methods.base"
                )
            )
        )
    assert len(set(keys)) == len(keys)


# --- whole runs ---


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, cache_dir: Path, short_overrides: list[str]
) -> dict[str, tuple[Record, RecordStore]]:
    """The same short run without a shift and under each."""
    folder = tmp_path_factory.mktemp("runs")
    out = {}
    for kind in ("none", *KINDS):
        overrides = [*short_overrides, "budget.avg_bits=4", f"evaluation.shift={kind}"]
        overrides.append("evaluation.group_min_rows=5")
        settings = load_settings("lsq", "german", overrides=overrides)
        record = run(settings, Options(folder, cache_dir, wandb="disabled"))
        out[kind] = (record, RecordStore(folder))
    return out


def test_training_never_sees_the_shift(runs: dict[str, tuple[Record, RecordStore]]) -> None:
    networks = {store.read_network(record.run_id) for record, store in runs.values()}
    assert len(networks) == 1
    assert len({record.run_id for record, _ in runs.values()}) == 4
    accuracy = {record.metrics["task/acc"] for record, _ in runs.values()}
    assert len(accuracy) > 1


@pytest.mark.parametrize("kind", ["none", *KINDS])
def test_a_record_with_everything_on_loads_back(
    runs: dict[str, tuple[Record, RecordStore]], kind: str
) -> None:
    record, store = runs[kind]
    assert record.status == "ok", record.reason
    assert store.read(record.run_id) == record
    assert record.details["shift"]["kind"] == kind
    assert record.details["shift"]["rows"] == record.counts["task/acc"]
    wanted = {key for key in METRICS if key.startswith(("margin/", "group/"))}
    assert {key for key in record.metrics if key.startswith(("margin/", "group/"))} == wanted
    assert wanted <= set(record.counts)
    page = record_page(record, None)
    assert "protected groups, 95 % intervals" in page
    assert "logits at the teacher's actions" in page


@pytest.mark.parametrize("kind", ["none", *KINDS])
def test_the_rows_tell_the_same_story(
    runs: dict[str, tuple[Record, RecordStore]], kind: str
) -> None:
    record, store = runs[kind]
    rows = store.read_rows(record.run_id)
    assert (rows["eps_hat"].isna() == (rows["status_f"] != "found")).all()
    found = rows[(rows["direction"] == "favourable") & (rows["status_f"] == "found")]
    safe = found["margin_f"] > 2 * found["eps_hat"]
    metrics = record.metrics
    assert metrics["margin/safe_fraction"] == pytest.approx(safe.mean())
    assert metrics["margin/eps_hat_max"] == pytest.approx(found["eps_hat"].max())
    assert not (found["margin_q"] - (found["margin_f"] - 2 * found["eps_hat"]) < -1e-5).any()
    # The population's VD is the mean of its groups', weighted by their rows.
    for attribute in ("personal_status", "foreign_worker"):
        for metric in ("vd", "crg", "crg_abs"):
            own = [
                line
                for line in record.details["groups"]
                if (line["attribute"], line["metric"]) == (attribute, metric) and line["count"]
            ]
            assert sum(line["count"] for line in own) == record.counts[f"recourse/{metric}"]
            mean = np.average([v["value"] for v in own], weights=[v["count"] for v in own])
            assert mean == pytest.approx(metrics[f"recourse/{metric}"], abs=1e-5)
        own = [
            line
            for line in record.details["groups"]
            if (line["attribute"], line["metric"]) == (attribute, "acc")
        ]
        assert sum(line["count"] for line in own) == record.counts["task/acc"]
