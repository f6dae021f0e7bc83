"""Settings that are refused, kind by kind, in one line: the key, what came, what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cfq_bench.cli.listing import listing
from cfq_bench.cli.main import main
from cfq_bench.config.loader import load_settings, packaged_conf_dir, settings_from_config
from cfq_bench.config.plugin import config_class
from cfq_bench.config.suite import expand, load_suite
from cfq_bench.config.yaml import parse_yaml, read_yaml
from cfq_bench.errors import UserError, unknown_name
from cfq_bench.sweeps.settings import load_sweep
from cfq_bench.text import hidden

SUITE = "rows: [{label: LSQ, method: lsq}]\n"


def refusal(doing: Callable[[], object]) -> str:
    """The one line of an error."""
    with pytest.raises(UserError) as caught:
        doing()
    text = str(caught.value)
    assert hidden(text) is None
    assert len(text) <= 2000
    return text


# --- YAML ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("!!python/name:os.system", "the tag !!python/name:os.system is not read"),
        ("!!binary aGk=", "the tag !!binary is not read"),
        ("{a: !!set {b, c}}", "the tag !!set is not read"),
        ("!!timestamp 2020-01-01", "the tag !!timestamp is not read"),
        ("!mine 1", "the tag !mine is not read"),
        ("9" * 19, "a number of 19 digits: at most 18"),
        ("-" + "9" * 5000, "a number of 5000 digits"),
        ("1e400", "1e400 is not a finite number: quote it if it is a word"),
        (".nan", ".nan is not a finite number"),
        ("[-.INF]", "-.INF is not a finite number"),
        ("0." + "9" * 400 + "e999", "is not a finite number"),
        ("{[1]: 2}", "a list cannot be a key"),
        ("{{a: 1}: 2}", "a mapping cannot be a key"),
        ("{2019: x}", "the key 2019 is not text: quote it, as in '2019'"),
        ("{true: x}", "the key true is not text: quote it, as in 'true'"),
        ("~: x", "an empty key: write a name before the colon"),
        ("{a: 1, a: 2}", "the key 'a' is given twice"),
        ("{<<: {a: 1}}", "the merge key << is not read: write the keys out"),
        ("&a [*a]", "the alias *a stands inside what it names"),
        ("*a", "the alias *a stands for nothing"),
        ("[" * 1000 + "]" * 1000, "nested more than 40 levels deep"),
        ('"\\uD800"', "the character '\\\\ud800' is not text"),
        ('"\\x00"', "the character '\\\\x00' is not text"),
        ("\x00", "the character '\\\\x00' is not text"),
        ('"\\U7FFFFFFF"', "an escape that is no character"),
        ("--- 1\n--- 2", "line 2: not valid YAML: a second document begins here"),
        ("@x", "cannot start any token"),
    ],
)
def test_yaml_that_settings_have_no_use_for(text: str, words: str) -> None:
    said = refusal(lambda: parse_yaml(text, "mine.yaml"))
    assert said.startswith("mine.yaml")
    assert words.replace("\\\\", "\\") in said
    key = refusal(lambda: load_settings(overrides=[f"policy.tau_end={text}"]))
    assert "'policy.tau_end=" in key or '"policy.tau_end=' in key


def test_aliases_are_read_unless_they_explode() -> None:
    assert parse_yaml("{a: &x {b: 1}, c: *x}", "x") == {"a": {"b": 1}, "c": {"b": 1}}
    lines = ["x0: &x0 [1, 1]"]
    lines += [f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert "more than 100000 keys and values" in refusal(lambda: parse_yaml("\n".join(lines), "x"))


def test_words_of_tables_stay_words() -> None:
    text = "[2020-01-01, 12:30, 190:20:30, yes, No, on, 007, 0x1F, 1_000, =, 2001-12-14 21:59:43]"
    assert parse_yaml(text, "x") == text[1:-1].split(", ")
    assert parse_yaml("[1, -1, +2, 0, 1.5, .5, 1., 2e3, true, False, null, ~]", "x") == [
        *(1, -1, 2, 0, 1.5, 0.5, 1.0, 2000.0, True, False, None, None)
    ]


@pytest.mark.parametrize("text", ["- a\n", "5\n", "", "# nothing\n", "a\n---\nb\n", "a: [1\n"])
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    for read in (
        lambda: load_settings(method=str(path)),
        lambda: load_settings(data=str(path)),
        lambda: load_suite(str(path)),
        lambda: load_sweep(path),
    ):
        assert refusal(read).startswith(str(path))


# --- numbers ---


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path


@pytest.mark.parametrize(
    "names",
    [
        {"method": "cfq_prune", "data": "compas", "teacher": "r_margin", "solver": "robust"},
        {"method": "cfq_student", "data": "mnist"},
        {"method": "lsq", "data": "celeba"},
    ],
)
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_no_setting_takes_a_number_that_is_not_finite(names: Any, number: float) -> None:
    config = load_settings(**names).model_dump(mode="json")
    settings_from_config(config)
    paths = list(leaves(config))
    assert len(paths) > 80
    for *above, last in paths:
        here: Any = config
        for part in above:
            here = here[part]
        kept, here[last] = here[last], number
        refusal(lambda: settings_from_config(config))
        here[last] = kept


# --- labels, and what a name stands for ---


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("method.name=foo", "it is the stem of the method's YAML file"),
        ("data.name=foo", "give --data PATH"),
        ("allocator.name=foo", "name it as budget.allocator"),
        ("solver.about=foo", "it comes from the solver's YAML file"),
        ("data.features.age.unit=months", "only labels"),
        ("data.features.age={kind: integer, unit: months}", "data.features.age.unit only labels"),
        ("data.features={age: {kind: integer, unit: months}}", "age.unit only labels"),
        ("method.module=cfq_bench.methods.pact", "is what the method's name stands for"),
        ("data.loader=./other.csv", "is what the data's name stands for"),
        ("actions.kind=latent", "is what the actions's name stands for"),
        ("data.actions=german/paper", "write --actions NAME or actions=NAME"),
    ],
)
def test_what_only_labels_cannot_be_overridden(override: str, words: str, tmp_path: Path) -> None:
    said = refusal(lambda: load_settings(overrides=[override]))
    assert words in said
    assert "a YAML file of your own" in said or "actions=NAME" in said
    row = {"label": "a", "method": "lsq", "overrides": [override]}
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"rows": [row]}))
    assert words in refusal(lambda: expand(load_suite(str(path))))
    key, _, value = override.partition("=")
    space = {key: [parse_yaml(value, "x")]}
    path.write_text(json.dumps({"method": "cfq", "data": "compas", "seeds": [0], "space": space}))
    if "={" not in override:
        assert words in refusal(lambda: load_sweep(path))


def test_settings_beside_a_label_can_be_overridden() -> None:
    found = load_settings(overrides=["data.features.age={kind: integer, transform: log1p}"])
    assert found.data.name == "compas"


@pytest.mark.parametrize("value", ["", "5", "[lsq]", "{a: b}", "true"])
def test_a_name_is_a_word(value: str) -> None:
    said = refusal(lambda: load_settings(overrides=[f"method={value}"]))
    assert "expected the name of a method (`cfq-bench list method` shows them)" in said


def test_a_file_does_not_name_itself(tmp_path: Path) -> None:
    text = (packaged_conf_dir() / "method" / "lsq.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(f"{text}name: other\n")
    assert "name is the file's stem, 'mine'" in refusal(lambda: load_settings(str(path)))
    path.write_text(f"{SUITE}name: other\n")
    assert "name is the file's stem, 'mine'" in refusal(lambda: load_suite(str(path)))


@pytest.mark.parametrize("stem", ["a\nb", "a\x1b[31mb", "a\u202eb", "..", " "])
def test_a_name_is_one_line_that_can_be_seen(tmp_path: Path, stem: str) -> None:
    text = (packaged_conf_dir() / "method" / "lsq.yaml").read_text()
    path = tmp_path / f"{stem}.yaml"
    path.write_text(text)
    assert "name" in refusal(lambda: load_settings(str(path)))
    path.write_text(SUITE)
    assert "name" in refusal(lambda: load_suite(str(path)))
    path.write_text(json.dumps({"rows": [{"label": stem, "method": "lsq"}]}))
    refusal(lambda: load_suite(str(path)))
    path.write_text(json.dumps({"axes": {"x": {stem: ["seed=1"]}}, "rows": [{"label": "a"}]}))
    refusal(lambda: load_suite(str(path)))


def test_what_a_file_is_about_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "method").mkdir()
    text = (packaged_conf_dir() / "method" / "lsq.yaml").read_text()
    rest = "\n".join(line for line in text.splitlines() if not line.startswith("about"))
    abouts = {"one": "about: |\n  two\n  lines\n", "two": "about: 5\n", "three": ""}
    for stem, about in abouts.items():
        (tmp_path / "method" / f"{stem}.yaml").write_text(f"{about}{rest}\n")
    assert load_settings("one", conf_dir=tmp_path).method.about == "two lines"
    lines = listing("method", tmp_path).splitlines()
    assert [line.split() for line in lines if line.split()[0] in ("one", "two", "three")] == [
        *(["one", "two", "lines"], ["three"], ["two", "5"])
    ]


# --- the base file ---


@pytest.mark.parametrize("group", ["method", "data", "backbone", "teacher", "solver"])
@pytest.mark.parametrize(("value", "words"), [(None, "it is missing"), ([1], "got [1]")])
def test_a_base_file_names_a_file_of_every_group(
    tmp_path: Path, group: str, value: object, words: str
) -> None:
    base = read_yaml(packaged_conf_dir() / "base.yaml")
    del base[group]
    if value is not None:
        base[group] = value
    (tmp_path / "base.yaml").write_text(json.dumps(base))
    said = refusal(lambda: load_settings(conf_dir=tmp_path))
    assert f"base.yaml: {group} must be the name of a file in conf/{group}; {words}" in said


def test_a_base_file_with_another_key_says_what_it_may_be(tmp_path: Path) -> None:
    base = read_yaml(packaged_conf_dir() / "base.yaml")
    (tmp_path / "base.yaml").write_text(json.dumps(base | {"trainig": {}}))
    assert "did you mean 'training'?" in refusal(lambda: load_settings(conf_dir=tmp_path))


# --- plug-in files ---


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"class Config(MethodSettings):\n    x: float = 1 / 0\n", "ZeroDivisionError"),
        (b"class Config(MethodSettings):\n    model_config = 5\n", "its Config is none"),
        (b"class Config(5):\n    pass\n", "its Config is none"),
        (b"class Config(\n", "line 2: not valid Python"),
        (b"\xff\xfe\x00", "not valid Python"),
        (b"x = '\x00'\n", "Python"),
        (b"class Config:\n    pass\n", "must be a subclass of"),
    ],
)
def test_a_plug_in_that_is_no_settings(tmp_path: Path, body: bytes, words: str) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(b"from cfq_bench.config.base import MethodSettings\n" + body)
    assert words in refusal(lambda: config_class(str(path)))


@pytest.mark.parametrize("module", ["", ".", "..x", "a\x00b", "os.path.x", "x" * 3000 + ".py", "5"])
def test_a_module_that_is_none(tmp_path: Path, module: str) -> None:
    assert "does not exist" in refusal(lambda: config_class(module))


# --- messages ---


def test_a_message_is_one_line_of_bounded_length() -> None:
    assert str(UserError("a\nb\x1b\u202e")) == "a\\nb\\u001b\\u202e"
    assert len(str(UserError("x" * 10**6))) == 2000
    assert len(str(unknown_name("setting", "y" * 10**6, ["a"] * 50))) < 400


def test_the_command_line_ends_with_one_line() -> None:
    for lines in (["method.name=foo"], ["policy.tau_end=.nan"], ["seed={[1]: 2}"], ["\udcff=1"]):
        done = CliRunner().invoke(main, ["run", *lines])
        assert done.exit_code == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ")
