"""Image data sets: published files, splits, pixels, and what a run on them starts from."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cfq_bench.config.images import ImageSettings
from cfq_bench.config.loader import load_settings, packaged_conf_dir, settings_from_config
from cfq_bench.data import celeba, fashion_mnist, mnist
from cfq_bench.data.datamodule import SplitDataModule
from cfq_bench.data.idx import read_idx
from cfq_bench.data.images import load_image_data
from cfq_bench.data.load import load_dataset
from cfq_bench.errors import UserError
from tests.support.images import ATTRIBUTES, write_celeba, write_idx, write_idx_files
from tests.test_cli import call, one_line_error


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    for loader in (mnist, fashion_mnist):
        write_idx_files(root / loader.FOLDER)
    write_celeba(root / celeba.FOLDER)
    return root


def settings_of(name: str, *overrides: str) -> ImageSettings:
    data = load_settings("lsq", name, overrides=["backbone=mlp2", *overrides]).data
    assert isinstance(data, ImageSettings)
    return data


def test_digits_become_a_binary_task_with_the_published_test_images(folder: Path) -> None:
    data = load_image_data(settings_of("mnist", "data.split.train=200"), 0, folder)
    assert [len(data.train), len(data.validation), len(data.test)] == [170, 30, 120]
    assert data.train.x.dtype == torch.uint8
    assert data.input_shape == (1, 8, 8)
    assert {str(row).split("-")[0] for row in data.test.row_ids} == {"test"}
    assert not set(data.train.row_ids) & set(data.validation.row_ids)
    digits = np.array([int(str(row).split("-")[1]) % 10 for row in data.test.row_ids])
    assert data.test.y.tolist() == (digits == 8).astype(int).tolist()


def test_a_class_pair_leaves_out_every_other_class(folder: Path) -> None:
    data = load_image_data(settings_of("fashion_mnist"), 0, folder)
    of_class = np.array([int(str(row).split("-")[1]) % 10 for row in data.test.row_ids])
    assert set(of_class) == {0, 6}
    assert data.test.y.tolist() == (of_class == 0).astype(int).tolist()


def test_the_split_depends_on_the_seed_alone(folder: Path) -> None:
    settings = settings_of("mnist")
    first, again, other = (load_image_data(settings, seed, folder) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_models_are_given_pixels_between_0_and_1(folder: Path) -> None:
    data = load_dataset(settings_of("mnist"), 0, folder)
    batches = SplitDataModule(data, 16, seed=0)
    for loader in (batches.train_dataloader(), batches.val_dataloader()):
        for x, y, rows in loader:
            split = data.train if loader is batches.train_loader else data.validation
            assert x.dtype == torch.float32
            assert torch.equal((x * 255).round().to(torch.uint8), split.x[rows])
            assert torch.equal(y, split.y[rows])
    assert torch.equal(torch.cat(list(data.test.blocks())), data.test.inputs())


def test_a_part_of_celeba_is_enough(folder: Path) -> None:
    images = celeba.load(folder)
    assert images.pixels.shape == (80, 3, 64, 64)
    assert tuple(images.attributes) == ATTRIBUTES
    data = load_image_data(settings_of("celeba"), 0, folder)
    assert [len(data.train), len(data.validation), len(data.test)] == [50, 15, 15]
    assert set(data.train_groups) == {"Male", "Young"}
    smiles = images.attributes.loc[data.test.row_ids, "Smiling"].to_numpy()
    assert data.test.y.tolist() == (smiles == 1).astype(int).tolist()
    red = data.test.inputs()[:, 0].mean((1, 2))
    assert red[data.test.y == 1].min() > red[data.test.y == 0].max()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"nothing", "not a whole gzip file"),
        (gzip.compress(b"data" * 99)[:-30] + b"\xff" * 30, "not a whole gzip file"),
        (gzip.compress(bytes([0, 0, 8, 3, 0, 0])), "is not an IDX file"),
        (None, "announces 4 values and holds 3"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "images.gz"
    if content is None:
        write_idx(path, np.zeros(4))
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1]))
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=words):
        read_idx(path)


@pytest.mark.parametrize(
    ("labels", "words"),
    [(np.arange(119) % 10, "120 images and 119 labels"), (np.arange(120) % 11, "has the label 10")],
)
def test_labels_that_do_not_fit_the_images_are_named(
    tmp_path: Path, labels: np.ndarray, words: str
) -> None:
    folder = write_idx_files(tmp_path / mnist.FOLDER)
    write_idx(folder / "t10k-labels-idx1-ubyte.gz", labels)
    with pytest.raises(UserError, match=words):
        mnist.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (celeba.PARTITION, b"000001.jpg 0 1\n", "a line is an image's name and 0, 1 or 2"),
        (celeba.PARTITION, b"000001.jpg 0\n000001.jpg 1\n", "two lines for 000001.jpg"),
        (celeba.ATTRIBUTES, b"1\n\xff\xfe\n", "cannot be read"),
        (celeba.ATTRIBUTES, b"1\nMale Young\n000001.jpg 1 foo\n", "000001.jpg has Young foo"),
        (celeba.ATTRIBUTES, b"1\nMale Young\n000001.jpg 0 1\n", "has Male 0, expected 1 or -1"),
        (celeba.ATTRIBUTES, b"1\nMale Young\n1.jpg 1 1\n2.jpg 1\n", "2.jpg has Young nan"),
        ("img_align_celeba/000001.jpg", b"no picture", "no image that can be decoded"),
    ],
)
def test_damaged_parts_of_celeba_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, words: str
) -> None:
    monkeypatch.setenv("CFQ_BENCH_CACHE", str(tmp_path / "cache"))
    folder = write_celeba(tmp_path / celeba.FOLDER)
    (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=words):
        celeba.load(tmp_path)


def test_images_are_cached_in_parts_and_stay_in_order(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = celeba.load(folder).pixels
    monkeypatch.setenv("CFQ_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(celeba, "SHARD", 33)
    assert torch.equal(celeba.load(folder).pixels, whole)
    assert len(list(tmp_path.glob("images/*.pt"))) == 3
    assert torch.equal(celeba.load(folder).pixels, whole)


def test_what_is_not_there_is_said_with_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFQ_BENCH_CACHE", str(tmp_path))
    monkeypatch.delenv("CFQ_BENCH_DATA", raising=False)
    with pytest.raises(UserError, match="by hand and save them in celeba/celeba"):
        celeba.load(tmp_path)
    listed = call("data", "list").stdout.splitlines()
    assert [line for line in listed if " celeba " in line and "by hand" in line]
    assert [line for line in listed if " mnist " in line and "to be downloaded" in line]
    assert "by hand" in one_line_error(call("data", "fetch", "celeba"))


@pytest.mark.parametrize(
    ("data", "override", "words"),
    [
        ("celeba", "data.protected=[Narrow_Eyes]", "'Narrow_Eyes' is protected and an edit may"),
        ("celeba", "data.protected=[Male, Young, Bald]", "'Bald' is protected and an edit may"),
        ("mnist", "evaluation.certificates=true", "certificates=true is for tables"),
        ("mnist", "quantization.input_blocks=true", "input_blocks=true is for tables"),
        ("mnist", "regime=moderate", "regimes are for tables, and data 'mnist' are images"),
        ("fashion_mnist", "data.target.favourable=Shirt", "yaml with the overrides: data.target"),
    ],
)
def test_what_does_not_fit_images_is_one_line(data: str, override: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        load_settings("ptq", data, overrides=[override])


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("data.target.favourable=11", "no image has digit 11"),
        ("data.protected=[hue]", "unknown attribute 'hue'"),
        ("data.split.validation=published", "no published validation images"),
    ],
)
def test_settings_that_do_not_fit_the_images_are_refused(
    folder: Path, override: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        load_image_data(settings_of("mnist", override), 0, folder)


def test_check_and_describe_know_images(folder: Path) -> None:
    text = call("data", "check", "celeba", "--data-dir", folder)
    assert "High_Cheekbones" in one_line_error(text)  # the made-up faces have fewer attributes
    text = call("data", "check", "mnist", "--data-dir", folder).stdout
    assert text.startswith("mnist: sound, with actions mnist/latent\n")
    assert "is not the published file" in text
    text = call("data", "describe", "mnist", "--data-dir", folder).stdout
    assert "8 x 8 pixels, 1 channel" in text
    assert "digit: 8 is favourable, against all others" in text
    assert "32 latents within train percentiles 0.5 to 99.5" in text


def test_a_data_set_brings_defaults_that_every_word_of_a_user_beats() -> None:
    plain = load_settings("cfq", "celeba")
    assert (plain.backbone.name, plain.solver.name) == ("small_cnn", "latent_search")
    assert plain.evaluation.max_rows == 100
    assert plain.method.model_dump()["pool_size"] == 2048
    assert "pool_size" not in load_settings("lsq", "celeba").method.model_dump()
    own = load_settings(
        "cfq",
        "celeba",
        backbone="mlp2",
        overrides=["evaluation.max_rows=7", "method.pool_size=9", "solver=pgd"],
    )
    assert (own.backbone.name, own.solver.name) == ("mlp2", "pgd")
    assert (own.evaluation.max_rows, own.method.model_dump()["pool_size"]) == (7, 9)


@pytest.mark.parametrize("line", ["data.fit.epochs=1", "regime=moderate", "allocator=hawq"])
def test_what_a_data_set_s_defaults_cannot_say_is_refused(line: str, tmp_path: Path) -> None:
    text = (packaged_conf_dir() / "data" / "mnist.yaml").read_text()
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"{text}  - {line}\n")
    with pytest.raises(UserError, match=f"{line.split('=')[0]} cannot be set there"):
        load_settings("lsq", str(mine))


def test_a_record_of_images_gives_its_settings_back() -> None:
    settings = load_settings("cfq", "celeba")
    config = settings.model_dump(mode="json")
    assert "defaults" not in config["data"]
    again = settings_from_config(config)
    assert again.model_dump(mode="json") == config
    assert type(again.actions) is type(settings.actions)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"data": "mnist", "actions": "german/paper"}, "are images and actions .* for tables"),
        ({"data": "german", "actions": "mnist/latent"}, "are tables and actions .* for images"),
        ({"data": "mnist", "overrides": ["evaluation.shift=noise"]}, "is for tables"),
        ({"data": "mnist", "overrides": ["data.kind=sounds"]}, "data.kind .* cannot be overridden"),
        ({"data": "mnist", "overrides": ["data.target.against=[8]"]}, "is also one of 'against'"),
        ({"data": "celeba", "overrides": ["actions.fixed=[Smiling]"]}, "both editable and fixed"),
    ],
)
def test_what_does_not_go_together_is_one_line(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        load_settings("lsq", **arguments)
