"""W&B sweeps: created and worked off by the real client, against a server on loopback."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cfq_bench import experiment
from cfq_bench.cli.main import main
from cfq_bench.config.loader import load_settings
from cfq_bench.errors import UserError
from cfq_bench.sweeps import wandb as ours
from cfq_bench.tracking import agent
from tests.support.fake_wandb import FakeWandb
from tests.support.waiting import run_process
from tests.support.wandb_file import offline_runs

pytestmark = pytest.mark.slow

SHORT = ["data.fit.epochs=1", "data.fit.teacher_epochs=8", "teacher.lr=5.0e-3"]
SHORT += ["evaluation.max_rows=10"]
RUN = ["run", "--quiet", "--method", "lsq", "--data", "german", *SHORT]
REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def clean_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for folder in ("home", "cwd"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "home" / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "home" / "wandb"))
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path / "cwd")
    yield
    if "wandb" in sys.modules:
        import wandb

        wandb.teardown()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWandb]:
    fake = FakeWandb()
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", fake.url)
    yield fake
    fake.kill()


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What an agent leaves for its run: `asked({"method.eta": 2})`."""

    def ask(values: dict[str, Any]) -> None:
        path = tmp_path / "config-run.yaml"
        every = {"wandb_version": 1, **{key: {"value": value} for key, value in values.items()}}
        path.write_text(json.dumps(every))
        monkeypatch.setenv("WANDB_SWEEP_ID", "sweep")
        monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", str(path))

    return ask


def write_sweep(folder: Path, run: list[str], **more: Any) -> Path:
    path = folder / "sweep.yaml"
    every = {
        "program": "cfq-bench",
        "method": "grid",
        "command": ["cfq-bench", *run, "${args_no_hyphens}"],
        "parameters": {
            "training.lr": {"values": [1e-3, 3e-4]},
            "evaluation.split": {"value": "validation"},
        },
        **more,
    }
    path.write_text(json.dumps(every))
    return path


class TestAgent:
    def test_without_an_agent_nothing_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert agent.sweep_overrides() == []
        monkeypatch.setenv("WANDB_SWEEP_ID", "sweep")
        assert not agent.under_agent()

    def test_values_become_overrides_at_any_depth(self, asked: Any) -> None:
        asked({"method.eta": 0.5, "method": {"valid": {"value": "hard"}}, "budget.bits": [4, 8]})
        assert agent.sweep_overrides() == [
            "method.eta=0.5",
            'method.valid="hard"',
            "budget.bits=[4, 8]",
        ]

    def test_a_whole_group_is_refused(self, asked: Any) -> None:
        asked({"method": "lsq"})
        with pytest.raises(UserError, match="write --method NAME into the sweep's command"):
            agent.sweep_overrides()

    def test_a_run_with_other_values_is_refused(self, asked: Any, tmp_path: Path) -> None:
        asked({"training.lr": 0.5})
        settings = load_settings("lsq", "german", overrides=SHORT)
        options = experiment.Options(results_dir=tmp_path / "results")
        with pytest.raises(UserError, match=r"asks for training\.lr=0\.5, .* have 0\.001"):
            experiment.run(settings, options)

    def test_the_sweep_wins_over_the_command_line_and_is_told_of_a_known_record(
        self, asked: Any, tmp_path: Path
    ) -> None:
        asked({"training.lr": 3e-4, "seed": 0})
        results = tmp_path / "results"
        where = ["--results-dir", str(results), "--wandb", "offline", "training.lr=7.0"]
        for _ in range(2):
            done = CliRunner().invoke(main, [*RUN, *where])
            assert done.exit_code == 0, done.output
        (path,) = (results / "runs").glob("*.json")
        record = json.loads(path.read_text())
        assert record["config"]["training"]["lr"] == 3e-4
        first, second = offline_runs(results)  # the second was answered from the record
        for run in (first, second):
            assert run.config["training"]["lr"] == run.config["training.lr"] == 3e-4
            assert run.config["run_id"] == record["run_id"]
            error = record["metrics"]["recourse/boundary_error"]
            assert run.summary["recourse/boundary_error"] == error
            assert run.exit_code == 0


