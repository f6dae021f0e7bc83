"""W&B is a sink: what arrives there, and what it can never do to a run."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cfq_bench.tracking import mode as mode_module
from cfq_bench.tracking import wandb as tracking
from cfq_bench.tracking.mode import Mode, resolve_mode
from cfq_bench.tracking.wandb import Tracker
from tests.support.fake_wandb import FakeWandb
from tests.support.waiting import run_process
from tests.support.wandb_file import offline_runs

pytestmark = pytest.mark.slow

KEY = "0" * 40
NOBODY = "http://127.0.0.1:9"  # the discard port: connections are refused
CONFIG = {"seed": 0, "method": {"name": "lsq", "bits": 4}, "note": None}
REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def clean_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No key, no network, no home, and a wandb that has read no settings yet."""
    _stop_wandb()
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for folder in ("home", "cwd"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "home" / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "home" / "wandb"))
    monkeypatch.setenv("WANDB_BASE_URL", NOBODY)
    monkeypatch.chdir(tmp_path / "cwd")
    yield
    _stop_wandb()


def _stop_wandb() -> None:
    if "wandb" in sys.modules:
        import wandb

        wandb.teardown()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWandb]:
    fake = FakeWandb()
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_BASE_URL", fake.url)
    yield fake
    fake.kill()


def start(directory: Path, mode: Mode = "offline", run_id: str = "00ff", **more: Any) -> Tracker:
    arguments: dict[str, Any] = {
        "name": "lsq seed 0",
        "config": CONFIG,
        "group": "suite",
        "tags": ["lsq", "adult"],
    }
    arguments.update(more)
    return Tracker.start(mode, run_id=run_id, directory=directory, **arguments)


