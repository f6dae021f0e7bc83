"""``cfq-bench data init``: a draft that runs as it is, and says what to review."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import Settings
from cfq_bench.data.draft import draft
from cfq_bench.data.formats import look
from cfq_bench.data.inspection import inspect
from cfq_bench.data.label import gives_away, guess_favourable, guess_target
from cfq_bench.data.table import load_table
from cfq_bench.errors import UserError
from tests.test_cli import call, one_line_error, records


def lender(count: int = 900) -> pd.DataFrame:
    """Loans of another lender, with everything that a real file has."""
    rng = np.random.default_rng(3)
    income = np.exp(rng.normal(8, 1, count)).round()
    score = rng.normal(0, 1, count) + 0.8 * (np.log(income) - 8)
    frame = pd.DataFrame(
        {
            "Unnamed: 0": np.arange(count),
            "Loan_ID": [f"LP{i:06d}" for i in range(count)],
            "Gender": rng.choice(["Male", "Female", None], count, p=[0.6, 0.37, 0.03]),
            "Age": rng.integers(18, 80, count),
            "Dependents": rng.choice(["0", "1", "2", "3+"], count),
            "Income": income,
            "Balance": rng.integers(0, 9, count) * 1e9 + rng.integers(0, 9, count),
            "Rate %": rng.normal(5, 1, count).round(2),
            "Applied": pd.date_range("2020-01-01", periods=count).strftime("%Y-%m-%d"),
            "Country": "NL",
            "Branch": rng.choice(["north", "south"], count),
            "Employed": rng.integers(0, 2, count).astype(bool),
            "Amount": [f"{v}" if v % 97 else "n.k." for v in rng.integers(1, 5000, count)],
            "yes": rng.integers(0, 4, count),
            "Loan_Status": np.where(score + 0.3 * rng.normal(size=count) > 0, "Y", "N"),
        }
    )
    frame.loc[5, "Branch"] = "only one"
    frame.loc[frame.index % 11 == 0, "Income"] = np.nan
    return frame


def settings_of(path: Path) -> Settings:
    return load_settings(data=str(path))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "csv.gz", "txt"])
def test_a_draft_passes_the_check_and_runs_unchanged(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"loans.{suffix}"
    if suffix == "parquet":
        lender().to_parquet(file)
    elif suffix == "txt":
        lender().to_csv(file, index=False, sep="\t", decimal=",", encoding="utf-16")
    else:
        lender().to_csv(file, index=False)
    done = call("data", "init", file)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert "target 'Loan_Status', favourable 'Y'" in done.stdout
    data = tmp_path / "loans.yaml"
    checked = call("data", "check", data)
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.startswith("loans: sound, with actions loans-actions\n")
    if suffix != "csv":
        return
    results = tmp_path / "results"
    where = ["--data", data, "--results-dir", results, "evaluation.max_rows=20"]
    assert call("run", "--method", "lsq", *where, "data.fit.epochs=2").exit_code == 0
    assert '"status":"ok"' in records(results)[0].read_text().replace(" ", "")


def test_what_a_draft_says(tmp_path: Path) -> None:
    file = tmp_path / "loans.csv"
    lender().to_csv(file, index=False)
    text = call("data", "init", file).stdout
    for words in (
        "left out Unnamed: 0: an id",
        "left out Loan_ID: text",
        "left out Applied: dates",
        "left out Country: always NL",
        "left out Amount: mostly numbers, but 'n.k.' in row",
        "rows have missing values: imputed",
    ):
        assert words in text
    settings = settings_of(tmp_path / "loans.yaml")
    kinds = {name: feature.kind for name, feature in settings.data.features.items()}
    assert kinds == {
        "Gender": "categorical",
        "Age": "integer",
        "Dependents": "categorical",
        "Income": "integer",
        "Balance": "numeric",  # too large to be kept whole in float32
        "Rate %": "numeric",
        "Branch": "categorical",
        "Employed": "categorical",
        "yes": "integer",
    }
    assert settings.data.features["Income"].transform == "log1p"
    assert settings.data.protected == ["Gender"]
    assert (settings.data.missing, settings.data.unseen) == ("impute", "ignore")
    assert settings.data.split.train == 720
    fixed = [n for n, action in settings.actions.features.items() if action.kind == "immutable"]
    assert fixed == ["Gender", "Age"]
    written = (tmp_path / "loans.yaml").read_text()
    assert "a guess: review" in written
    assert "too large to be kept whole" in written


def test_files_are_not_overwritten_unasked(tmp_path: Path) -> None:
    file = tmp_path / "loans.csv"
    lender().to_csv(file, index=False)
    assert call("data", "init", file).exit_code == 0
    (tmp_path / "loans.yaml").write_text("mine")
    assert "exists already" in one_line_error(call("data", "init", file))
    assert (tmp_path / "loans.yaml").read_text() == "mine"
    done = call("data", "init", file, "--force", "--target", "Employed", "--favourable", "False")
    assert done.exit_code == 0, done.output
    target = settings_of(tmp_path / "loans.yaml").data.target
    assert (target.column, target.favourable) == ("Employed", 0)
    assert call("data", "check", tmp_path / "loans.yaml").exit_code == 0


def test_rows_without_a_label_are_dropped(tmp_path: Path) -> None:
    frame = lender()
    frame.loc[::50, "Loan_Status"] = None
    file = tmp_path / "loans.csv"
    frame.to_csv(file, index=False)
    assert "dropped" in call("data", "init", file).stdout
    assert call("data", "check", tmp_path / "loans.yaml").exit_code == 0
    assert settings_of(tmp_path / "loans.yaml").data.missing == "drop"


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        ({}, ["--target", "Loan"], "no column 'Loan'; the file has: Unnamed: 0, Loan_ID"),
        ({}, ["--target", "Age"], "column 'Age' has 62 values; a target has exactly 2"),
        ({}, ["--favourable", "1"], "'Loan_Status' has no value '1'; its values are 'N' and 'Y'"),
        ({"Loan_Status": "Y", "Branch": "a", "Gender": "a", "Employed": 1}, [], "exactly 2 values"),
    ],
)
def test_what_cannot_be_drafted_is_one_line(
    tmp_path: Path, change: dict[str, object], arguments: list[str], words: str
) -> None:
    file = tmp_path / "loans.csv"
    lender().assign(**change).to_csv(file, index=False)
    assert words in one_line_error(call("data", "init", file, *arguments))
    assert not (tmp_path / "loans.yaml").exists()


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert "does not exist" in one_line_error(call("data", "init", tmp_path / "a.csv"))
    assert "must end in .csv" in one_line_error(call("data", "init", tmp_path / "a.xlsx"))
    file = tmp_path / "a.csv"
    file.write_text("a,y\n1,0\n1,1\n1,0\n1,1\n")
    with pytest.raises(UserError, match="no column is left to be a feature"):
        draft(look(file), "a.csv", "b.yaml", None, None)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("RiskPerformance", ["Bad", "Good"], "Good"),
        ("SeriousDlqin2yrs", [0, 1], 0),
        ("approved", [0, 1], 1),
        ("default", ["yes", "no"], "no"),
        ("loan_status", ["Fully Paid", "Charged Off"], "Fully Paid"),
        ("income", ["<=50K", ">50K"], ">50K"),
        ("class", ["good", "bad"], "good"),
    ],
)
def test_the_favourable_value(name: str, values: list[object], expected: object) -> None:
    assert guess_favourable(pd.Series(values), name, "a.csv", None)[0] == expected


def test_the_target_is_named_or_stands_at_an_end() -> None:
    two = [0, 1, 0, 1]
    frame = pd.DataFrame({"sex": two, "loan": two, "approved": two, "n": range(4), "last": two})
    assert guess_target(frame, "a.csv", None) == "approved"
    assert guess_target(frame.drop(columns="approved"), "a.csv", None) == "last"
    assert guess_target(frame, "a.csv", "loan") == "loan"
    with pytest.raises(UserError, match=r"'half' has the value 0\.5; a target has words or whole"):
        guess_target(frame.assign(half=[0.5, 1, 0.5, 1]), "a.csv", " half ")


def test_a_column_that_tells_the_target_is_noted(tmp_path: Path) -> None:
    label = pd.Series(np.arange(400) % 2)
    assert gives_away(label.map({0: "a", 1: "b"}), label)
    assert gives_away(label * 1000.0 + np.arange(400) / 7, label)
    assert not gives_away(pd.Series(np.arange(400) // 2 % 3), label)
    frame = lender().assign(Repaid=lambda f: f["Loan_Status"])[["Age", "Repaid", "Loan_Status"]]
    file = tmp_path / "loans.csv"
    frame.to_csv(file, index=False)
    assert "review Repaid: the target in other words" in call("data", "init", file).stdout


def test_awkward_columns() -> None:
    infinite = inspect(pd.Series([1.0, np.inf, 2.0, 3.0], name="a"))
    assert (infinite.kind, infinite.notes) == (None, ["an infinite value in row 1"])
    assert inspect(pd.Series([None, None], name="a", dtype=object)).notes == ["no values"]
    many = inspect(pd.Series([f"c{i % 60}" for i in range(600)], name="a"))
    assert many.kind == "categorical"
    assert many.rare
    assert "60 categories" in many.notes[0]
    crowd = inspect(pd.Series([f"c{i % 1500}" for i in range(6000)], name="a"))
    assert crowd.kind is None
    words = inspect(pd.Series([str(i % 30) for i in range(90)], name="a", dtype=object))
    assert words.kind == "integer"


def test_numbers_written_as_words_are_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rate, limit = rng.uniform(5, 25, 300).round(2), rng.integers(1, 60, 300) * 500
    table = pd.DataFrame(
        {
            "rate": [f"{value}%" for value in rate],
            "limit": [f"${value:,}" for value in limit],
            "approved": np.where(rate + rng.normal(0, 3, 300) < 15, "yes", "no"),
        }
    )
    table.loc[3, "rate"] = None
    table.to_csv(tmp_path / "cards.csv", index=False)
    assert call("data", "init", str(tmp_path / "cards.csv")).exit_code == 0
    drafted = yaml.safe_load((tmp_path / "cards.yaml").read_text())
    assert drafted["features"]["rate"]["kind"] == "numeric"
    assert drafted["features"]["limit"]["kind"] == "integer"
    settings = load_settings("fp32", str(tmp_path / "cards.yaml"))
    frame = load_table(settings.data).frame
    assert frame["limit"].astype(float).tolist() == limit.tolist()
    known = frame["rate"].notna()
    assert frame["rate"][known].astype(float).tolist() == rate[known.to_numpy()].tolist()
    table.loc[7, "limit"] = "$1,2"
    table.to_csv(tmp_path / "cards.csv", index=False)
    with pytest.raises(UserError, match=r"'limit', row 7: expected a number, got '\$1,2'"):
        load_table(settings.data)
