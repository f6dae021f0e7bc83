"""One suite whose every word is an attack, through every writer: each shows it as text."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import cfq_bench
from cfq_bench.config.loader import packaged_conf_dir
from cfq_bench.config.suite import SuiteSettings, expand, load_suite
from cfq_bench.dashboard.export import export
from cfq_bench.figures.details import by_group
from cfq_bench.figures.export import to_svg
from cfq_bench.figures.style import styled
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from cfq_bench.report.build import build_report
from cfq_bench.report.compare import comparison
from cfq_bench.report.layout import Cell, Table
from cfq_bench.report.markdown import markdown_table, plain
from cfq_bench.report.page import record_page, result_table
from cfq_bench.report.write import files_of
from cfq_bench.results.collect import collect
from cfq_bench.text import hidden, shown, visible
from tests.support.records import made_rows, record_of

PACKAGE = Path(cfq_bench.__file__).parent
TAG = "<script>alert(1)</script><img src=x onerror=alert(2)>"
MARKS = '"&|`x`[x](javascript:a)[x]: ![x](y) $1$ #%~^{}_a_ **b** \\'
ROWS = (f"={TAG}", f"@{MARKS}", "-1+cmd()", "[2em]")
AXIS = ("+CFQ & co", "*<b>bold</b>*")
GROUP = f"\x1b[31m{TAG}\r\n\u202e{MARKS}\x00"
REASON = f"RuntimeError: {TAG}\n\n# {MARKS}\u2028\u202e"
DATA = "=&<i>mine"
"""A file's stem, so without a slash."""


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conf")
    (folder / "data").mkdir()
    text = (packaged_conf_dir() / "data" / "compas.yaml").read_text(encoding="utf-8")
    (folder / "data" / f"{DATA}.yaml").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def suite(conf: Path) -> SuiteSettings:
    values = {
        "about": f"{TAG} {MARKS}",
        "axes": {
            "data": ["compas", DATA],
            "_<u>axis": {word: [f"evaluation.kappa=0.{i + 1}"] for i, word in enumerate(AXIS)},
            "seed": [0, 1],
        },
        "rows": [
            {"label": label, "method": method}
            for label, method in zip(ROWS, ("lsq", "cfq", "pact", "kd_qat"), strict=True)
        ],
    }
    path = conf / "=<s>suite.yaml"
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
    return load_suite(str(path), conf)


@pytest.fixture(scope="module")
def records(suite: SuiteSettings, conf: Path) -> list[Record]:
    """A record of every run; one of them failed."""
    found = []
    for i, run in enumerate(expand(suite, conf)):
        config = run.settings.model_dump(mode="json")
        record = record_of(config, 0.1 + 0.01 * (i % 3))
        for line in record.details["groups"]:
            line["group"] = GROUP if line["group"] == "Male" else line["group"]
        found.append(record)
    last = found.pop()
    failed = {"status": "failed", "reason": REASON, "metrics": {}, "details": {}}
    return [*found, record_of(last.config, **failed)]


@pytest.fixture(scope="module")
def files(suite: SuiteSettings, conf: Path, records: list[Record]) -> dict[str, bytes]:
    results = collect(suite.name, expand(suite, conf), records)
    return dict(files_of(build_report(suite, results, {})))


