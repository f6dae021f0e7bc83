"""Certificates in a record, in its rows, and in one person's answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from cfq_bench.actions.solver import make_solver
from cfq_bench.cli.main import main
from cfq_bench.config.loader import load_settings
from cfq_bench.evaluation.certificates import ON_DEPLOYED, ON_TEACHER, Certificates, certify
from cfq_bench.evaluation.keys import METRICS
from cfq_bench.evaluation.teacher_recourse import Direction, teacher_recourse
from cfq_bench.experiment import Options, run
from cfq_bench.methods.base import fit_method, make_method
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore

pytestmark = pytest.mark.slow

SHORT = ["data.fit.epochs=1", "data.fit.teacher_epochs=8", "teacher.lr=5.0e-3"]
COLUMNS = ["backend_certified", "backend_margin", "box", "teacher_bits", "teacher_bits_any"]
COLUMNS += ["l3", "stable"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record, pd.DataFrame]:
    results = tmp_path_factory.mktemp("results")
    settings = load_settings(
        "lsq", "german", overrides=[*SHORT, "training.lr=1e-2", "evaluation.certificates=true"]
    )
    record = run(settings, Options(results, results / "cache", wandb="disabled"))
    return results, record, RecordStore(results).read_rows(record.run_id)


def test_metrics_are_the_shares_of_the_rows(finished: tuple[Path, Record, pd.DataFrame]) -> None:
    _, record, rows = finished
    assert record.status == "ok", record.reason
    known = rows[(rows["direction"] == "favourable") & (rows["status_f"] == "found")]
    others = rows.drop(known.index)
    assert len(known)
    assert len(others)
    assert others[COLUMNS].isna().all().all()
    assert known[COLUMNS].notna().all().all()
    m, bits = record.metrics, known["teacher_bits"]
    expected = {
        "backend": known["backend_certified"].mean(),
        **{f"box_{v}": (known["box"] == v).mean() for v in ("verified", "refuted", "undecided")},
        "teacher": (bits <= 8).mean(),
        "teacher_any": (known["teacher_bits_any"] <= 8).mean(),
        "teacher_bits_median": np.median(bits),
        "l3": known["l3"].mean(),
        "stable": known["stable"].mean(),
    }
    assert set(expected) == {*ON_DEPLOYED, *ON_TEACHER}
    for name, value in expected.items():
        assert m[f"certificate/{name}"] == pytest.approx(float(value)), name
        assert record.counts[f"certificate/{name}"] == len(known)
        assert f"certificate/{name}" in METRICS


def test_what_is_proved_agrees_with_what_is_measured(
    finished: tuple[Path, Record, pd.DataFrame],
) -> None:
    rows = finished[2]
    known = rows[rows["backend_certified"].notna()]
    assert (known["backend_margin"] <= known["margin_q"]).all()
    assert ((known["backend_margin"] > 0) == known["backend_certified"]).all()
    assert known[known["backend_certified"].astype(bool)]["valid_q"].all()
    assert known[known["box"] == "verified"]["valid_q"].all()
    broken = known[known["valid_q"] == False]  # noqa: E712
    assert len(broken)
    assert set(broken["box"]) == {"refuted"}
    assert (known["teacher_bits"] <= known["teacher_bits_any"]).all()
    assert (known["teacher_bits"][known["l3"].astype(bool)] <= 8).all()


def directions_of(context: Any) -> list[Direction]:
    return teacher_recourse(
        context.settings,
        context.data,
        context.teacher,
        context.actions,
        make_solver(context.settings.solver),
        context.cache,
        context.runtime,
    )


class Odd(nn.Module):
    """A network of which nothing can be proved."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x.sum(1), x.prod(1)], dim=1)


def test_a_network_that_cannot_be_certified_has_a_reason(make_context: Any) -> None:
    context = make_context("fp32")
    favourable = directions_of(context)[0]
    got = certify(context.settings, Odd(), context.teacher, context.actions, favourable)
    assert set(got.refused) == {"deployed"}
    assert "Odd" in got.refused["deployed"]
    assert all(np.isnan(got.metrics[f"certificate/{name}"]) for name in ON_DEPLOYED)
    assert all(got.counts[f"certificate/{name}"] == 0 for name in ON_DEPLOYED)
    assert all(np.isfinite(got.metrics[f"certificate/{name}"]) for name in ON_TEACHER)
    got = certify(context.settings, Odd(), Odd(), context.actions, favourable)
    assert set(got.refused) == {"deployed", "teacher"}
    assert got.columns == {}


def test_without_actions_every_share_is_undefined(make_context: Any) -> None:
    context = make_context("fp32")
    favourable = directions_of(context)[0]
    nobody = Direction(
        "favourable",
        favourable.rows,
        favourable.x,
        favourable.target,
        {
            kappa: type(s)(s.point, torch.ones_like(s.status), s.cost, s.margin)
            for kappa, s in favourable.solutions.items()
        },
    )
    got = certify(context.settings, context.teacher, context.teacher, context.actions, nobody)
    assert all(np.isnan(got.metrics[f"certificate/{name}"]) for name in (*ON_DEPLOYED, *ON_TEACHER))
    assert got.refused == {}


@pytest.mark.parametrize("more", [[], ["quantization.input_blocks=true"]])
@pytest.mark.parametrize("method", ["pact", "lsq"])
def test_every_kind_of_deployed_network_is_certified(
    make_context: Any, method: str, more: list[str]
) -> None:
    context = make_context(method, "quantization.activation_bits=tied", *more)
    made = make_method(context)
    fit_method(made)
    f_q = made.deployed()
    got = certify(
        context.settings, f_q, context.teacher, context.actions, directions_of(context)[0]
    )
    assert got.refused == {}
    total = sum(got.metrics[f"certificate/box_{v}"] for v in ("verified", "refuted", "undecided"))
    assert total == pytest.approx(1.0)


def test_nothing_is_certified_unless_it_is_asked_for(tmp_path: Path) -> None:
    settings = load_settings("fp32", "german", overrides=SHORT)
    assert not settings.evaluation.certificates
    record = run(settings, Options(tmp_path, tmp_path / "cache", wandb="disabled"))
    assert not any(key.startswith("certificate/") for key in record.metrics)
    assert "stable" not in RecordStore(tmp_path).read_rows(record.run_id)
    assert Certificates().on_rows(pd.DataFrame({"direction": ["adverse"]})).shape == (1, 1)


def test_one_person_is_told_what_is_proved(finished: tuple[Path, Record, pd.DataFrame]) -> None:
    results, record, rows = finished
    known = rows[rows["backend_certified"].notna()]

    def page(row: Any) -> str:
        where = ["--results-dir", str(results), "--cache-dir", str(results / "cache")]
        done = CliRunner().invoke(main, ["solve", str(row), "--run", record.run_id, *where])
        assert done.exit_code == 0, done.output
        return str(done.stdout)

    kept = known[(known["box"] == "verified") & known["backend_certified"].astype(bool)].iloc[0]
    text = page(kept["row_id"])
    assert "proved for every backend (0.01 of a step off before it rounds); proved also" in text
    if kept["teacher_bits"] <= 10:
        assert f"of the weights to nearest, {int(kept['teacher_bits'])} bits or more" in text
    broken = known[known["valid_q"] == False].iloc[0]  # noqa: E712
    assert "every backend" not in page(broken["row_id"])
