"""Suites as files: what they expand to, what is refused, what the shipped ones answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cfq_bench.cli.main import main
from cfq_bench.cli.suite import chosen
from cfq_bench.config.loader import known_names
from cfq_bench.config.suite import SuiteRun, expand, load_suite, select
from cfq_bench.errors import UserError

SHIPPED = sorted(known_names("suite"))
FILE: dict[str, Any] = {
    "about": "a test",
    "axes": {"data": ["german", "compas"], "budget": [4, 3.5], "seed": [0, 1]},
    "rows": [
        {"label": "FP32", "method": "fp32"},
        {"label": "LSQ", "method": "lsq", "overrides": ["training.lr=0.1"]},
    ],
}


def load(folder: Path, **changes: Any) -> list[SuiteRun]:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**FILE, **changes}))
    return expand(load_suite(str(path)))


@pytest.fixture(scope="module")
def shipped() -> dict[str, list[SuiteRun]]:
    return {name: expand(load_suite(name)) for name in SHIPPED}


def test_rows_times_axes(tmp_path: Path) -> None:
    runs = load(tmp_path)
    assert len(runs) == 16
    assert len({run.run_id for run in runs}) == 16
    assert runs[2].row == "LSQ"
    assert runs[2].axes == {"data": "german", "budget": "4", "seed": "0"}
    assert runs[2].settings.training.lr == 0.1
    assert runs[0].settings.training.lr != 0.1


def test_an_axis_of_labels_stands_for_overrides_and_the_row_s_own_win(tmp_path: Path) -> None:
    axes = {"data": ["german"], "lr": {"low": ["training.lr=0.2"], "usual": []}}
    runs = load(tmp_path, axes=axes)
    rates = {(run.row, run.axes["lr"]): run.settings.training.lr for run in runs}
    assert rates["FP32", "low"] == 0.2
    assert rates["LSQ", "low"] == 0.1
    assert rates["FP32", "usual"] not in (0.1, 0.2)


def test_includes_keep_the_suite_s_overrides_and_not_its_axes(tmp_path: Path) -> None:
    more = [{"axes": {"data": ["compas"]}, "rows": [{"label": "PACT", "method": "pact"}]}]
    runs = load(tmp_path, overrides=["evaluation.max_rows=7"], include=more)
    assert len(runs) == 17
    assert runs[-1].axes == {"data": "compas", "seed": "0"}
    assert {run.settings.evaluation.max_rows for run in runs} == {7}


def test_excludes_leave_out_what_fits_all_their_values(tmp_path: Path) -> None:
    exclude = [{"row": "LSQ", "data": "german", "seed": 1}, {"budget": [4.0], "row": "FP32"}]
    runs = load(tmp_path, exclude=exclude)
    assert len(runs) == 16 - 2 - 4
    places = [{**run.axes, "row": run.row} for run in runs]
    assert not any(p["row"] == "FP32" and p["budget"] == "4" for p in places)


def test_a_suite_like_another_has_its_grid_but_for_what_it_says_itself(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    one = {**FILE, "overrides": ["training.lr=0.2"], "tables": ["table1"]}
    (tmp_path / "suite" / "one.yaml").write_text(yaml.safe_dump(one))
    two = {"about": "two", "like": "one", "axes": {"data": ["german"], "seed": [5]}}
    (tmp_path / "suite" / "two.yaml").write_text(yaml.safe_dump(two))
    (tmp_path / "suite" / "three.yaml").write_text("about: three\nlike: two\noverrides: []\n")
    runs = expand(load_suite("two", tmp_path), tmp_path)
    assert [(run.row, run.axes) for run in runs] == [
        ("FP32", {"data": "german", "seed": "5"}),
        ("LSQ", {"data": "german", "seed": "5"}),
    ]
    assert [run.settings.training.lr for run in runs] == [0.2, 0.1]
    suite = load_suite("three", tmp_path)
    assert (suite.about, suite.tables, suite.overrides) == ("three", [], [])
    assert [run.axes["seed"] for run in expand(suite, tmp_path)] == ["5", "5"]


def test_suites_that_are_like_nothing_or_like_themselves_are_refused(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    for name, like in (("one", "two"), ("two", "one"), ("three", "tabel1"), ("four", "[1]")):
        text = f"about: {name}\nlike: {like}\n"
        (tmp_path / "suite" / f"{name}.yaml").write_text(text)
    with pytest.raises(UserError, match="suite one is like itself: one -> two -> one"):
        load_suite("one", tmp_path)
    with pytest.raises(UserError, match=r"'tabel1' \(suite three, like\): did you mean 'table1'"):
        load_suite("three", tmp_path)
    with pytest.raises(UserError, match="like"):
        load_suite("four", tmp_path)


def test_the_same_configuration_twice_is_one_run(tmp_path: Path) -> None:
    rows = [{"label": name, "method": "lsq"} for name in ("A", "B")]
    runs = load(tmp_path, rows=rows)
    assert {run.row for run in runs} == {"A"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"axes": {"dat": ["german"]}}, ["axis 'dat'", "data"]),
        ({"axes": {"data": ["germann"]}}, ["row 'FP32'", "did you mean 'german'?"]),
        ({"axes": {"seed": [-1]}}, ["whole numbers"]),
        ({"axes": {"seed": ["a"]}}, ["whole numbers"]),
        ({"axes": {"data": {"german": []}}}, ["takes a list"]),
        ({"rows": []}, ["rows", "at least 1"]),
        ({"rows": [{"label": "A", "method": "lsc"}]}, ["row 'A'", "did you mean 'lsq'?"]),
        ({"overrides": ["trainin.lr=1"]}, ["trainin", "training"]),
        ({"exclude": [{"row": "LSC"}]}, ["exclude", "did you mean 'LSQ'?"]),
        ({"exclude": [{"dta": "german"}]}, ["exclude", "did you mean 'data'?"]),
        ({"exclude": [{"row": ["LSQ", "FP32"]}]}, ["leave no run"]),
        ({"rowz": []}, ["'rowz'", "did you mean 'rows'?"]),
    ],
)
def test_a_slip_is_one_line(changes: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, **changes)
    assert "\n" not in str(caught.value)
    for word in ["mine", *words]:
        assert word in str(caught.value)


def test_only_and_seeds_choose(tmp_path: Path) -> None:
    runs = load(tmp_path)
    assert len(chosen(runs, "0", ("data=german", "row=LSQ"))) == 2
    assert len(chosen(runs, "0,1", ("budget=3.5",))) == 8
    assert len(chosen(runs, None, ("data=german", "data=compas"))) == 16
    assert select(runs, {}) == runs


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tabel1"], "did you mean 'table1'?"),
        (["smoke", "--only", "dat=compas"], "unknown axis 'dat': did you mean 'data'?"),
        (["smoke", "--only", "data=compass"], "unknown data 'compass': did you mean 'compas'?"),
        (["smoke", "--only", "row=LSC"], "unknown row 'LSC': did you mean 'LSQ'?"),
        (["smoke", "--only", "compas"], "write AXIS=VALUE"),
        (["smoke", "--seeds", "7"], "unknown seed '7'"),
        ([], "suite --list"),
    ],
)
def test_a_slip_on_the_command_line_ends_with_2(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(main, ["suite", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_list_has_runs_and_minutes_of_every_suite(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["suite", "--list", "--results-dir", str(tmp_path)])
    lines = {line.split()[0]: line.split() for line in result.stdout.splitlines()}
    assert result.exit_code == 0
    assert set(SHIPPED) < set(lines)
    assert lines["smoke"][1:3] == ["4", "0"]
    assert float(lines["table1"][4].lstrip("~")) > 1


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_suites_expand_to_distinct_runs(
    name: str, shipped: dict[str, list[SuiteRun]]
) -> None:
    runs = shipped[name]
    places = [(run.row, *sorted(run.axes.items())) for run in runs]
    assert len(set(places)) == len(places)
    assert len({run.run_id for run in runs}) == len(runs)


def test_every_table_of_the_paper_has_a_suite() -> None:
    named = {table for name in SHIPPED for table in load_suite(name).tables}
    numbers = [*range(1, 4), *range(6, 20), 21, *range(25, 28)]
    assert {f"table{number}" for number in numbers} - named == set()
    assert {"figure3", "figure4", "figure5"} - named == set()


def test_no_method_is_forgotten(shipped: dict[str, list[SuiteRun]]) -> None:
    methods = {run.settings.method.name for run in shipped["every_method"]}
    assert methods == set(known_names("method"))


def test_a_new_method_is_in_the_suite_of_every_method(
    shipped: dict[str, list[SuiteRun]], tmp_path: Path
) -> None:
    (tmp_path / "method").mkdir()
    copy = known_names("method")["lsq"].read_text()
    (tmp_path / "method" / "mine.yaml").write_text(copy)
    runs = expand(load_suite("every_method", tmp_path), tmp_path)
    known = {run.run_id for run in shipped["every_method"]}
    new = [run for run in runs if run.run_id not in known]
    assert len(runs) == len(known) + len(new)
    assert [(run.row, run.settings.method.name) for run in new] == [("mine", "mine")] * 4


def test_every_method_is_a_choice_of_the_suite(tmp_path: Path) -> None:
    rows = [{"label": "A", "method": "lsq", "overrides": ["training.lr=0.1"]}]
    runs = load(tmp_path, rows=rows, every_method=True, axes={"seed": [0]})
    others = sorted(set(known_names("method")) - {"lsq"})
    assert [run.row for run in runs] == ["A", *others]
    assert {run.row for run in load(tmp_path, rows=rows)} == {"A"}
    like = tmp_path / "like.yaml"
    like.write_text("about: like\nlike: every_method\naxes: {seed: [3]}\n")
    assert {run.settings.method.name for run in expand(load_suite(str(like)))} == {*others, "lsq"}


def test_headline_compares_at_identical_bits(shipped: dict[str, list[SuiteRun]]) -> None:
    bits: dict[tuple[str, str], set[str]] = {}
    people: dict[tuple[str, str], set[str]] = {}
    for run in shipped["headline"]:
        cell, settings = (run.axes["data"], run.axes["budget"]), run.settings
        people.setdefault(cell, set()).add(settings.evaluation.model_dump_json())
        if settings.method.name not in ("fp32", "ft32"):
            parts = (settings.budget, settings.quantization)
            found = "".join(part.model_dump_json() for part in parts)
            bits.setdefault(cell, set()).add(found)
    assert len(bits) > 5
    assert {cell for cell, found in bits.items() if len(found) > 1} == set()
    assert {cell for cell, found in people.items() if len(found) > 1} == set()
