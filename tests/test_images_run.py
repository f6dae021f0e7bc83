"""Whole runs on tiny images: the same methods, metrics and records as on tables."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from cfq_bench.actions.make import make_space
from cfq_bench.autoencoder.fit import obtain_autoencoder
from cfq_bench.cache import Cache
from cfq_bench.config.images import LatentSettings
from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import Settings
from cfq_bench.data import celeba, mnist
from cfq_bench.data.load import load_dataset
from cfq_bench.errors import UserError
from cfq_bench.experiment import Options, make_context, run
from cfq_bench.methods.base import Context, make_method
from cfq_bench.methods.ptq import PTQ
from cfq_bench.quantization.deployed import DeployedNetwork
from cfq_bench.quantization.variants import deployment_variants
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from cfq_bench.training.trainer import Runtime
from tests.support.images import write_celeba, write_idx_files
from tests.support.networks import SMALL

pytestmark = pytest.mark.slow

COMMON = [
    "actions.autoencoder.epochs=60",
    "actions.autoencoder.batch_size=16",
    "actions.autoencoder.latent=6",
    "actions.autoencoder.channels=[4]",
    "actions.autoencoder.lr=1.0e-2",
    "data.fit.batch_size=16",
    "data.fit.teacher_epochs=20",
    "data.fit.epochs=1",
    "teacher.lr=2.0e-3",
    "solver.steps=30",
    "solver.refinements=2",
    "evaluation.extra_kappas=[0.0]",
    "evaluation.max_rows=12",
    "evaluation.margin_samples=2",
]
TARGETS = {"mnist": ["data.target.against=[3,4]"], "celeba": ["actions.attributes={Smiling: 1.0}"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    write_idx_files(root / mnist.FOLDER)
    write_celeba(root / celeba.FOLDER)
    return root


def settings_of(method: str, data: str, *overrides: str, backbone: str = "mlp2") -> Settings:
    shape = ["backbone.hidden=[16]"] if backbone == "mlp2" else SMALL[backbone]
    lines = [*COMMON, *shape, *TARGETS[data], *overrides]
    if data == "celeba":
        lines += ["actions.radius=50.0", "solver.restarts=3", "solver.start_radius=4.0"]
    return load_settings(method, data, backbone=backbone, overrides=lines)


def options(folder: Path, tmp_path: Path, cache_dir: Path) -> Options:
    return Options(tmp_path, cache_dir, folder, wandb="disabled")


@pytest.mark.parametrize(
    ("data", "method", "backbone"),
    [
        ("mnist", "fp32", "mlp2"),
        ("mnist", "cf_ptq", "small_cnn"),
        ("mnist", "cfq_distilled", "mlp2"),
        ("celeba", "cfq_group", "mlp2"),
    ],
)
def test_methods_run_on_images(
    folder: Path, tmp_path: Path, cache_dir: Path, data: str, method: str, backbone: str
) -> None:
    settings = settings_of(method, data, backbone=backbone)
    record = run(settings, options(folder, tmp_path, cache_dir))
    assert record.status == "ok", record.reason
    check_metrics(record)
    rows = pd.read_parquet(RecordStore(tmp_path).path(record.run_id).with_suffix(".parquet"))
    assert set(rows["direction"]) == {"favourable", "adverse"}
    if method == "fp32":
        assert record.metrics["recourse/vd"] == 0.0
        assert record.metrics["recourse/crg_abs"] == 0.0
    if data == "celeba":
        assert {line["attribute"] for line in record.details["groups"]} == {"Male", "Young"}
        assert set(rows["changed_f"]) <= {"", "Smiling"}


def check_metrics(record: Record) -> None:
    metrics = record.metrics
    for key in ("task/acc", "recourse/frr", "recourse/vd", "recourse/vd_adverse"):
        assert metrics[key] is not None, key
        assert 0.0 <= metrics[key] <= 1.0
    assert record.counts["recourse/vd"] > 0
    for suffix in "fq":
        assert metrics[f"action/cost_{suffix}"] > 0.0
        assert metrics[f"action/norm_{suffix}"] > 0.0
        assert -1.0 <= metrics[f"action/consistency_{suffix}"] <= 1.0
    assert 0.0 < metrics["action/reconstruction_mse"] < 0.25
    told = record.details["autoencoder"]
    assert told["validation_mse"] < told["mean_image_mse"]
    assert math.isfinite(metrics["margin/eps_hat_q95"])


def context_of(
    folder: Path, tmp_path: Path, cache_dir: Path, method: str = "lsq", backbone: str = "mlp2"
) -> Context:
    settings = settings_of(method, "mnist", backbone=backbone)
    return make_context(settings, options(folder, tmp_path, cache_dir), Runtime())


def test_rows_whose_reconstruction_is_accepted_are_counted_and_left_out(
    folder: Path, tmp_path: Path, cache_dir: Path
) -> None:
    record = run(settings_of("lsq", "mnist"), options(folder, tmp_path, cache_dir))
    context = context_of(folder, tmp_path, cache_dir)
    rows = pd.read_parquet(RecordStore(tmp_path).path(record.run_id).with_suffix(".parquet"))
    test, space = context.data.test, context.actions
    place = {str(row): i for i, row in enumerate(test.row_ids)}
    for direction, target, suffix in (("favourable", 1, ""), ("adverse", 0, "_adverse")):
        part = rows[rows["direction"] == direction]
        x = test.inputs(torch.tensor([place[str(row)] for row in part["row_id"]]))
        there = context.teacher(space.to_input(space.origin(x))).argmax(1) == target
        assert ((part["status_f"] == "not_needed").to_numpy() == there.numpy()).all()
        free = record.metrics[f"action/reconstruction_free{suffix}"]
        assert free == pytest.approx(float(there.double().mean()))
        assert record.counts[f"recourse/vd{suffix}"] == int((part["status_f"] == "found").sum())
        if direction == "favourable":
            assert record.counts["recourse/frr"] == int((~there).sum())


def test_cf_ptq_calibrates_on_points_of_every_margin(
    folder: Path, tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cfq_bench.quantization.sampling.IMAGES", 15)
    context = context_of(folder, tmp_path, cache_dir, "cf_ptq", "small_cnn")
    method = make_method(context)
    assert isinstance(method, PTQ)
    seen = method._points()[len(method.calibration_rows()) :]
    pool = context.recourse_pool("opposite", method.config.pool_size, method.config.pool_kappas)
    logits = context.teacher(seen)
    margin = (logits[:, 1] - logits[:, 0]).abs()
    assert 8 <= len(seen) <= 15 < len(pool.inputs)
    assert 0.2 < float((margin > 0.5).float().mean()) < 0.8  # kappa is 0 or 0.5
    assert float(margin.min()) < 0.5


def test_deployments_of_images_differ_by_their_calibration(
    folder: Path, tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the three things that vary, calibration alone."""
    made: list[list[DeployedNetwork]] = []

    def watched(network: DeployedNetwork, *others: Any) -> list[DeployedNetwork]:
        made.append([network, *deployment_variants(network, *others)])
        return made[-1][1:]

    monkeypatch.setattr("cfq_bench.evaluation.robustness.deployment_variants", watched)
    uncertainty = ["band=0", "stochastic_rounding=false", "calibration_rows=20"]
    changes = [f"evaluation.uncertainty.{change}" for change in uncertainty]
    settings = settings_of("lsq", "mnist", "evaluation.variants=3", *changes, backbone="small_cnn")
    record = run(settings, options(folder, tmp_path, cache_dir))
    assert record.status == "ok", record.reason
    ((network, *variants),) = made
    x = context_of(folder, tmp_path, cache_dir).data.test.inputs()
    assert len(variants) == 3
    for variant in variants:
        assert not torch.equal(variant(x), network(x))


