"""Images in records and on contact sheets: pixels are read back from where they are shown."""

from __future__ import annotations

import base64
import dataclasses
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from cfq_bench.data import mnist
from cfq_bench.evaluation.pictures import SHOWN, STRIPS, strip
from cfq_bench.experiment import Options, run
from cfq_bench.figures.draw import build_figure, draw_figures
from cfq_bench.figures.sheets import FAILED, NONE_FOUND
from cfq_bench.record.archive import Archive, Validity, pack, unpack
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from tests.support.images import SIDE, write_idx_files
from tests.test_dashboard import export_text
from tests.test_figures import DETAILS, made
from tests.test_images_run import settings_of

pytestmark = [pytest.mark.usefixtures("without_pdf"), pytest.mark.slow]

WHITE, RED, BLUE = (1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)


def pixels(png: str) -> NDArray[np.uint8]:
    with Image.open(BytesIO(base64.b64decode(png))) as file:
        return np.asarray(file)


@pytest.mark.parametrize("colours", [1, 3])
def test_a_strip_holds_every_pixel(colours: int) -> None:
    codes = torch.randint(0, 256, (3, colours, 5, 4), generator=torch.Generator().manual_seed(0))
    found = pixels(strip(codes / 255)).reshape(5, 12, colours)
    for i in range(3):
        assert np.array_equal(found[:, 4 * i : 4 * (i + 1)], codes[i].permute(1, 2, 0).numpy())


def test_what_lies_outside_black_and_white_is_cut_off() -> None:
    assert pixels(strip(torch.tensor([[[[-0.5, 0.0, 1.0, 1.5]]]]))).tolist() == [[0, 0, 255, 255]]


def grey(*values: float) -> str:
    """A strip of images of 8 x 8 pixels, each of one grey."""
    return strip(torch.tensor(values)[:, None, None, None].expand(-1, 1, 8, 8))


def shown(on_q: tuple[float, float], found: list[bool], held: list[bool]) -> dict[str, Any]:
    pictures = {
        "row_ids": ["a", "b"],
        "found": found,
        "held": held,
        "factual": grey(0.2, 0.4),
        "reconstruction": grey(0.0, 1.0),
        "on_f": grey(1.0, 0.0),
        "on_q": grey(*on_q),
    }
    return {**DETAILS, "pictures": pictures}