class TestMode:
    def test_without_a_key_auto_is_offline_and_says_nothing(self) -> None:
        assert resolve_mode("auto") == ("offline", None)

    def test_without_a_key_online_is_offline_and_says_why(self) -> None:
        effective, note = resolve_mode("online")
        assert effective == "offline"
        assert note is not None
        assert "wandb login" in note
        assert "wandb sync <dir>" in note

    @pytest.mark.parametrize("mode", ["offline", "disabled"])
    def test_auto_follows_the_environment(
        self, mode: str, server: FakeWandb, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WANDB_MODE", mode)
        assert resolve_mode("auto") == (mode, None)
        assert resolve_mode("online") == ("online", None)

    def test_a_key_and_a_server_is_online(self, server: FakeWandb) -> None:
        assert resolve_mode("auto") == ("online", None)

    @pytest.mark.parametrize("place", ["netrc", "settings"])
    def test_the_key_may_stand_in_a_file(
        self, place: str, tmp_path: Path, server: FakeWandb, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("WANDB_API_KEY")
        if place == "netrc":
            host = server.url.removeprefix("http://")
            line = f"machine {host} login user password {KEY}\n"
            (tmp_path / "home" / "netrc").write_text(line)
        else:
            monkeypatch.delenv("WANDB_BASE_URL")
            (tmp_path / "home" / "wandb").mkdir()
            text = f"[default]\nbase_url = {server.url}\napi_key = {KEY}\n"
            (tmp_path / "home" / "wandb" / "settings").write_text(text)
        assert resolve_mode("auto") == ("online", None)

    def test_a_server_that_never_answers_costs_one_probe(
        self, server: FakeWandb, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mode_module, "PROBE_TIMEOUT_S", 0.3)
        server.freeze()
        begin = time.monotonic()
        effective, note = resolve_mode("auto")
        assert time.monotonic() - begin < 2
        assert effective == "offline"
        assert note is not None
        assert f"no answer from {server.url}" in note


class TestOffline:
    def test_everything_is_in_the_file(self, tmp_path: Path) -> None:
        with start(tmp_path / "new" / "runs") as tracker:
            tracker.log({"budget/avg_bits": 4.0, "budget/validity": 0.9})
            tracker.finish({"validity": 0.75, "flip_rate": None})
        (run,) = offline_runs(tmp_path / "new" / "runs")
        assert run.config["run_id"] == "00ff"
        assert {key: run.config[key] for key in CONFIG} == CONFIG
        assert (run.name, run.group, run.job_type) == ("lsq seed 0", "suite", "run")
        assert run.tags == ["lsq", "adult"]
        assert run.history[0]["budget/validity"] == 0.9
        assert run.summary["validity"] == 0.75
        assert "flip_rate" not in run.summary
        assert run.metrics == {"budget/*": "budget/avg_bits"}
        assert run.exit_code == 0
        assert tracker.note is None
        assert tracker.config == {"run_id": "00ff", **CONFIG}

    def test_pictures_are_among_its_media(self, tmp_path: Path) -> None:
        png = BytesIO()
        Image.new("L", (4, 2), 77).save(png, "png")
        with start(tmp_path) as tracker:
            tracker.show({"pictures/on_f": png.getvalue()})
        assert tracker.note is None
        (kept,) = tmp_path.rglob("media/images/**/*.png")
        with Image.open(kept) as picture:
            assert picture.size == (4, 2)
            assert picture.convert("L").getpixel((1, 1)) == 77

    def test_three_runs_are_three_runs(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setenv("WANDB_RUN_ID", "the-same")
        trackers = [start(tmp_path, run_id=f"id{number}") for number in range(3)]
        for number, tracker in enumerate(trackers):
            tracker.log({"number": float(number)})
        for tracker in trackers:
            tracker.finish({})
        runs = offline_runs(tmp_path)
        assert len({run.id for run in runs}) == 3
        rows = {run.config["run_id"]: [row["number"] for row in run.history] for run in runs}
        assert rows == {"id0": [0.0], "id1": [1.0], "id2": [2.0]}

    def test_rows_logged_out_of_order_all_stay(self, tmp_path: Path) -> None:
        bits = [8.0, 2.0, 4.0, 2.0, 3.0]
        with start(tmp_path) as tracker:
            for avg_bits in bits:
                tracker.log({"budget/avg_bits": avg_bits})
        (run,) = offline_runs(tmp_path)
        assert [row["budget/avg_bits"] for row in run.history] == bits

    @pytest.mark.parametrize(
        ("error", "exit_code"), [(RuntimeError("no"), 1), (KeyboardInterrupt(), 255)]
    )
    def test_a_run_left_by_an_exception_has_failed(
        self, error: BaseException, exit_code: int, tmp_path: Path
    ) -> None:
        with pytest.raises(type(error)), start(tmp_path):
            raise error
        (run,) = offline_runs(tmp_path)
        assert run.exit_code == exit_code

    def test_the_values_of_a_sweep_win(self, tmp_path: Path, monkeypatch: Any) -> None:
        (tmp_path / "sweep.yaml").write_text("seed: {value: 7}\n")
        monkeypatch.setenv("WANDB_SWEEP_ID", "sweep")
        monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", str(tmp_path / "sweep.yaml"))
        with start(tmp_path) as tracker:
            assert tracker.config == {"run_id": "00ff", **CONFIG, "seed": 7}

    def test_the_environment_is_left_alone(self, tmp_path: Path) -> None:
        before = dict(os.environ)
        with start(tmp_path):
            pass
        # wandb tells child processes of its service, so that they can log to the same run.
        service = {"WANDB_SERVICE": os.environ.get("WANDB_SERVICE")}
        assert {**os.environ, **service} == {**before, **service}


class TestOnline:
    def test_a_run_arrives(self, tmp_path: Path, server: FakeWandb) -> None:
        with start(tmp_path, "online") as tracker:
            tracker.log({"budget/avg_bits": 4.0})
            tracker.finish({"validity": 0.75, "flip_rate": None})
        (run,) = server.runs.values()
        assert run["config"]["method"] == CONFIG["method"]
        assert (run["name"], run["group"]) == ("lsq seed 0", "suite")
        assert run["tags"] == ["lsq", "adult"]
        assert [row["budget/avg_bits"] for row in run["history"]] == [4.0]
        assert run["summary"]["validity"] == 0.75
        assert "flip_rate" not in run["summary"]
        assert run["exit_code"] == 0
        assert tracker.note is None

    def test_a_run_left_by_an_exception_has_failed(self, tmp_path: Path, server: FakeWandb) -> None:
        with pytest.raises(RuntimeError), start(tmp_path, "auto"):
            raise RuntimeError
        (run,) = server.runs.values()
        assert run["exit_code"] == 1

    @pytest.mark.parametrize("death", ["kill", "freeze"])
    def test_a_server_that_dies_costs_the_time_out(
        self, death: str, tmp_path: Path, server: FakeWandb, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tracking, "FINISH_TIMEOUT_S", 1.0)
        tracker = start(tmp_path, "online")
        getattr(server, death)()
        tracker.log({"budget/avg_bits": 4.0})
        begin = time.monotonic()
        tracker.finish({"validity": 0.75})
        assert time.monotonic() - begin < 4
        (directory,) = tmp_path.glob("wandb/run-*")
        assert tracker.note is not None
        assert f"wandb sync {directory}" in tracker.note

    def test_a_server_that_does_not_start_runs_leaves_one_offline_run(
        self, tmp_path: Path, server: FakeWandb, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tracking, "INIT_TIMEOUT_S", 1.0)
        server.freeze()
        with start(tmp_path, "online") as tracker:
            tracker.finish({"validity": 0.75})
        (run,) = offline_runs(tmp_path)
        assert run.summary["validity"] == 0.75
        (directory,) = tmp_path.glob("wandb/*run-*")
        assert tracker.note is not None
        assert f"wandb sync {directory}" in tracker.note

    def test_a_wandb_that_cannot_start_costs_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def init(*_args: Any, **_arguments: Any) -> None:
            raise OSError("no room\nfor it")

        monkeypatch.setattr("wandb.init", init)
        with start(tmp_path) as tracker:
            tracker.log({"validity": 0.5})
            tracker.finish({"validity": 0.5})
        assert tracker.logger is False
        assert tracker.note == "W&B: no room; this run is not tracked"


class TestProcess:
    """What only a process of its own can show: its output, its imports, its end."""

    @pytest.mark.parametrize("mode", ["auto", "online"])
    def test_a_refused_port_ends_offline(
        self,
        mode: Mode,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        monkeypatch.setattr(tracking, "INIT_TIMEOUT_S", 2.0)
        with start(tmp_path, mode) as tracker:
            tracker.finish({"validity": 0.5})
        (directory,) = tmp_path.glob("wandb/offline-run-*")
        assert tracker.note is not None
        assert f"wandb sync {directory}" in tracker.note
        assert [run.exit_code for run in offline_runs(tmp_path)] == [0]
        assert capfd.readouterr() == ("", "")

    def test_disabled_imports_no_wandb(self, tmp_path: Path) -> None:
        done = run_script(DISABLED, tmp_path / "runs")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert not (tmp_path / "runs").exists()


START = """
import sys
from pathlib import Path
from cfq_bench.tracking import wandb as tracking

def start(mode):
    return tracking.Tracker.start(
        mode, run_id="00ff", name="n", config={}, group="g", tags=[], directory=Path(sys.argv[1])
    )
"""

DISABLED = """
with start("disabled") as tracker:
    tracker.log({"validity": 0.5})
    tracker.finish({"validity": 0.5})
assert tracker.logger is False
assert tracker.config == {"run_id": "00ff"}
assert not {"wandb", "torch", "lightning"} & set(sys.modules)
"""


def run_script(script: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START + script, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return run_process(command, env=environment)
