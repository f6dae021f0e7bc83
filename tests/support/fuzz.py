"""Settings as nobody would write them: overrides, names, and files that went wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from cfq_bench.config.loader import load_settings, packaged_conf_dir
from cfq_bench.config.yaml import read_yaml

VALUES = (
    *("", "~", "null", "none", "true", "no", "Yes", "0", "-1", "1", "7", "0.5", "-0.0", "1e-3"),
    *("1e400", "-1e400", ".inf", "-.INF", ".nan", "NaN", "Infinity", "5" * 19, "-" + "5" * 5000),
    *("0." + "3" * 5000, "010", "0o17", "0x1F", "1_000", "190:20:30", "12:30", "2020-01-01"),
    *("2001-12-14t21:59:43.10-05:00", "=", "<<", "?", ":", "-", "- -", "*a", "&a 1", "&a", "!"),
    *("!!python/name:os.system", "!!python/object/apply:os.system [ls]", "!!binary aGVsbG8="),
    *("!!set {a, b}", "!!timestamp 2020-01-01", "!!int x", "!!float x", "!!bool 7", "!!str 5"),
    *("!!omap [a: 1]", "!!map [1]", "!mine {a: 1}", "!<tag:x> 1", "[", "{", "[]", "{}", "[1", "|"),
    *("{[1]: 2}", "{{a: 1}: 2}", "{1: 2}", "{true: 1}", "{null: 1}", "{: 1}", "{a: 1, a: 2}"),
    *("{? [a, b] : c}", "{<<: {a: 1}}", "&a [*a]", "{a: &a {b: *a}}", "[&a 1, *a, *b]", "[2.5]"),
    *('"\\uD800"', '"\\x00"', '"\\U7FFFFFFF"', '"a\\nb"', "'it''s'", "a\nb: c", "--- 1\n--- 2"),
    *("[[1]]", "[" * 900 + "]" * 900, "{a: " * 60 + "1" + "}" * 60, "x" * 5000, "[1, [2, [3]]]"),
    *("# a comment", "%YAML 1.1", "@x", "`x`", "\t", "\x00", "\x1b[31m", "\u2028", "\ud800", "{a"),
    *("{kind: any, low: .nan}", "{kind: any, low: 5, high: 1}", "[a, b]", "{a: b}", "[.inf]"),
    *("{name: x}", "{unit: x, kind: numeric}", "lsq", "german", "mlp2", "auto", "fixed", "images"),
    "[&x0 [1, 1], " + ", ".join(f"&x{i + 1} [{', '.join([f'*x{i}'] * 9)}]" for i in range(9)) + "]",
)
"""What an override or a key of a file may be given, as YAML text."""
PLAIN: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 0.5, -2.5, 1e300, 10**30, "", "x", "a\nb", "\x1b[31m", "\u202e", ".."),
    *([], {}, [1], ["x"], [[1]], [None], {"a": 1}, {"": 1}, {"a": {"b": {}}}, "x" * 3000, "cfq"),
)
"""The same as values."""
WORDS = (
    *("", "x", "name", "about", "module", "loader", "kind", "unit", "regime", "features", " ", "é"),
)
NAMES = (
    *("", "..", "../..", "/", "lsqq", "compas.yaml", "no/such.yaml", "a\nb", "\x00", "x" * 5000),
    *("x" * 5000 + ".yaml", "\x00.yaml", "\ud800.yaml", ".yaml", "conf", "german", "lsq", "mnist"),
)
GROUPS = ("method", "data", "actions", "regime", "allocator", "solver", "backbone", "teacher")


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every setting by its path, mappings included."""
    if path:
        yield path
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from leaves(item, (*path, str(key)))


def _keys(data: str) -> dict[str, dict[str, Any]]:
    """Settings of a run on these data with their values, by their group."""
    config = load_settings("cfq", data).model_dump(mode="json")
    found: dict[str, dict[str, Any]] = {}
    for path in leaves(config):
        value: Any = config
        for part in path:
            value = value[part]
        found.setdefault(path[0], {})[".".join(path)] = value
    return found


KEYS = {data: _keys(data) for data in ("compas", "mnist")}
"""Settings that exist, by data set and group."""
texts = st.one_of(
    st.sampled_from(VALUES),
    st.sampled_from(("0", "1", "2", "4", "0.5", "0.1", "true", "false", "null", "any", "lsq")),
    st.text(max_size=20),
    st.text(st.sampled_from("[]{}:,&*!|>'\"%@`#-?= \n\t\\a1.~<"), max_size=20),
    st.floats().map(repr),
    st.integers().map(str),
    st.recursive(
        st.sampled_from(PLAIN) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=6,
    ).map(lambda value: json.dumps(value, ensure_ascii=False)),
)
"""What stands behind an override's equals sign."""


