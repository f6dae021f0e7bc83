"""Adult, Bank and Default from the user's folder, the cache, or a verified download."""

import functools
import hashlib
import http.server
import io
import os
import socket
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.config.loader import known_names, load_settings
from cfq_bench.config.settings import DataSettings
from cfq_bench.data import adult, bank, default
from cfq_bench.data.dataset import load_data
from cfq_bench.data.sources import RawFile, download, locate, named_data_dir, obtain
from cfq_bench.data.table import load_table
from cfq_bench.errors import UserError
from tests.support.raw_files import write_raw_files
from tests.support.waiting import serving

REAL = os.environ.get("CFQ_BENCH_DATA", "")
NAMES = ("adult", "bank", "default")
SPREADSHEET = Path(__file__).parent / "golden" / "default.xls"
"""Default's first twelve clients as UCI lays them out; beside it the same in the published CSV."""


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_raw_files(tmp_path_factory.mktemp("raw"))


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFQ_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CFQ_BENCH_DATA", raising=False)


# --- the three data sets ---


@pytest.mark.parametrize(("name", "width", "groups"), [("adult", 91, 7), ("bank", 50, 9)])
def test_a_small_sample_has_the_width_of_the_whole_file(
    made_up: Path, name: str, width: int, groups: int
) -> None:
    data = load_data(small_split(name), 0, made_up)
    assert (data.schema.width, len(data.schema.groups)) == (width, groups)


def small_split(name: str) -> DataSettings:
    return load_settings("fp32", name, overrides=["data.split.train=60"]).data


def test_adult_keeps_its_test_file_and_its_missing_values(made_up: Path) -> None:
    table = load_table(small_split("adult"), made_up)
    assert table.test_rows is not None
    assert table.test_rows.tolist() == [False] * 60 + [True] * 30
    assert set(table.frame["income"]) == {"<=50K", ">50K"}
    for name in ("workclass", "occupation", "native_country"):
        assert "?" in table.frame[name].cat.categories
    tests = [load_data(small_split("adult"), seed, made_up).test.row_ids for seed in (0, 1)]
    assert tests[0].tolist() == tests[1].tolist() == list(range(60, 90))


def test_never_contacted_is_no_number_of_days(made_up: Path) -> None:
    raw = pd.read_csv(made_up / "bank/bank-full.csv", sep=";")
    frame = load_table(small_split("bank"), made_up).frame
    never = raw["pdays"] == -1
    assert 0 < never.sum() < len(raw)
    assert (frame["pdays"][never] == 0).all()
    assert frame["pdays"][~never].equals(raw["pdays"][~never])
    assert (frame["previous"][never] == 0).all()
    assert "duration" not in small_split("bank").features


