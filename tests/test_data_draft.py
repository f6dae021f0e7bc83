"""What is drafted of awkward tables, made by hand: settings, kinds, questions, action sets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import DataSettings, Settings
from cfq_bench.config.yaml import parse_yaml
from cfq_bench.data.codes import codes_in
from cfq_bench.data.draft import draft
from cfq_bench.data.formats import look
from cfq_bench.data.judgement import judge_name, judge_words
from cfq_bench.data.label import gives_away
from cfq_bench.data.remarks import remarks
from cfq_bench.data.table import Table, check_features, load_table, read_table
from cfq_bench.errors import UserError

COUNT = 60
AGES = [18 + i * 7 % 53 for i in range(COUNT)]
SCORES = [i * 37 % 101 for i in range(COUNT)]
LABELS = ["no" if i * 11 % 7 < 3 else "yes" for i in range(COUNT)]


def column(value: Callable[[int], object]) -> list[object]:
    return [value(i) for i in range(COUNT)]


def text(separator: str = ",", **columns: list[Any]) -> str:
    """A file with these columns, and points, a score and a label beside them."""
    every = {**columns, "points": SCORES, "approved": LABELS}
    rows = [separator.join(every)]
    rows += [separator.join(str(each[i]) for each in every.values()) for i in range(COUNT)]
    return "\n".join(rows) + "\n"


class Drafted:
    """A file, its draft, and what the draft reads of the file."""

    def __init__(self, path: Path, content: str | bytes, target: str | None = None) -> None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.draft = draft(look(path, target), path.name, "t-actions.yaml", target, None)
        self.notes = "\n".join(self.draft.notes)
        (path.parent / "t.yaml").write_text(self.draft.data, encoding="utf-8")
        (path.parent / "t-actions.yaml").write_text(self.draft.actions, encoding="utf-8")
        self.yaml = path.parent / "t.yaml"
        self.settings: Settings = load_settings(data=str(self.yaml))
        self.data: DataSettings = self.settings.table()[0]
        self.table: Table = load_table(self.data)

    @property
    def kinds(self) -> dict[str, str]:
        return {name: feature.kind for name, feature in self.data.features.items()}

    def said(self) -> dict[str, Any]:
        """Lines on how the file is written."""
        names = ("encoding", "separator", "decimal", "thousands", "negative_brackets")
        dumped = self.data.model_dump(mode="json")
        return {name: dumped[name] for name in (*names, "missing_words") if name in dumped}

    def line(self, name: str) -> str:
        """The drafted line of a feature."""
        return next(line for line in self.draft.data.splitlines() if line.startswith(f"  {name}:"))

    def action(self, name: str) -> str:
        """The drafted line of its action."""
        lines = self.draft.actions.splitlines()
        return next(line for line in lines if line.startswith(f"  {name}: ")).split(": ", 1)[1]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


# --- numbers as files write them ---

NUMBERS: dict[str, tuple[str, dict[str, Any], float]] = {
    "plain": (text(n=column(lambda i: 1000 + 7 * i)), {}, 1021),
    "per cent": (text(n=column(lambda i: f"{i}.5%")), {}, 3.5),
    "thousands": (
        text(n=column(lambda i: f'"{1000 + i * 97:,}"')),
        {"thousands": ","},
        1291,
    ),
    "decimal comma, quoted": (text(n=column(lambda i: f'"{i},5"')), {"decimal": ","}, 3.5),
    "decimal comma": (
        text(";", n=column(lambda i: f"{i},5")),
        {"separator": ";", "decimal": ","},
        3.5,
    ),
    "three decimals beside points": (
        text(n=column(lambda i: f'"{1 + i % 9},{100 + i}"'), m=column(lambda i: f"{i}.5")),
        {"thousands": ","},
        4103,
    ),
    "three decimals beside decimal commas": (
        text(";", n=column(lambda i: f"{1 + i % 9}.{100 + i}"), m=column(lambda i: f"{i},5")),
        {"separator": ";", "decimal": ",", "thousands": "."},
        4103,
    ),
    "spaces": (
        text(n=column(lambda i: f"{1 + i % 9} {100 + i}")),
        {"thousands": " "},
        4103,
    ),
    "thin spaces": (
        text(";", n=column(lambda i: f"{1 + i % 9}\u202f{100 + i},50 €")),
        {"separator": ";", "decimal": ",", "thousands": " "},
        4103.5,
    ),
    "apostrophes": (
        text(n=column(lambda i: f"{1 + i % 9}'{100 + i}.50")),
        {"thousands": "'"},
        4103.5,
    ),
    "brackets": (
        text(n=column(lambda i: f"({i}.5)" if i % 3 == 0 else i)),
        {"negative_brackets": True},
        -3.5,
    ),
    "missing beside them": (
        text(";", n=column(lambda i: "-" if i == 7 else f"{i},5")),
        {"separator": ";", "decimal": ",", "missing_words": ["-"]},
        3.5,
    ),
}


@pytest.mark.parametrize(("content", "said", "fourth"), NUMBERS.values(), ids=list(NUMBERS))
def test_numbers_are_recognized_and_read(
    csv: Path, content: str, said: dict[str, Any], fourth: float
) -> None:
    found = Drafted(csv, content)
    assert found.said() == said
    assert found.kinds["n"] in ("integer", "numeric")
    assert found.table.frame["n"].iloc[3] == fourth
    for name in said:
        assert f"\n{name}: " in found.draft.data
        assert f"{name}: " in found.notes


def test_what_may_be_either_is_said(csv: Path) -> None:
    words = column(lambda i: f'"{1 + i % 9},{100 + i}"')
    found = Drafted(csv, text(n=words))
    assert found.said() == {"thousands": ","}
    doubt = '1,100 in n is read as 1100; if it is 1.1, write decimal: "," instead'
    assert f"thousands: \",\"  # as in '1,100', column 'n'; {doubt}\n" in found.draft.data
    found = Drafted(csv, text(";", n=[str(word).strip('"') for word in words]))
    assert found.said() == {"separator": ";", "decimal": ","}
    assert 'if it is 1100, write decimal: "." and thousands: "," instead' in found.draft.data
    found = Drafted(csv, text(";", n=[str(word).strip('"').replace(",", ".") for word in words]))
    assert found.said() == {"separator": ";"}
    assert "review n: 1.100 in n is read as 1.1; if it is 1100, write" in found.notes


def test_what_does_not_fit_the_others_is_named(csv: Path) -> None:
    found = Drafted(
        csv,
        text(
            a=column(lambda i: f"{i}.5"),
            b=column(lambda i: f"{i}.2"),
            c=column(lambda i: f'"{i},5"'),
        ),
    )
    assert "left out c: mostly numbers, but '0,5' in row 0 (decimal: '.'): mend" in found.notes
    content = text(";", n=column(lambda i: f"{i},5"))
    found = Drafted(csv, content)
    csv.write_text(content.replace("17,5", "17.5"))
    with pytest.raises(
        UserError, match=r"'n', row 17: expected a number with a decimal comma, got '17\.5'"
    ):
        load_table(found.data)  # fmt: skip


def test_units_that_differ_are_asked_about(csv: Path) -> None:
    found = Drafted(csv, text(rate=column(lambda i: f"{i % 9 + 1}%" if i % 4 else "0.05")))
    assert "written with '%' (45 rows), 'nothing' (15): the same unit?" in found.line("rate")
    found = Drafted(csv, text(pay=column(lambda i: f"{'$€'[i % 2]}{i % 17 + 1}")))
    assert "written with '$' (30 rows), '€' (30): the same unit?" in found.line("pay")


def test_a_person_is_read_like_the_table(csv: Path) -> None:
    found = Drafted(csv, text(";", n=column(lambda i: f"{1 + i % 9}.{100 + i},5")))
    row = {"n": "1.200,5", "points": 3}
    assert check_features(pd.DataFrame([row]), found.data, "the row")["n"].tolist() == [1200.5]
    with pytest.raises(UserError, match=r"'n', row 0: expected a number with a decimal comma"):
        check_features(pd.DataFrame([{**row, "n": "1200.5"}]), found.data, "the row")


# --- words ---


def test_encodings_and_separators(csv: Path) -> None:
    content = text("\t", Größe=column(lambda i: i % 17), ort=column(lambda i: f"Köln{i % 3}"))
    latin = Drafted(csv, content.encode("latin-1"))
    assert latin.said() == {"encoding": "latin-1", "separator": "\t"}
    assert 'encoding: "latin-1"  # a guess' in latin.draft.data
    wide = Drafted(csv, content.encode("utf-16"))
    assert wide.said() == {"encoding": "utf-16", "separator": "\t"}
    for found in (latin, wide):
        assert set(found.kinds) == {"Größe", "ort", "points"}
        assert found.table.frame["ort"].iloc[1] == "Köln1"
    assert Drafted(csv, content.replace("1", "€").encode("cp1252")).said()["encoding"] == "cp1252"


def test_a_label_spelled_in_several_ways(csv: Path) -> None:
    content = text(ok=column(lambda i: ["Yes", "yes", "yes ", "no"][i % 4])).replace(
        "approved", "x"
    )
    words = "column 'ok' spells the same word in several ways, 'yes' (30 rows), 'Yes' (15): write"
    with pytest.raises(UserError) as caught:
        Drafted(csv, content, "ok")
    assert words in str(caught.value)
    with pytest.raises(UserError) as caught:  # guessed
        Drafted(csv, text().replace("yes", "Yes", 4))
    assert "'approved' spells the same word in several ways, 'yes'" in str(caught.value)
    found = Drafted(csv, text())
    csv.write_text(text().replace("yes", "YES", 1))
    with pytest.raises(UserError) as caught:
        load_table(found.data)
    assert "target column 'approved' spells the same word in several ways, 'yes' (" in str(
        caught.value
    )


def test_categories_spelled_in_several_ways_stay_apart_and_are_named(csv: Path) -> None:
    found = Drafted(
        csv, text(job=column(lambda i: ["clerk", "Clerk ", "cook", "nurse"][i * 5 % 4]))
    )
    question = "'Clerk' (15 rows), 'clerk' (15) may be the same word: write it one way"
    assert question in found.line("job")
    assert f"review job: {question}" in found.notes
    assert f"column 'job': {question}" in remarks(read_table(found.data), found.data)
    assert "spaces around 15 values (job) are taken off" in found.notes
    assert found.table.frame["job"].nunique() == 4


def test_words_that_may_mean_missing_are_asked_about(csv: Path) -> None:
    found = Drafted(
        csv,
        text(
            garage=column(lambda i: ["built in", "None", "carport"][i % 3]),
            rooms=column(lambda i: "?" if i == 4 else i % 17),
            job=column(lambda i: ["unknown", "clerk", "cook"][i * 7 % 3]),
        ),
    )
    assert found.said() == {"missing_words": ["None", "?"]}
    assert "# None: 20 in garage; ?: 1 in rooms. Missing, or categories? Review" in found.draft.data
    assert "None in 20 rows is read as missing; if it is a category, take it" in found.line(
        "garage"
    )
    kept = (
        'unknown in 20 rows is kept as a category; if it means missing, missing_codes: ["unknown"]'
    )
    assert kept in found.line("job")
    assert found.kinds["rooms"] == "integer"
    assert found.table.frame.isna().sum().to_dict() == {
        "garage": 20, "rooms": 1, "job": 0, "points": 0, "approved": 0
    }  # fmt: skip
    found.yaml.write_text(
        found.draft.data.replace('["None", "?"]', '["?"]').replace(
            "job: {kind: categorical", 'job: {kind: categorical, missing_codes: ["unknown"]'
        )
    )
    frame = load_table(load_settings(data=str(found.yaml)).table()[0]).frame
    assert frame.isna().sum().to_dict()["garage"] == 0
    assert frame.isna().sum().to_dict()["job"] == 20


def test_a_label_with_a_question_mark_has_two_values(csv: Path) -> None:
    content = text(job=column(lambda i: "ab?"[i % 3])).replace(",yes\n", ",?\n", 4)
    found = Drafted(csv, content)
    assert found.said() == {"missing_words": ["?"]}
    assert len(found.table.frame) == 60 - 4 - 20 + sum(
        row.startswith("?") and row.endswith("?") for row in content.splitlines()
    )
    assert found.data.missing == "drop"


def test_codes_with_leading_zeros_are_text(csv: Path) -> None:
    found = Drafted(csv, text(zip=column(lambda i: f"{i % 7 + 998:05d}")))
    assert found.kinds["zip"] == "categorical"
    assert "codes with leading zeros, kept as text" in found.line("zip")
    assert found.table.frame["zip"].iloc[0] == "00998"
    assert "review: where one lives may stand for race" in found.action("zip")


# --- codes for missing values ---


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([*AGES, -9], [-9]),
        ([*AGES, -1, -1], [-1]),
        ([*AGES, 999], [999]),
        ([*AGES, 998, 999, -8, -9], [-9, -8, 998, 999]),
        ([i * 13.7 for i in range(90)] + [9999.0, 9999.0], [9999]),
        ([*AGES, 99], [99]),
        (list(range(100)), []),
        (list(range(0, 1100, 11)), []),  # 990 and 999 beside 1001
        ([60 + i * 3 for i in range(14)], []),  # up to 99
        ([i - 9 for i in range(60)], []),  # it goes below 0
        ([-2, -1, *range(30)], []),
        ([-9.5, *AGES], []),
        ([0, 1, 2, 3, 9], []),
        ([0, 1, 2, 3, 99], [99]),
        ([-1, 0, 1], []),
        ([10, 30, 50, 99], []),
        ([-250.0, -9.0, 13.0, 500.0, 20.0, 30.0, 40.0, 50.0], []),
        ([*range(1000, 9000, 500), 9999], []),  # no further than the others
        ([*(i * 1000 for i in range(30)), 99999], [99999]),
    ],
)
def test_codes_stand_apart(values: list[float], codes: list[int]) -> None:
    assert codes_in(np.array(values, dtype=np.float64)) == codes


def test_codes_are_named_and_are_no_end_of_an_action(csv: Path) -> None:
    found = Drafted(
        csv,
        text(
            term=column(lambda i: -9 if i % 9 == 0 else 12 + i),
            income=column(lambda i: 99999 if i % 11 == 0 else 1000 + 10 * i),
        ),
    )
    assert "-9 in 7 rows stands apart: a code?" in found.line("term")
    commented = '  # term: {kind: integer, unit: "", missing_codes: [-9]}'
    assert commented in found.draft.data.splitlines()
    assert found.action("term") == "{kind: any, low: 13}  # not as far as -9, which may be codes"
    assert found.action("income").startswith("{kind: any, high: 1590}")
    assert "review income: 99999 in 6 rows stands apart: a code?" in found.notes
    marks = remarks(read_table(found.data), found.data)
    words = "-9 in 7 rows stands apart: if it means missing, missing_codes: [-9]"
    assert f"column 'term': {words}" in marks

    lines = found.draft.data.splitlines()
    place = lines.index(commented)
    assert lines[place - 1].startswith("  # if they mean missing, this in its place")
    lines[place - 2 : place + 1] = [commented.replace("# ", "")]
    found.yaml.write_text("\n".join([*lines, "missing: impute"]))
    config = load_settings(data=str(found.yaml)).table()[0]
    assert config.model_dump()["features"]["term"]["missing_codes"] == [-9]
    assert load_table(config).frame["term"].isna().sum() == 7
    assert not [m for m in remarks(read_table(config), config) if "term" in m]


def test_missing_codes_of_every_kind(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [1.5, -9, 3], "i": [1, 2, 99], "c": ["a", "x", "b"], "k": [1, 9, 2]})
    frame["y"] = [0, 1, 0]
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
        kinds = {"n": "numeric", "i": "integer", "c": "categorical", "k": "categorical"}
        codes: dict[str, list[Any]] = {"n": [-9.0], "i": [99, 98], "c": ["x"], "k": [9]}
        features = {n: {"kind": k, "missing_codes": codes[n]} for n, k in kinds.items()}
        empty = read_table(settings_of(path, features)).frame.isna()
        assert empty.sum().to_dict() == {"n": 1, "i": 1, "c": 1, "k": 1, "y": 0}
        assert empty["i"].tolist() == [False, False, True]


def settings_of(path: Path, features: dict[str, Any], **more: Any) -> DataSettings:
    raw: dict[str, Any] = {
        "name": "t",
        "loader": str(path),
        "target": {"column": "y", "favourable": 1},
        "features": features,
        "protected": [],
        "split": {"train": 2, "validation": 0.25},
        "fit": {"batch_size": 8, "teacher_epochs": 1, "epochs": 1, "weight_decay": 0.0},
        "actions": "none",
        **more,
    }
    return DataSettings.model_validate(raw)


def test_new_settings_are_no_part_of_a_dump_until_they_say_something(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    plain = settings_of(path, {"a": {"kind": "numeric"}})
    assert set(plain.model_dump(mode="json")) == set(
        "name loader target features protected split fit actions missing unseen".split()
    )
    assert set(plain.model_dump()["features"]["a"]) == {"kind", "unit", "transform", "order"}
    spoken = settings_of(
        path, {"a": {"kind": "numeric", "missing_codes": [-9]}}, decimal=",", missing_words=[]
    )
    dumped = spoken.model_dump(mode="json")
    assert (dumped["decimal"], dumped["missing_words"]) == (",", [])
    assert "separator" not in dumped
    assert DataSettings.model_validate(dumped) == spoken


@pytest.mark.parametrize(
    ("loader", "more", "words"),
    [
        ("t.csv", {"decimal": ",", "thousands": ","}, "decimal and thousands are both ','"),
        ("t.csv", {"thousands": "."}, "decimal and thousands are both '.'"),
        ("t.csv", {"encoding": "klingon"}, "'klingon' is no encoding of text"),
        ("t.csv", {"encoding": "hex"}, "'hex' is no encoding of text"),
        ("t.csv", {"separator": "::"}, "Input should be"),
        ("t.parquet", {"separator": ";"}, "'separator' is for a text file of one's own"),
        ("cfq_bench.data.german", {"decimal": ","}, "'decimal' is for a file of one's own"),
    ],
)
def test_settings_that_do_not_fit(loader: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        settings_of(Path(loader), {"a": {"kind": "numeric"}}, **more)


# --- what tells the label ---


def test_features_that_tell_the_label(csv: Path) -> None:
    label = pd.Series(np.arange(200) % 2)
    noise = pd.Series(np.arange(200) * 17 % 101 / 101)
    wrong = label.copy()
    wrong.iloc[:10] = 1 - wrong.iloc[:10]
    rare = pd.Series((np.arange(200) % 40 == 0).astype(int))
    empty = (label * 5.0 + noise).where(label == 1)
    tells = {
        "the target in other words": label.map({0: "a", 1: "b"}),
        "one threshold of it": label + noise,
        "it tells the target almost alone": pd.Series(np.arange(200) % 4).map(str),
    }
    for words, column in tells.items():
        assert str(gives_away(column, label)).startswith(words)
    assert gives_away(empty, label)
    assert gives_away(rare + noise / 2, rare)
    assert gives_away(-rare - noise / 2, rare)
    for column in (noise, wrong, wrong + noise, pd.Series(np.arange(200) // 2 % 3), noise.map(str)):
        assert gives_away(column, label) is None
    assert gives_away(pd.Series(0, index=label.index), rare) is None  # guessing is as good
    found = Drafted(csv, text(paid=[f"{word}!" for word in LABELS]))
    assert "the target in other words: leave out what is known afterwards" in found.line("paid")
    mark = "column 'paid': the target in other words; is it known only afterwards?"
    assert mark in remarks(read_table(found.data), found.data)


# --- what a person may do ---

FROM = "nationality or origin"


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("Age age AGE customer_age ageAtLoan Alter edad âge_client", "age"),
        ("sex Gender Geschlecht sexe genero applicantSex CODE_GENDER", "sex"),
        ("race Race_White ethnicity rasse", "race"),
        ("nationality foreign_worker citizenship countryOfBirth native-country", FROM),
        ("Staatsangehörigkeit nacionalidad", FROM),
        ("religion Konfession", "religion"),
        ("marital_status MaritalStatus married Familienstand relationship", "marital status"),
        ("estado_civil EtatCivil personal_status", "marital status"),
        ("date_of_birth dob YearOfBirth Geburtsdatum DAYS_BIRTH", "birth"),
        ("customer_id Loan_ID SSN", "an id"),
        ("delinq_2yrs NumberOfTimes90DaysLate prior_default inq_last_6mths previous", "the past"),
        ("pub_rec_bankruptcies PercentTradesNeverDelq priors_count juv_fel_count", "the past"),
        ("credit_history Mahnungen poutcome", "the past"),
        ("MSinceOldestTradeOpen residence_since emp_length tenure", "time passes by itself"),
        ("issue_date Datum", "a date"),
    ],
)
def test_what_nobody_can_change_is_immutable(names: str, reason: str) -> None:
    for name in names.split():
        judged = judge_name(name, number=True)
        assert (judged.action, judged.reason) == ("immutable", reason), name


def test_what_one_may_change_and_what_is_unsure() -> None:
    for (
        name
    ) in "income Wage loan_amount average_balance storage message language traces hours".split():
        assert judge_name(name, number=True).action == "any", name
        assert judge_name(name, number=True).reason == "", name
    for name in "zip city num_children credit_score country education".split():
        judged = judge_name(name, number=False)
        assert judged.action == "any", name
        assert judged.reason.startswith("review: "), name
    assert judge_name("years_of_education", number=True).action == "increase_only"
    for words in (["male", "female"], ["M", "F", "unknown"], ["weiblich", "männlich"]):
        assert judge_words(words) is judge_name("sex", number=False)
    assert str(judge_words(["single", "Married", "divorced"])).count("marital status") == 1
    assert judge_words(["a", "m"]) is None


def test_an_action_set_is_drafted_with_judgement(csv: Path) -> None:
    found = Drafted(
        csv,
        text(
            X1=column(lambda i: "mf"[i * 3 % 8 // 4]),
            Age=AGES,
            NumDelinq=column(lambda i: i * 3 % 11),
            built=column(lambda i: 1950 + i * 7 % 60),
            opened=column(lambda i: 20200101 + i % 28),
            since=column(lambda i: f"Jan {2000 + i % 20}"),
            band=column(lambda i: ["25-34", "35-44", "45-54"][i * 7 % 3]),
            schooling=column(lambda i: 8 + i * 3 % 11),
            wage=column(lambda i: i * 31 % 97),
        ),
    )
    assert {name: found.action(name) for name in found.kinds} == {
        "X1": "immutable  # sex",
        "Age": "immutable  # age",
        "NumDelinq": "immutable  # the past",
        "built": "immutable  # a date",
        "band": "any",
        "schooling": "increase_only  # education is not undone",
        "wage": "any",
        "points": "any",
    }
    assert found.data.protected == ["X1"]
    for name in ("opened", "since"):
        assert f"left out {name}: dates; turn them into numbers" in found.notes


def test_a_table_of_facts_alone_is_not_made_changeable(csv: Path) -> None:
    content = "age,sex,y\n" + "".join(
        f"{20 + i * 7 % 40},{'mf'[i // 3 % 2]},{i % 2}\n" for i in range(40)
    )
    with pytest.raises(UserError, match="leave nothing to change"):
        Drafted(csv, content)
    csv.write_text(content)
    made = draft(look(csv), "t.csv", "t-actions.yaml", None, None)
    assert "nothing is left that a person may change: say so of one feature" in made.notes[-1]


# --- names ---

AWKWARD = [
    "n" * 3000,
    "é" * 900,
    '"' * 600,
    "two\nlines",
    "a: b",
    "#x",
    "x #y",
    "'it''s'",
    '"q"',
    "yes",
    "null",
    "~",
    "1",
    "1e3",
    "<<",
    "? x",
    "- x",
    "{a}",
    "[b]",
    "&c",
    "*d",
    "!e",
    "%f",
    "@g",
    "`h`",
    "a\tb",
    "bell\x07",
    "\x7f\x85x",
    "line\u2028sep",
    "a\ufeffbom",
    "\U0001f600",
    "back\\slash",
    "=1+1",
    "a,b",
    "x\xa0y",
    "<b>",
]
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff")
NAMES = st.lists(
    st.one_of(
        st.sampled_from(AWKWARD),
        st.text(LETTERS, max_size=12),
    ).map(str.strip).filter(lambda name: name not in ("", "y")),
    min_size=2,
    max_size=4,
    unique=True,
)  # fmt: skip


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(names=NAMES)
@example(names=AWKWARD)
def test_any_names_can_be_read_back(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    csv = tmp_path_factory.getbasetemp() / "names.csv"
    frame = pd.DataFrame({name: SCORES[i:] + SCORES[:i] for i, name in enumerate(names)})
    content = frame.assign(y=LABELS).to_csv(index=False, lineterminator="\n")
    csv.write_bytes(content.encode())
    made = draft(look(csv, "y"), "names.csv", "names-actions.yaml", "y", None)
    assert all(note.isprintable() for note in made.notes)
    drafted = parse_yaml(made.data, "the draft")
    config = DataSettings.model_validate({"name": "t", **drafted, "loader": str(csv)})
    assert list(config.features) == names
    assert list(load_table(config).frame) == [*names, "y"]
    assert list(parse_yaml(made.actions, "the draft")["features"]) == names


# --- anything ---

GOOD = text(
    job=column(lambda i: f'"{["clerk", "cook, chef", "nurse"][i * 7 % 3]}"'),
    wage=column(lambda i: i * 31 % 97),
    rate=column(lambda i: f"{i % 7}.{i % 10}"),
)
BYTES = [bytes([byte]) for byte in b'," \n\r\0;\t\xff\xe9'] + [b"", b"-9", b"NA", b"1,5"]


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 3), st.sampled_from(BYTES)),
        min_size=1,
        max_size=4,
    ),
    cut=st.integers(0, 3 * len(GOOD)),
)
def test_a_damaged_file_works_or_is_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int, bytes]], cut: int
) -> None:
    content = GOOD.encode()
    for place, taken, put in changes:
        content = content[:place] + put + content[place + taken :]
    csv = tmp_path_factory.getbasetemp() / "damaged.csv"
    csv.write_bytes(content[:cut])
    known = {"job": "categorical", "wage": "integer", "rate": "numeric", "points": "integer"}
    config = settings_of(
        csv,
        {name: {"kind": kind} for name, kind in known.items()},
        target={"column": "approved", "favourable": "yes"},
    )
    problems = [problem(lambda: remarks(load_table(config), config)), problem(lambda: redraft(csv))]
    for words in filter(None, problems):
        assert words.isprintable()
        assert len(words) < 700


def problem(call: Callable[[], object]) -> str | None:
    try:
        call()
    except UserError as error:
        return str(error)
    return None


def redraft(csv: Path) -> None:
    """Draft a table, and read it by its draft."""
    made = draft(look(csv), csv.name, "actions.yaml", None, None)
    assert all(note.isprintable() for note in made.notes)
    drafted = parse_yaml(made.data, "the draft")
    config = DataSettings.model_validate({"name": "t", **drafted, "loader": str(csv)})
    remarks(load_table(config), config)
