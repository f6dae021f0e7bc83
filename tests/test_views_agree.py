"""One set of records in every view: the same seeds, means, spreads, marks, order and labels."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from matplotlib.container import ErrorbarContainer

from cfq_bench.aggregate.columns import COMPARED
from cfq_bench.aggregate.labels import label
from cfq_bench.aggregate.numbers import form_of, signed, written
from cfq_bench.aggregate.rows import Rows
from cfq_bench.aggregate.runs import read_run
from cfq_bench.dashboard.index import RecordIndex
from cfq_bench.dashboard.page import Selection, overview
from cfq_bench.figures.builders import by_row
from cfq_bench.figures.style import styled
from cfq_bench.record.store import RecordStore
from cfq_bench.report.build import Report, build_report
from cfq_bench.report.compare import comparison
from cfq_bench.report.write import files_of
from tests.support import hostile
from tests.support.hostile import ERROR, TITLES


class Line(NamedTuple):
    """One row of a table, as texts; best values end with a star."""

    label: str
    seeds: str
    cells: tuple[str, ...]
    difference: str


Tables = dict[str, list[Line]]
"""By place in the suite."""
_PLACE = {title: place for place, title in TITLES.items()}


def line_of(texts: list[str]) -> Line:
    name = re.sub(r" ?\[?own seeds: [\d, ]+\]?$", "", texts[0])
    return Line(name, texts[1], tuple(texts[2:-1]), texts[-1])


def printed(folder: Path) -> Tables:
    """By `cfq-bench compare`."""
    found: Tables = {}
    for block in comparison(RecordStore(folder).all()).split("\n\n"):
        title, _, *lines = [line for line in block.splitlines() if not line.startswith("* ")]
        place = _PLACE.get(title.split(", seeds")[0])
        if place is not None:
            found[place] = [line_of(re.split(r"\s{2,}", line.strip())) for line in lines]
    return found


def marked_down(folder: Path) -> Tables:
    """By `cfq-bench compare --markdown`."""
    found: Tables = {}
    text = comparison(RecordStore(folder).all(), markdown=True)
    text = re.sub(r"\\([_|$])", r"\1", text)  # the marks that Markdown would read
    for block in text.split("\n\n**"):
        title = block.strip("*\n ").split(", seeds")[0]
        if title in _PLACE:
            lines = [line.strip("| ").split(" | ") for line in block.splitlines() if "|" in line]
            texts = [[re.sub(r"^\*\*(.*)\*\*$", r"\1*", cell) for cell in line] for line in lines]
            found[_PLACE[title]] = [line_of(line) for line in texts[2:]]
    return found


def shown(folder: Path) -> Tables:
    """By the dashboard."""
    page = overview(RecordIndex(folder).refresh(), Selection(), source="Here.")
    part = page.split('data-view="comparison"')[1].split("</section>")[0]
    found: Tables = {}
    for table in part.split("<table>")[1:]:
        title = re.search(r"<caption>Methods: (.*)\. Seeds:", table)
        assert title is not None
        if title.group(1) in _PLACE:
            rows = re.findall(r"<tr>(.*?)</tr>", table, flags=re.S)[1:]
            texts = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.S) for row in rows]
            plain = [
                [re.sub(r"<[^>]+>", "", text.replace("</strong>", "*")).strip() for text in row]
                for row in texts
            ]
            found[_PLACE[title.group(1)]] = [line_of(row) for row in plain]
    return found


def reported(report: Report) -> Tables:
    """By the report's tables."""
    found: Tables = {}
    for table in report.cells:
        place = table.name.removeprefix("compas-")
        lines = [[cell.text + ("*" if cell.best else "") for cell in row] for row in table.rows]
        found[place] = [line_of(line) for line in lines]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    store = RecordStore(folder)
    for record in hostile.results(folder)[2]:
        store.write(record, None)
    return folder


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    settings, results, _ = hostile.results(folder)
    return build_report(settings, results, {})


def test_text_markdown_and_dashboard_are_the_same_tables(folder: Path) -> None:
    tables = shown(folder)
    assert list(tables) == list(TITLES)
    assert printed(folder) == tables
    assert marked_down(folder) == tables
    usual = {line.label: line for line in tables["usual"]}
    assert list(usual) == list(hostile.ERRORS)
    assert [line.seeds for line in usual.values()] == [
        *("3 of 5", "3 of 4", "3 of 5", "3", "2 (own)", "3 of 5", "3")
    ]


def test_the_report_shows_what_the_dashboard_shows(folder: Path, report: Report) -> None:
    tables, ours = shown(folder), reported(report)
    assert set(ours) == set(tables)
    for place, lines in ours.items():
        for line, other in zip(lines, tables[place], strict=True):
            assert line[:3] == other[:3]
            # Here with an interval, there with a standard deviation.
            assert line.difference.split(" ")[0] == other.difference.split(" ")[0], line


