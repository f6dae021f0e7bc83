"""One person's action, the stored network it is asked of, and a record's settings read back."""

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from cfq_bench.cli.main import main
from cfq_bench.config.loader import known_names, load_settings, settings_from_config
from cfq_bench.data.dataset import load_data
from cfq_bench.errors import UserError
from cfq_bench.quantization.storage import network_from_bytes
from cfq_bench.record.store import RecordStore

pytestmark = pytest.mark.slow

SHORT = ["data.fit.epochs=1", "data.fit.teacher_epochs=8", "teacher.lr=5.0e-3"]
SHORT += ["evaluation.max_rows=100"]


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, pd.DataFrame]:
    """A results folder with one run: its id and its rows."""
    results = tmp_path_factory.mktemp("results")
    where = ["--results-dir", results, "--cache-dir", results / "cache", "--wandb", "disabled"]
    done = call("run", "--method", "lsq", "--data", "german", *where, *SHORT, "training.lr=1e-2")
    assert done.exit_code == 0, done.output
    store = RecordStore(results)
    (record,) = store.all()
    return results, record.run_id, store.read_rows(record.run_id)


def solve(results: Path, *arguments: str) -> Result:
    where = ["--results-dir", results, "--cache-dir", results / "cache"]
    return call("solve", *arguments, *where)


def test_a_damaged_network_is_one_clear_line() -> None:
    with pytest.raises(UserError, match=r"^here is damaged"):
        network_from_bytes(b"nonsense", "here")


@pytest.mark.parametrize("method", list(known_names("method")))
@pytest.mark.parametrize("solver", list(known_names("solver")))
def test_settings_come_back_from_a_record(method: str, solver: str) -> None:
    settings = load_settings(method, "german", solver=solver, overrides=["seed=3"])
    config = json.loads(json.dumps(settings.model_dump(mode="json")))
    assert settings_from_config(config).model_dump(mode="json") == config


def test_the_order_of_features_in_the_settings_changes_nothing() -> None:
    settings = load_settings("fp32", "german").data
    backwards = settings.model_copy(
        update={"features": dict(reversed(list(settings.features.items())))}
    )
    assert load_data(settings, 0).fingerprint == load_data(backwards, 0).fingerprint


def test_settings_of_another_version_are_refused() -> None:
    config = load_settings().model_dump(mode="json")
    del config["policy"]
    with pytest.raises(UserError, match="another version"):
        settings_from_config(config)


def test_advice_agrees_with_the_rows_of_the_run(finished: tuple[Path, str, pd.DataFrame]) -> None:
    results, run_id, rows = finished
    rows = rows[(rows["direction"] == "favourable") & (rows["status_f"] == "found")]
    kept, broken = rows[rows["valid_q"] == True], rows[rows["valid_q"] == False]  # noqa: E712
    assert len(kept)
    assert len(broken)
    for row, verdict in ((kept.iloc[0], "still works"), (broken.iloc[0], "FAILS")):
        page = solve(results, str(row["row_id"]), "--run", run_id[:8]).stdout
        assert "the full-precision model rejects" in page
        assert f"on the quantized model this action {verdict}" in page
        assert f"cost {row['cost_f']:.3f}" in page
        for feature in row["changed_f"].split(","):
            assert f"  {feature} " in page.split("rejects")[1]


def test_a_person_given_as_json_is_answered_as_the_row(
    finished: tuple[Path, str, pd.DataFrame],
) -> None:
    results, run_id, rows = finished
    row_id = str(rows["row_id"].iloc[0])
    page = solve(results, row_id, "--run", run_id).stdout
    person = {}
    for line in page.split("\n\n")[0].splitlines()[1:]:
        name, value = line.split()
        person[name] = int(value) if value.lstrip("-").isdigit() else value
    assert solve(results, json.dumps(person), "--run", run_id).stdout == page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["99999", "--data", "german"], ["no row '99999'"]),
        (['{"age": 22}', "--data", "german"], ["the row", "'month' is missing"]),
        (["{age}", "--data", "german"], ["not valid JSON"]),
        (["5", "--run", "ffff"], ["ffff"]),
    ],
)
def test_bad_questions_are_one_line(
    finished: tuple[Path, str, pd.DataFrame], arguments: list[str], words: list[str]
) -> None:
    result = solve(finished[0], *arguments, *SHORT)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    for word in words:
        assert word in line


def test_a_run_whose_network_is_gone_says_so(
    finished: tuple[Path, str, pd.DataFrame], tmp_path: Path
) -> None:
    results, run_id, _ = finished
    record = RecordStore(results).find(run_id)
    RecordStore(tmp_path).write(record, None)
    result = call("solve", "5", "--run", run_id, "--results-dir", tmp_path)
    assert result.exit_code == 2
    assert "was not kept" in result.stderr