def test_undocumented_codes_are_pooled(made_up: Path) -> None:
    frame = load_table(small_split("default"), made_up).frame
    raw = pd.read_csv(made_up / "default_credit/UCI_Credit_Card.csv")
    assert (frame["EDUCATION"] == "others").equals(raw["EDUCATION"].isin([0, 4, 5, 6]))
    assert (frame["MARRIAGE"] == "others").equals(raw["MARRIAGE"].isin([0, 3]))


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "words"),
    [
        ("adult", "adult/adult.data", ", Male,", ", M,", r"column 'sex', row \d+: .*'M'"),
        ("bank", "bank/bank-full.csv", '"may"', '"mai"', r"column 'month', row \d+: .*'mai'"),
        ("bank", "bank/bank-full.csv", '"job"', '"work"', r"column 'job' is missing"),
        ("default", "default_credit/UCI_Credit_Card.csv", '"SEX"', '"S"', "'SEX' is missing"),
    ],
)
def test_an_altered_file_is_refused_in_one_line(
    tmp_path: Path, name: str, file: str, old: str, new: str, words: str
) -> None:
    folder = write_raw_files(tmp_path / "raw")
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    with pytest.raises(UserError, match=words) as caught:
        load_table(small_split(name), folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_of_a_sample_comes_back_exactly(made_up: Path, name: str) -> None:
    config = small_split(name)
    frame = load_table(config, made_up).frame
    schema = load_data(config, 0, made_up).schema
    decoded = schema.decode(schema.encode(frame))
    for column in config.features:
        assert decoded[column].astype(str).tolist() == frame[column].astype(str).tolist()


@pytest.mark.parametrize("preset", [p for p in known_names("actions") if p.split("/")[0] in NAMES])
def test_every_preset_is_an_action_set(made_up: Path, preset: str) -> None:
    name = preset.split("/")[0]
    config = load_settings(data=name, actions=preset, overrides=["data.split.train=60"])
    data = load_data(config.data, 0, made_up)
    space = ActionSet(data.schema, config.actions, data.train.x)
    point = torch.randn(len(data.test), data.schema.width)
    assert not space.violations(data.test.x, space.project(data.test.x, point)).any()


@pytest.mark.skipif(not REAL, reason="CFQ_BENCH_DATA names no folder of raw files")
@pytest.mark.parametrize(
    ("name", "files", "train", "test", "width", "rate"),
    [
        ("adult", adult.FILES, 32_561, 16_281, 91, 11_687 / 48_842),
        ("bank", bank.FILES, 36_168, 9_043, 50, 5_289 / 45_211),
        ("default", default.FILES, 24_000, 6_000, 29, 23_364 / 30_000),
    ],
)
def test_the_published_files_have_the_published_counts(
    name: str, files: tuple[RawFile, ...], train: int, test: int, width: int, rate: float
) -> None:
    for raw in files:
        content = (Path(REAL) / raw.relative).read_bytes()
        assert hashlib.sha256(content).hexdigest() == raw.sha256
    data = load_data(load_settings(data=name).data, 0, Path(REAL))
    assert (len(data.train) + len(data.validation), len(data.test)) == (train, test)
    assert data.schema.width == width
    labels = torch.cat([data.train.y, data.validation.y, data.test.y])
    assert labels.double().mean().item() == pytest.approx(rate, abs=1e-9)


# --- where files come from ---

CONTENT = b"a,b\n1,2\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A web server on this machine with the file, a zip around it, and a zip without it."""
    root = tmp_path / "www"
    root.mkdir()
    (root / "raw.csv").write_bytes(CONTENT)
    (root / "other.csv").write_bytes(b"<html>log in</html>")
    for name, member in (("good.zip", "raw.csv"), ("bad.zip", "else.csv")):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(member, CONTENT)
        (root / name).write_bytes(packed.getvalue())

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    handler = functools.partial(Quiet, directory=str(root))
    address = ("127.0.0.1", 0)
    with http.server.ThreadingHTTPServer(address, handler) as running, serving(running):
        yield f"http://127.0.0.1:{running.server_port}"


def raw_file(url: str | None = None, member: str | None = None) -> RawFile:
    digest = hashlib.sha256(CONTENT).hexdigest()
    return RawFile("made", "raw.csv", digest, "https://example.org/made", url, member)


@pytest.mark.parametrize(("file", "member"), [("raw.csv", None), ("good.zip", "raw.csv")])
def test_a_download_is_verified_and_kept(server: str, file: str, member: str | None) -> None:
    raw = raw_file(f"{server}/{file}", member)
    assert locate(raw, None) is None
    path = obtain(raw, None)
    assert path == raw.cached()
    assert path.read_bytes() == CONTENT
    assert obtain(replace(raw, url="http://127.0.0.1:1/"), None) == path  # no second download


@pytest.mark.parametrize(
    ("file", "member", "words"),
    [
        ("other.csv", None, "is not the published file"),
        ("absent.csv", None, "the server answers 404"),
        ("raw.csv", "raw.csv", "not a zip archive with raw.csv"),
        ("bad.zip", "raw.csv", "not a zip archive with raw.csv"),
    ],
)
def test_other_content_is_never_kept(
    server: str, file: str, member: str | None, words: str
) -> None:
    raw = raw_file(f"{server}/{file}", member)
    with pytest.raises(UserError, match=words) as caught:
        obtain(raw, None)
    assert "\n" not in str(caught.value)
    assert not raw.cached().exists()


def test_a_spreadsheet_becomes_the_published_table(server: str, tmp_path: Path) -> None:
    content = SPREADSHEET.read_bytes()
    (tmp_path / "www" / "table.xls").write_bytes(content)
    digest = hashlib.sha256(SPREADSHEET.with_suffix(".csv").read_bytes()).hexdigest()
    raw = replace(
        raw_file(f"{server}/table.xls"), sha256=digest, convert=default.csv_of_spreadsheet
    )
    assert obtain(raw, None).read_bytes() == SPREADSHEET.with_suffix(".csv").read_bytes()
    with pytest.raises(UserError, match=r"other\.csv cannot be read .*: get raw\.csv from"):
        download(replace(raw, url=f"{server}/other.csv"))


@pytest.mark.skipif(not REAL, reason="CFQ_BENCH_DATA names no folder of raw files")
def test_every_number_of_the_published_table_is_written_as_there() -> None:
    lines = (Path(REAL) / default.FILES[0].relative).read_text().splitlines()[1:]
    texts = {text for line in lines for text in line.split(",")}
    assert {default.whole_number(int(float(text))) for text in texts} == texts


def test_without_a_network_the_manual_steps_are_told() -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        raw = raw_file(f"http://127.0.0.1:{taken.getsockname()[1]}/raw.csv")
        with pytest.raises(UserError) as caught:
            obtain(raw, None)
    message = str(caught.value)
    assert "\n" not in message
    for word in ("no connection", raw.page, str(raw.cached()), "made/raw.csv", "--data-dir"):
        assert word in message


def test_a_file_without_an_address_tells_the_manual_steps() -> None:
    with pytest.raises(UserError, match=r"no open address: get raw\.csv from https://example"):
        obtain(raw_file(), None)


def test_the_users_folder_comes_before_the_cache(tmp_path: Path) -> None:
    raw = raw_file()
    raw.cached().parent.mkdir(parents=True)
    raw.cached().write_bytes(CONTENT)
    assert obtain(raw, tmp_path) == raw.cached()
    own = tmp_path / raw.relative
    own.parent.mkdir()
    own.write_text("a,b\n3,4\n")
    assert obtain(raw, tmp_path) == own


def test_a_damaged_cached_file_is_named() -> None:
    raw = raw_file()
    raw.cached().parent.mkdir(parents=True)
    raw.cached().write_bytes(CONTENT[:-3])
    with pytest.raises(UserError, match="is damaged: delete it"):
        obtain(raw, None)


def test_the_option_comes_before_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert named_data_dir(None) is None
    monkeypatch.setenv("CFQ_BENCH_DATA", str(tmp_path))
    assert named_data_dir(None) == tmp_path
    (tmp_path / "x").mkdir()
    assert named_data_dir(tmp_path / "x") == tmp_path / "x"
    with pytest.raises(UserError, match="y, which --data-dir names, is no folder"):
        named_data_dir(tmp_path / "y")
    monkeypatch.setenv("CFQ_BENCH_DATA", str(tmp_path / "z"))
    with pytest.raises(UserError, match="z, which CFQ_BENCH_DATA names, is no folder"):
        named_data_dir(None)