def test_an_autoencoder_that_has_learned_nothing_is_refused(
    folder: Path, tmp_path: Path, cache_dir: Path
) -> None:
    worthless = ["actions.autoencoder.epochs=1", "actions.autoencoder.lr=1.0e-9"]
    with pytest.raises(UserError, match=r"no better than the mean image .*autoencoder\.epochs"):
        run(settings_of("ptq", "mnist", *worthless), options(folder, tmp_path, cache_dir))


def test_an_autoencoder_is_trained_once_and_the_same_again(
    folder: Path, tmp_path: Path, cache_dir: Path
) -> None:
    settings = settings_of("lsq", "mnist")
    assert isinstance(settings.actions, LatentSettings)
    config = settings.actions.autoencoder
    data = load_dataset(settings.data, 0, folder)
    first = obtain_autoencoder(config, data, 0, Cache(tmp_path / "a"), Runtime())
    torch.manual_seed(123)
    again = obtain_autoencoder(config, data, 0, Cache(tmp_path / "b"), Runtime())
    cached = obtain_autoencoder(config, data, 0, Cache(tmp_path / "a"), Runtime())
    for name, value in first.network.state_dict().items():
        assert torch.equal(value, again.network.state_dict()[name])
        assert torch.equal(value, cached.network.state_dict()[name])
    assert (first.error, first.baseline) == (cached.error, cached.baseline)
    assert not any(parameter.requires_grad for parameter in first.network.parameters())
    assert len(list((tmp_path / "a" / "autoencoder").glob("*.pt"))) == 1


def test_latents_of_train_images_are_standardized(
    folder: Path, tmp_path: Path, cache_dir: Path
) -> None:
    context = context_of(folder, tmp_path, cache_dir)
    z = context.actions.origin(context.data.train.inputs())
    assert z.std(0).mean() == pytest.approx(1.0, abs=0.15)
    space, told = make_space(context.settings, context.data, Cache(cache_dir), Runtime())
    assert space.fingerprint == context.actions.fingerprint
    assert set(told) == {"autoencoder"}