def lines_of(details: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    """The lines of the first data set's sheet, by the names that stand beside them."""
    results = made(
        "table30", details=details, data=["mnist", "celeba"], row=["LSQ", "CFQ"], seed=["0"]
    )
    figure = build_figure("pictures", results)
    assert figure is not None
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["mnist", "celeba"]
    ax = figure.axes[0]
    sheet = np.asarray(ax.images[0].get_array())
    tall = 8 + 1
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert sheet.shape[0] == tall * len(names)
    places = [round(y + 0.5 - tall / 2) for y in ax.get_yticks()]
    return {name: sheet[at : at + 8] for name, at in zip(names, places, strict=True)}


def middles(line: NDArray[np.float64]) -> list[tuple[float, ...]]:
    """The colour of every tile's middle: image, difference, image, difference."""
    width = 8
    at = [4, 4 + width + 1, 4 + 2 * width + 3, 4 + 3 * width + 4]
    return [tuple(line[4, x].round(2).tolist()) for x in at]


def test_a_sheet_shows_images_counterfactuals_and_differences() -> None:
    lines = lines_of(shown((1.0, 0.2), [True, True], [True, True]))
    assert list(lines) == ["image, decoded", "under f, change", "LSQ", "CFQ"]
    black = (0.0, 0.0, 0.0)
    dark, light = (0.2,) * 3, (0.4,) * 3
    assert middles(lines["image, decoded"]) == [dark, black, light, WHITE]
    # From its reconstruction the first image became bright, the second dark.
    assert middles(lines["under f, change"]) == [WHITE, RED, black, BLUE]
    assert middles(lines["LSQ"]) == [WHITE, WHITE, dark, (1.0, 0.4, 0.4)]


def test_what_failed_is_framed_and_what_is_missing_is_grey() -> None:
    lines = lines_of(shown((0.0, 0.0), [True, False], [False, True]))
    line = lines["CFQ"]
    for edge in (line[0, 0], line[7, 7], line[1, 1]):
        assert edge == pytest.approx(FAILED)
    assert tuple(line[2, 2]) == (0.0, 0.0, 0.0)
    assert middles(line)[2:] == [(NONE_FOUND,) * 3] * 2
    assert line[0, 8 + 1] == pytest.approx((0.0, 0.0, 1.0)), "no frame around a difference"


def test_a_row_without_the_first_seed_is_on_no_sheet_of_it() -> None:
    details = shown((1.0, 0.2), [True, True], [True, True])
    results = made("table30", details=details, data=["mnist"], row=["LSQ", "CFQ", "PACT"])
    missing = {("LSQ", 0), ("PACT", 1)}
    kept = tuple(one for one in results.finished if (one.row, one.seed) not in missing)
    figure = build_figure("pictures", dataclasses.replace(results, finished=kept))
    assert figure is not None
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["image, decoded", "under f, change", "PACT", "CFQ"]


def test_reports_of_images_have_sheets_and_others_do_not() -> None:
    details = shown((1.0, 0.2), [True, True], [True, True])
    names = {
        d.name for d in draw_figures(made("table30", details=details, data=["mnist"], seed=["0"]))
    }
    assert "pictures" in names
    assert "pictures" not in {d.name for d in draw_figures(made("table1", data=["german"]))}
    names = {
        d.name for d in draw_figures(made("table31", details=details, data=["mnist"], seed=["0"]))
    }
    assert {"figure-25", "figure-26"} <= names
    assert not {"figure-03-04", "figure-05"} & names


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    root = tmp_path_factory.mktemp("pictures")
    write_idx_files(root / mnist.FOLDER)
    options = Options(root / "results", root / "cache", root, wandb="disabled")
    return {name: run(settings_of(name, "mnist"), options) for name in ("fp32", "lsq")}


def test_a_record_of_images_keeps_a_few_of_them(records: dict[str, Record]) -> None:
    kept = {name: record.details["pictures"] for name, record in records.items()}
    assert len(kept["lsq"]["row_ids"]) == SHOWN
    assert all(str(row).startswith("test-") for row in kept["lsq"]["row_ids"])
    for name in STRIPS:
        assert pixels(kept["lsq"][name]).shape == (SIDE, SIDE * SHOWN)
        if name != "on_q":
            assert kept["lsq"][name] == kept["fp32"][name], "the same people for every method"
    # The teacher, deployed as it is, gives its own counterfactuals.
    assert kept["fp32"]["on_q"] == kept["fp32"]["on_f"]
    assert kept["fp32"]["held"] == kept["fp32"]["found"] == [True] * SHOWN


def test_where_nobody_has_an_action_there_is_nothing_to_show(tmp_path: Path) -> None:
    write_idx_files(tmp_path / mnist.FOLDER)
    options = Options(tmp_path / "results", tmp_path / "cache", tmp_path, wandb="disabled")
    record = run(settings_of("fp32", "mnist", "evaluation.kappa=900.0"), options)
    assert record.status == "ok", record.reason
    assert record.metrics["recourse/frr"] == 0.0
    assert "pictures" not in record.details


def test_names_of_images_survive_the_archive(records: dict[str, Record]) -> None:
    rows = {
        "favourable": Validity.of(["test-7", "test-12"], [True, False]),
        "adverse": Validity.of([3, 1], [False, False]),
    }
    record = records["lsq"]
    packed = pack(Archive((record,), {record.run_id: rows}))
    again = unpack(packed, "test").rows[record.run_id]
    assert again["favourable"].failures == {"test-7": 0.0, "test-12": 1.0}
    assert again["adverse"].failures == {3: 1.0, 1: 1.0}
    assert pack(Archive((record,), {record.run_id: again})) == packed


def test_the_dashboard_shows_a_run_s_pictures(records: dict[str, Record], tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    store.write(records["lsq"], None)
    page = export_text(tmp_path)
    kept = records["lsq"].details["pictures"]
    shown = re.findall(r'<img src="data:image/png;base64,([^"]+)" alt="([^"]+)">', page)
    assert [png for png, _ in shown] == [kept[name] for name in STRIPS]
    assert len({title for _, title in shown}) == len(STRIPS)