class TestCreate:
    def test_a_sweep_is_created(self, server: FakeWandb, tmp_path: Path) -> None:
        path = write_sweep(tmp_path, RUN, project="mine")
        done = CliRunner().invoke(main, ["sweep", "--wandb", str(path)])
        assert done.exit_code == 0, done.output
        assert done.stdout == "wandb agent nobody/mine/sweep0\n"
        assert done.stderr == ""
        assert server.sweeps["sweep0"]["config"]["command"][-1] == "${args_no_hyphens}"

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"command": ["cfq-bench", "run", "${args}"]}, "${args_no_hyphens}"),
            ({"parameters": None}, "parameters"),
        ],
    )
    def test_a_sweep_that_cannot_work_is_refused(
        self, changes: dict[str, Any], words: str, server: FakeWandb, tmp_path: Path
    ) -> None:
        path = write_sweep(tmp_path, RUN, **changes)
        done = CliRunner().invoke(main, ["sweep", "--wandb", str(path)])
        assert done.exit_code == 2
        assert words in done.stderr
        assert server.sweeps == {}

    def test_a_sweep_of_ours_is_pointed_out(self, tmp_path: Path) -> None:
        path = REPOSITORY / "sweeps" / "eta_lambda.yaml"
        done = CliRunner().invoke(main, ["sweep", "--wandb", str(path)])
        assert done.exit_code == 2
        assert "is no W&B sweep" in done.stderr

    def test_no_server_is_one_line_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write_sweep(tmp_path, RUN)
        for key in (None, "0" * 40):
            if key is not None:
                monkeypatch.setenv("WANDB_API_KEY", key)
            begin = time.monotonic()
            done = CliRunner().invoke(main, ["sweep", "--wandb", str(path)])
            assert time.monotonic() - begin < 20
            assert done.exit_code == 2
            assert len(done.stderr.splitlines()) == 1
            assert "127.0.0.1:9 cannot be used" in done.stderr

    def test_a_server_that_falls_silent_costs_the_time_out(
        self, server: FakeWandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ours, "CREATE_TIMEOUT_S", 0.5)
        monkeypatch.setattr(ours, "resolve_mode", lambda mode: ("online", None))
        server.freeze()
        begin = time.monotonic()
        with pytest.raises(UserError, match=r"no answer in 0\.5 s"):
            ours.create_sweep(write_sweep(tmp_path, RUN))
        assert time.monotonic() - begin < 20


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_agent_works_a_sweep_off(server: FakeWandb, tmp_path: Path) -> None:
    """The real client: one run per point, with the sweep's values, and nothing left behind."""
    results = tmp_path / "results"
    command = [*RUN, "--wandb", "online", "--results-dir", str(results), "training.lr=7.0"]
    values = {"training.lr": {"value": 3e-4}, "evaluation.split": {"value": "validation"}}
    path = write_sweep(tmp_path, command, parameters=values)  # a run takes seconds to start
    call = [sys.executable, "-c", "from cfq_bench.cli.main import main; main()", "sweep"]
    call += ["--wandb", str(path), "--agents", "1", "--results-dir", str(results)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = run_process(call, 280, env=environment)
    assert done.returncode == 0, done.stderr
    rates = {}
    for name, run in server.runs.items():
        rates[name] = run["config"]["training"]["lr"]
        assert run["config"]["training.lr"] == rates[name]
        assert run["config"]["evaluation"]["split"] == "validation"
        assert run["exit_code"] == 0
        record = json.loads((results / "runs" / f"{run['config']['run_id']}.json").read_text())
        assert record["config"]["training"]["lr"] == rates[name]
        error = record["metrics"]["recourse/boundary_error"]
        assert run["summary"]["recourse/boundary_error"] == error
    assert rates == {"sweep0run1": 3e-4}  # the id that the agent gave
    assert list((tmp_path / "cwd").iterdir()) == []


def test_an_agent_that_fails_is_told(
    server: FakeWandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Agent:
        def __init__(self, command: list[str], env: dict[str, str]) -> None:
            assert command[1:] == ["-m", "wandb", "agent", "nobody/cfq-bench/sweep0"]
            assert env["PATH"].startswith(str(Path(sys.executable).parent))
            self.code = 1 if env["WANDB_DIR"] == str(tmp_path / "bad") else 0

        def wait(self) -> int:
            return self.code

        def poll(self) -> int:
            return self.code

    monkeypatch.setattr(ours.subprocess, "Popen", Agent)
    for folder, good in (("good", True), ("bad", False)):
        assert ours.run_agents("nobody/cfq-bench/sweep0", 2, tmp_path / folder) is good
