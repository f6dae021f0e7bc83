"""``cfq-bench data``: list, fetch, describe and check."""

from pathlib import Path

import pytest

from cfq_bench.cli.main import main
from cfq_bench.config.loader import known_names
from tests.support.raw_files import write_raw_files
from tests.test_cli import GOOD_ROWS, call, make_table, one_line_error


@pytest.fixture(autouse=True)
def nothing_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFQ_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CFQ_BENCH_DATA", raising=False)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_raw_files(tmp_path_factory.mktemp("raw"))


def lines_with(text: str, *words: str) -> list[str]:
    return [line for line in text.splitlines() if all(word in line for word in words)]


@pytest.mark.parametrize("command", [[], ["run"], ["data"]])
def test_examples_in_the_help_keep_their_lines(command: list[str]) -> None:
    text = call(*command, "--help").stdout
    assert "\\b" not in text
    assert len(lines_with(text, "    cfq-bench ")) >= 3
    assert "data" in main.commands


def test_list_says_where_the_files_are(made_up: Path) -> None:
    text = call("data", "list").stdout
    assert len(text.splitlines()) == len(known_names("data"))
    assert lines_with(text, "compas", "ready")
    assert lines_with(text, "adult", "to be downloaded")
    assert lines_with(text, "default", "to be downloaded")
    text = call("data", "list", "--data-dir", made_up).stdout
    assert lines_with(text, "bank", f"in {made_up / 'bank'}")


def test_fetch_finds_what_is_there_and_tells_what_is_not(made_up: Path) -> None:
    done = call("data", "fetch", "adult", "--data-dir", made_up)
    assert done.stdout.splitlines() == [
        f"{name}: {made_up / 'adult' / name}" for name in ("adult.data", "adult.test")
    ]
    assert call("data", "fetch", "german").stdout == "german: nothing to fetch\n"
    assert "--data-dir" in one_line_error(call("data", "fetch", "default"))


def test_describe_shows_the_table_and_what_a_person_may_do() -> None:
    text = call("data", "describe", "german", "--actions", "german/strict").stdout
    assert "1,000 rows: 595 train, 105 validation, 300 test" in text
    assert "d = 58: 8 numbers, 12 one-hot groups" in text
    assert "credit: 1 is favourable, 70.0% of rows" in text
    assert "german/strict: at most 3 features change" in text
    assert lines_with(text, "credit_amount", "integer, log1p", "DM", "250 .. ", "decrease_only")
    assert lines_with(text, "skill_level", "ordinal", "increase_only", "A171", "A174")
    assert lines_with(text, "housing", "3, most often A152 (71%)", "immutable")


def test_check_names_a_file_that_is_not_the_published_one(made_up: Path) -> None:
    done = call("data", "check", "adult", "--data-dir", made_up)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("adult: sound, with actions adult/paper\n")
    assert len(lines_with(done.stdout, "is not the published file")) == 2


def test_check_of_ones_own_table_has_notes(tmp_path: Path) -> None:
    rows = [row.replace(",rent", ",") if i == 7 else row for i, row in enumerate(GOOD_ROWS)]
    data = make_table(tmp_path, rows)
    assert "column 'home' has 1 missing values" in one_line_error(call("data", "check", data))
    text = call("data", "describe", data).stdout  # what is not sound can still be looked at
    assert lines_with(text, "missing", "in 1 rows (refuse)")
    assert lines_with(text, "problem:", "'home'")
    data.write_text(data.read_text() + "missing: drop\nunseen: ignore\n")
    assert "note: 1 rows with missing values are dropped" in call("data", "check", data).stdout
    rows = [row.replace("own", "boat") if i == 60 else "5" + row[2:] for i, row in enumerate(rows)]
    data = make_table(tmp_path, rows)
    data.write_text(data.read_text() + "missing: impute\nunseen: ignore\n")
    text = call("data", "check", data).stdout
    assert "1 rows with missing values are imputed" in text


def test_check_notes_constant_columns_and_unknown_categories(tmp_path: Path) -> None:
    rows = [f"40,{'rent' if i % 3 else 'own'},{i % 2}" for i in range(120)]
    data = make_table(tmp_path, rows)
    assert "column 'income' has one value" in call("data", "check", data).stdout
    odd = [row.replace("rent", f"town{i}") for i, row in enumerate(rows)]
    data = make_table(tmp_path, odd)
    assert "unknown category 'town" in one_line_error(call("data", "check", data))
    data.write_text(data.read_text() + "unseen: ignore\n")
    assert "column 'home' has a category unknown" in call("data", "check", data).stdout


def test_check_refuses_an_action_set_that_does_not_fit(tmp_path: Path) -> None:
    data = make_table(tmp_path, GOOD_ROWS)
    actions = tmp_path / "actions.yaml"
    actions.write_text(actions.read_text().replace("home: any", "home: increase_only"))
    assert "'home' is categorical" in one_line_error(call("data", "check", data))