def _like(value: Any) -> st.SearchStrategy[str]:
    """Values of the same kind as one that is right, some of them as extreme as they come."""
    if isinstance(value, bool):
        return st.sampled_from(("true", "false"))
    if isinstance(value, int):
        return st.integers(-1, 9).map(str) | st.integers().map(str)
    if isinstance(value, float):
        return st.floats(0.0, 8.0).map(repr) | st.floats().map(repr)
    if isinstance(value, list):
        return st.lists(st.sampled_from(value or [2, 4]), max_size=4).map(json.dumps)
    return st.sampled_from(("null", json.dumps(value), "any", "8", "0.25"))


@st.composite
def overrides(draw: st.DrawFn, data: str) -> list[str]:
    """One to three overrides of a run, most of them of settings that exist."""
    lines = []
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        group = KEYS[data][draw(st.sampled_from(sorted(KEYS[data])))]
        key = draw(st.sampled_from(sorted(group)))
        value = draw(_like(group[key]) if draw(st.booleans()) else texts)
        twist = draw(st.sampled_from(range(10)))
        if twist == 0:
            key = f"{key}.{draw(st.sampled_from(WORDS))}"
        elif twist == 1:
            at = draw(st.integers(0, len(key)))
            key = key[:at] + draw(st.text(max_size=2)) + key[at + 1 :]
        elif twist == 2:
            key = draw(st.sampled_from(GROUPS))
        lines.append(f"{key}={value}" if draw(st.sampled_from(range(30))) else draw(st.text()))
    return lines


_SWEEPS = packaged_conf_dir().parent / "sweeps"
FILES = {
    "sweep": _SWEEPS / "eta_lambda.yaml",
    "search": _SWEEPS / "search.yaml",
    **{
        name: packaged_conf_dir() / f"{name}.yaml"
        for name in (
            *("base", "data/compas", "data/mnist", "backbone/mlp2", "teacher/r_margin"),
            *("actions/compas/paper", "actions/mnist/latent", "actions/celeba/semantic"),
            *("method/cfq", "method/lsq", "solver/search", "regime/moderate", "suite/smoke"),
        )
    },
}
"""Files that are made wrong, by what they are."""


@st.composite
def broken_file(draw: st.DrawFn, what: str) -> str:
    """The text of a packaged file with one to three mistakes."""
    if draw(st.booleans()):
        return draw(broken_text(FILES[what].read_text(encoding="utf-8")))
    raw = read_yaml(FILES[what])
    for _ in range(draw(st.integers(1, 3))):
        raw = draw(broken_values(raw))
    return json.dumps(raw, ensure_ascii=False, indent=1)


@st.composite
def broken_text(draw: st.DrawFn, text: str) -> str:
    """A text with lines or letters lost, doubled, moved or put in."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        how = draw(st.integers(0, 5))
        line = lines[at] if lines else ""
        if how == 0:
            lines[at : at + 1] = []
        elif how == 1:
            lines.insert(at, line)
        elif how == 2:
            lines[at : at + 1] = [" " * draw(st.integers(0, 6)) + line.lstrip()]
        elif how == 3:
            lines[at : at + 1] = [f"{line.partition(':')[0]}: {draw(texts)}"]
        elif how == 4:
            place = draw(st.integers(0, len(line)))
            lines[at : at + 1] = [line[:place] + draw(st.text(max_size=3)) + line[place + 1 :]]
        else:
            lines = draw(st.sampled_from(([], ["- 1"], ["x"], ["---", *lines, "---", *lines])))
    return "\n".join(lines)


@st.composite
def broken_values(draw: st.DrawFn, raw: Any) -> Any:
    """A mapping with a key lost, added, renamed, or of another value, at any depth."""
    raw = copy.deepcopy(raw)
    paths = list(leaves(raw))
    if not paths:
        return raw
    *above, key = draw(st.sampled_from(paths))
    here = raw
    for part in above:
        here = here[part]
    how = draw(st.integers(0, 3))
    if how == 0:
        here.pop(key, None)
    elif how == 1:
        here[key] = draw(st.sampled_from(PLAIN))
    elif how == 2:
        here[draw(st.sampled_from(WORDS))] = draw(st.sampled_from(PLAIN))
    else:
        here[f"{key}{draw(st.text(max_size=2))}"] = here.pop(key, None)
    return raw


def folder_of(what: str, text: str, folder: Path) -> Path:
    """A ``conf`` folder whose one file is broken; the path of that file."""
    path = folder / f"{what}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path