def test_the_seeds_of_a_table_are_one_set_by_hand(folder: Path) -> None:
    """LSQ .1 .1 .1 .5 .5 and CFQ .15 .15 .15: .100 and .150, and CFQ is not the best."""
    usual = {line.label: line for line in shown(folder)["usual"]}
    error = COMPARED.index(ERROR)
    assert usual["lsq"].cells[error] == "0.100 ± 0.000*"
    assert usual["kd_qat"].cells[error] == "0.100 ± 0.000*"
    assert usual["cfq"].cells[error] == "0.150 ± 0.000"
    assert usual["cfq"].difference == "+0.050 ± 0.000"
    # Fewer bits, seeds of its own, an undefined value: none is the best.
    assert usual["ptq"].cells[error] == "0.031 ± 0.031"
    assert usual["pact"].cells[error] == "0.300 ± 0.141"
    assert usual["pact"].difference == "-0.200 ± 0.141 (2)"
    assert usual["lsq (lr=0.0003)"].cells[error] == "0.188 ± 0.206 (2)"
    assert usual["lsq (lr=0.0003)"].difference == "+0.087 ± 0.206 (2)"
    drift = COMPARED.index("task/favourable_drift")
    assert usual["lsq"].cells[drift] == "0.000 ± 0.000"  # and not -0.000


def test_unrounded_numbers_are_those_of_the_cells(report: Report) -> None:
    files, tables = files_of(report), reported(report)
    for table in report.cells:
        numbers = list(csv.DictReader(io.StringIO(files[f"tables/{table.name}.csv"].decode())))
        for line in tables[table.name.removeprefix("compas-")]:
            own = {n["metric"]: n for n in numbers if n["row"] == line.label}
            for metric, text in zip(COMPARED, line.cells, strict=True):
                number, form = own[metric], form_of(metric)
                if text == "-":
                    assert number["mean"] == ""
                    continue
                assert text.split(" ")[0].strip("*") == written(float(number["mean"]), form)
                sd = re.search(r"± ([\d.]+)", text)
                if sd:
                    plain = "rate" if form == "signed" else form
                    assert sd.group(1) == written(float(number["sd"]), plain)
                used, _, of = line.seeds.removesuffix(" (own)").partition(" of ")
                assert number["of_seeds"] == (of or used)
            if line.label != "lsq":
                paired = own[f"{ERROR} minus lsq's"]
                assert line.difference.split(" ")[0] == signed(float(paired["mean"]))


def test_figures_draw_the_means_of_the_tables(folder: Path, report: Report) -> None:
    _, results, _ = hostile.results(folder)
    with styled():
        figure = by_row(ERROR, axis="measured")(results.finished)
    assert figure is not None
    (axes,) = figure.axes
    drawn = {
        str(c.get_label()): float(c.lines[0].get_xdata()[0])
        for c in axes.containers
        if isinstance(c, ErrorbarContainer)
    }
    column = COMPARED.index(ERROR)
    for place, lines in reported(report).items():
        for line in lines:
            mean = line.cells[column].split(" ")[0]
            assert written(drawn[f"{line.label}, {place}"], "rate") == mean
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list(hostile.ERRORS)


def test_only_what_may_be_compared_is_put_into_words(report: Report) -> None:
    usual = next(one for one in report.answers if one.title == "measured usual, test rows")
    titles = {finding.title: list(finding.sentences) for finding in usual.findings}
    assert {
        title: [text.split("'s")[0] for text in sentences]
        for title, sentences in titles.items()
        if "compared" not in title
    } == {
        "Does not hold: boundary error higher than lsq's": ["cfq"],
        "Not decided": ["lsq (lr=0.0003)", "pact"],
    }
    assert [text.split(" at ")[0] for text in titles["At other bits than lsq, not compared"]] == [
        "ptq"
    ]
    assert [
        text.split(" at ")[0] for text in titles["Controls in full precision, not compared"]
    ] == ["fp32"]
    (same,) = report.answers[-1].findings
    assert same.sentences == [
        f"{title}: lsq and kd_qat are the same networks on compas."
        for title in (
            "measured usual, test rows",
            "measured validation, validation rows",
            "measured closer, test rows",
        )
    ]
    named = " ".join(text for sentences in titles.values() for text in sentences)
    assert "kd_qat" not in named


def test_the_split_is_told_where_there_are_several(report: Report) -> None:
    captions = [table.caption for table in report.cells]
    assert captions == [
        "compas, measured usual, test rows",
        "compas, measured validation, validation rows",
        "compas, measured closer, test rows",
    ]


def test_the_best_is_never_above_its_rival_on_the_same_line() -> None:
    """Not even where the baseline lacks one of the table's seeds."""
    lsq = {seed: {ERROR: 0.5, "deploy/avg_bits": 4.0} for seed in (0, 1)}
    other = {seed: {ERROR: 0.6, "deploy/avg_bits": 4.0} for seed in (0, 1)}
    cfq = {**other, 2: {ERROR: 0.0, "deploy/avg_bits": 4.0}}
    pact = {seed: {ERROR: 0.7, "deploy/avg_bits": 4.0} for seed in (0, 1, 2)}
    rows = Rows({"LSQ": lsq, "CFQ": cfq, "PACT": pact, "KD": pact}, "LSQ")
    assert rows.seeds == (0, 1, 2)
    assert rows.summary("CFQ", ERROR) is not None
    assert rows.differences("CFQ") == pytest.approx([0.1, 0.1])
    assert rows.best(ERROR) == frozenset()


def test_a_label_stands_for_one_row_on_the_whole_page(folder: Path) -> None:
    runs = [read_run(r.model_dump(mode="json"), r.run_id) for r in RecordStore(folder).all()]
    labels = label(runs)
    assert len(set(labels.tables.values())) == len(labels.tables)
    assert len(set(labels.curves.values())) == len(labels.curves)
    assert labels.order == list(hostile.ERRORS)