class Page(HTMLParser):
    """Which elements and attributes a browser would see, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def unwanted(page: Page) -> set[str]:
    """Elements and attributes that only a label could have brought."""
    handlers = {name for name in page.attributes if name.startswith("on")}
    return handlers | (set(page.tags) & {"s", "i", "u", "b", "iframe", "object"})


def test_html_shows_labels_as_text(files: dict[str, bytes]) -> None:
    text = files["report.html"].decode()
    page = Page(text)
    assert unwanted(page) == set()
    assert not {"script", "img"} & set(page.tags)
    for label in (*ROWS, *AXIS, DATA, shown(REASON)):
        assert label in page.text, label
    assert hidden(text.replace("\n", "")) is None


def test_markdown_has_no_tag_no_link_and_whole_tables(files: dict[str, bytes]) -> None:
    text = files["report.md"].decode()
    assert not re.search(r"<[a-zA-Z/!?]", text)
    assert set(re.findall(r"(?<!\\)\]\(([^)]*)", text)) <= {
        f"figures/{Path(name).name}" for name in files if name.endswith(".svg")
    }
    assert hidden(text.replace("\n", "")) is None
    lines = text.splitlines()
    for above, rule in itertools.pairwise(lines):
        if rule.startswith("| ---"):
            assert bars(above) == bars(rule)
    assert all(bars(line) > 2 for line in lines if line.startswith("|"))
    assert not any(re.match(r"- (#|- |\d+\. )", line) for line in lines)


def bars(line: str) -> int:
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", line))


def test_csv_has_no_formula_and_its_numbers_are_numbers(files: dict[str, bytes]) -> None:
    tables = [content.decode() for name, content in files.items() if name.endswith(".csv")]
    assert len(tables) == 6  # two of the axis's values, each over data sets and on each of them
    for text in tables:
        head, *lines = csv.reader(io.StringIO(text))
        assert lines
        assert not [word for word in head if word.startswith(("=", "+", "-", "@"))]
        means = head.index("mean")
        for line in lines:
            assert len(line) == len(head)
            assert line[means] == "" or float(line[means]) is not None
            for cell in line:
                assert not cell.startswith(("=", "+", "@", "\t", "\r"))
                assert not cell.startswith("-") or float(cell) < 0
        rows = {line[head.index("row")] for line in lines}
        assert rows <= {f"'{label}" if label[0] in "=@-" else label for label in ROWS}


def test_latex_rows_have_their_columns_and_nothing_active(files: dict[str, bytes]) -> None:
    tables = [content.decode() for name, content in files.items() if name.endswith(".tex")]
    assert len(tables) == 6
    for text in tables:
        plain_text = text.replace(r"\ifdim\width>\linewidth", "")
        letters = re.sub(r"\\[&%$#_{}]", "", plain_text)  # what is not escaped
        assert letters.count("{") == letters.count("}")
        assert letters.count("$") % 2 == 0
        columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", text)[1])  # type: ignore[index]
        body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
        for line in body.strip().splitlines():
            assert len(re.findall(r"(?<!\\)&", line)) == columns - 1
            assert not re.match(r"\s*[\[*]", line)
        assert not re.search(r"[#~^|<>_]", letters)


@pytest.mark.filterwarnings("ignore:Glyph")
def test_figures_are_xml_without_scripts(
    suite: SuiteSettings, conf: Path, records: list[Record]
) -> None:
    results = collect(suite.name, expand(suite, conf), records)
    with styled():
        figure = by_group("vd")(results.finished[:8])
        drawn = to_svg(figure, DATA, REASON, GROUP)
    elements = list(ElementTree.fromstring(drawn).iter())
    names = {element.tag.rpartition("}")[2] for element in elements}
    assert not names & {"script", "img", "image", "b", "i", "u", "a"}
    words = {element.text for element in elements}
    assert {visible(REASON), visible(GROUP)} <= words
    assert any(TAG in (word or "") for word in words - {visible(REASON), visible(GROUP)})


def test_the_dashboard_shows_labels_as_text(records: list[Record], tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    for record in records[:3]:
        store.write(record, made_rows(3, GROUP))
    store.write(records[-1], None)
    path = tmp_path / "page.html"
    assert export(tmp_path, path) == 4
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert unwanted(page) == set()
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    embedded = text.split('id="data">')[1].split("</script>")[0]
    assert not re.search("[<>&]", embedded)
    data = json.loads(embedded)
    assert {run["data"] for run in data["runs"]} <= {"compas", DATA}
    groups = {line[1] for run in data["runs"] for line in run["groups"]}
    assert groups == {"Female", shown(GROUP)}
    assert shown(GROUP) in page.text
    assert shown(REASON) in page.text
    assert "\u202e" not in text


def test_the_script_puts_words_in_as_text() -> None:
    found = (PACKAGE / "dashboard" / "assets").glob("*.js")
    scripts = "".join(path.read_text(encoding="utf-8") for path in found)
    assert "textContent" in scripts
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "srcdoc",
    ):
        assert way not in scripts


def test_a_comparison_in_markdown_is_escaped(records: list[Record]) -> None:
    text = comparison(records, markdown=True)
    assert DATA not in text
    assert plain(DATA) in text


def test_labels_that_differ_in_marks_alone_are_files_of_their_own(
    files: dict[str, bytes], suite: SuiteSettings, conf: Path, records: list[Record]
) -> None:
    same = [run for run in expand(suite, conf) if run.axes["data"] == "compas"]
    words = {AXIS[0]: "a|b", AXIS[1]: "a b"}
    moved = [
        replace(run, axes={**run.axes, "_<u>axis": words[run.axes["_<u>axis"]]}) for run in same
    ]
    report = build_report(suite, collect(suite.name, moved, records), {})
    names = [table.name for table in report.tables]
    assert len(names) == len(set(names)) == 2


def test_a_terminal_gets_no_control_characters(records: list[Record]) -> None:
    details = {**records[0].details, "margins": []}
    first = records[0].model_copy(update={"details": details})
    pages = [record_page(first, None), record_page(records[-1], None), comparison(records)]
    for text in (*pages, result_table(records[-1], Path("a.json"))):
        assert hidden(text.replace("\n", "")) is None
    assert "\\u001b[31m" in pages[0]


@pytest.mark.parametrize("writer", [plain, lambda text: markdown_table(table_of(text))])
def test_a_written_word_is_one_line(writer: Callable[[str], str]) -> None:
    assert hidden(writer(GROUP).replace("\n", "")) is None


def table_of(text: str) -> Table:
    return Table("a", text, [text], [[Cell(text)]], [text], [])


def test_templates_have_no_way_around_the_escape() -> None:
    found = list(PACKAGE.rglob("*.j2"))
    assert len(found) == 3
    for path in found:
        assert "|safe" not in path.read_text(encoding="utf-8").replace(" ", "")
