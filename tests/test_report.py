"""Reports: verdicts and answers worked out by hand, the same bytes twice, nothing unescaped."""

import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from cfq_bench.aggregate.comparisons import decide, hindrances_of
from cfq_bench.aggregate.numbers import label_of
from cfq_bench.aggregate.places import arranged
from cfq_bench.cli.main import main
from cfq_bench.config.loader import known_names
from cfq_bench.config.suite import SuiteRun, expand, load_suite, select
from cfq_bench.errors import UserError
from cfq_bench.evaluation.keys import metric_info
from cfq_bench.files import run_id
from cfq_bench.record.archive import Archive, Validity, pack, read_archive, stored, unpack
from cfq_bench.record.identity import made_by_code
from cfq_bench.record.record import Record
from cfq_bench.record.store import RecordStore
from cfq_bench.report.build import build_report
from cfq_bench.report.latex import escaped, latex_table
from cfq_bench.report.layout import Cell, Table
from cfq_bench.report.markdown import markdown_table
from cfq_bench.report.page import record_page, result_table
from cfq_bench.report.paper_map import paper_map
from cfq_bench.report.paper_side import beside
from cfq_bench.report.write import files_of, write_report
from cfq_bench.results.collect import Results, collect
from cfq_bench.statistics.bootstrap import Interval
from cfq_bench.statistics.paired import Difference

pytestmark = pytest.mark.usefixtures("without_pdf")

VALUES: dict[str, float | None] = {
    "task/acc": 0.85,
    "task/favourable_drift": 0.0,
    "recourse/vd": 0.2,
    "recourse/vd_adverse": 0.1,
    "recourse/boundary_error": 0.15,
    "recourse/crg": 0.1,
    "recourse/crg_all": 0.1,
    "recourse/crg_abs": 0.2,
    "recourse/lost": 0.0,
    "deploy/avg_bits": 4.0,
}
Metrics = dict[str, float | None]


def runs(suite: str = "table1") -> list[SuiteRun]:
    return select(expand(load_suite(suite)), {"seed": ["0", "1"]})


def record_of(run: SuiteRun, metrics: Metrics, status: Any = "ok") -> Record:
    config = run.settings.model_dump(mode="json")
    return Record(
        run_id=run_id(config),
        status=status,
        reason=None if status == "ok" else "RuntimeError: it broke <down>",
        config=config,
        metrics={**VALUES, **metrics},
        counts={},
        details={"deploy/bits_per_layer": {}, "groups": [], "margins": []},
        provenance={"version": "1.2", "git_commit": "0123456789abcdef", "git_dirty": False},
        seconds=1.0,
    )


def made(metrics: Callable[[SuiteRun], Metrics], suite: str = "table1") -> Results:
    return collect(suite, runs(suite), [record_of(run, metrics(run)) for run in runs(suite)])


def spread_out(run: SuiteRun) -> Metrics:
    """CFQ 0.05 below LSQ at every seed, PACT above at one and below at the other."""
    seed = run.settings.seed
    error = {"CFQ": 0.10, "PACT": 0.15 + (0.04 if seed else -0.04)}.get(run.row, 0.15)
    bits = 32.0 if run.row in ("FP32", "FT32") else 4.0
    return {"recourse/boundary_error": error + 0.01 * seed, "deploy/avg_bits": bits}


def report(results: Results, baseline: str | None = None) -> Any:
    return build_report(load_suite(results.suite), results, {}, baseline)


# --- what it says ---


def test_the_answer_says_what_holds_and_what_is_not_decided() -> None:
    found = report(made(spread_out))
    by_title = {finding.title: finding.sentences for finding in found.answers[0].findings}
    (below,) = by_title["Holds: boundary error lower than LSQ's"]
    assert below.startswith(
        "CFQ's boundary error is lower than LSQ's on 3 of 3 data sets, clearly on 3 "
        "(mean difference -0.050, 95 % interval -0.050 to -0.050, seeds 0, 1, "
        "sign test over data sets p = 0.25)."
    )
    undecided = by_title["Not decided"]
    assert [text.split("'s")[0] for text in undecided] == ["PACT"]
    # MixedPrec's records say what LSQ's do: it is no comparison of its own.
    assert found.summary.startswith("Of 2 comparisons")
    (same,) = found.answers[-1].findings
    assert same.sentences == ["LSQ and MixedPrec are the same networks on adult, german, compas."]


def test_another_baseline_turns_the_answer_round() -> None:
    found = report(made(spread_out), "CFQ")
    titles = [finding.title for finding in found.answers[0].findings]
    assert "Does not hold: boundary error higher than CFQ's" in titles
    with pytest.raises(UserError, match="LSX"):
        report(made(spread_out), "LSX")


BETTER: Metrics = {"recourse/vd": 0.1, "recourse/vd_adverse": 0.05, "recourse/crg_abs": 0.1}


@pytest.mark.parametrize(
    ("ours", "reasons"),
    [
        ({}, []),
        ({"task/acc": 0.8471, "task/favourable_drift": -0.0099}, []),
        ({"recourse/vd": 0.2}, ["VD not lower"]),
        ({"recourse/vd_adverse": 0.1}, ["VD adverse not lower"]),
        ({"recourse/crg_abs": 0.3}, ["|CRG| not lower"]),
        ({"recourse/crg_abs": None}, ["|CRG| unknown"]),
        ({"task/acc": 0.846}, ["accuracy lower"]),
        ({"task/favourable_drift": -0.011}, ["drift over 1 point"]),
        ({"task/favourable_drift": None}, ["drift over 1 point"]),
        ({"recourse/vd": 0.3, "task/acc": 0.8}, ["VD not lower", "accuracy lower"]),
    ],
)
def test_what_stops_a_row_from_being_better(ours: Metrics, reasons: list[str]) -> None:
    found = made(lambda run: {**BETTER, **ours} if run.row == "CFQ" else {})
    (setting,) = arranged(found.finished)
    for place in setting.places.values():
        assert hindrances_of(place, "CFQ") == reasons


def test_nothing_to_lower_is_no_hindrance() -> None:
    nothing = dict.fromkeys(BETTER, 0.0)
    (setting,) = arranged(made(lambda run: nothing).finished)
    for place in setting.places.values():
        assert hindrances_of(place, "CFQ") == []


def marked(found: Any, metric: str) -> set[str]:
    """Rows of COMPAS's table whose mean is marked as the best of a column."""
    (table,) = (table for table in found.cells if "compas" in table.name)
    column = table.head.index(label_of(metric))
    return {line[0].text for line in table.rows if line[column].best}


def test_the_best_of_the_quantized_rows_is_marked_where_they_differ() -> None:
    errors = {"FP32": 0.0, "FT32": 0.0, "CFQ": 0.10, "PACT": 0.1004}  # alike as printed

    def metrics(run: SuiteRun) -> Metrics:
        accuracy = {"LSQ": 0.9, "FP32": 0.95}.get(run.row, 0.8)
        error = errors.get(run.row, 0.15)
        return {**spread_out(run), "recourse/boundary_error": error, "task/acc": accuracy}

    found = report(made(metrics))
    assert marked(found, "recourse/boundary_error") == {"CFQ", "PACT"}
    assert marked(found, "task/acc") == {"LSQ"}  # higher is better
    assert marked(found, "recourse/vd") == set()  # all alike


def test_rows_that_differ_in_their_seeds_are_told() -> None:
    kept = [run for run in runs() if run.row != "CFQ" or run.settings.seed == 1]
    records = [record_of(run, spread_out(run)) for run in kept]
    found = report(collect("table1", runs(), records))
    (table,) = (table for table in found.cells if "compas" in table.name)
    assert "Compared on seeds 0, 1, which most rows have." in table.notes
    assert (
        "On seeds of their own, never marked as best: CFQ (seed 1); their differences are over "
        "the seeds that the baseline has too."
    ) in table.notes
    (cfq,) = (line for line in table.rows if line[0].text == "CFQ")
    assert [cfq[1].text, cfq[-1].text] == ["1 (own)", "-0.050 (one seed)"]
    note = "On seeds of their own, never marked as best: CFQ on adult (seed 1), CFQ on german"
    assert any(text.startswith(note) for text in found.overviews[0].notes)
    assert not any(cell.best for cell in cfq)


def changed(run: SuiteRun, **evaluation: Any) -> SuiteRun:
    """A run with other settings of its evaluation, under the same label."""
    settings = run.settings
    own = settings.evaluation.model_copy(update=evaluation)
    settings = settings.model_copy(update={"evaluation": own})
    return replace(run, settings=settings, run_id=run_id(settings.model_dump(mode="json")))


def test_rows_that_measure_on_other_people_stand_in_tables_of_their_own() -> None:
    every = [changed(run, split="validation") if run.row == "CFQ" else run for run in runs()]
    results = collect("table1", every, [record_of(run, spread_out(run)) for run in every])
    found = report(results)
    assert [table.caption for table in found.cells if "compas" in table.name] == [
        "compas, test rows",
        "compas, validation rows",
    ]
    assert not [text for text in sentences(found) if text.startswith("CFQ")]
    (drawing,) = (one for one in found.drawings if one.name == "boundary-error")
    assert "Measured on test rows and validation rows." in drawing.caption


def sentences(found: Any) -> list[str]:
    return [text for one in found.answers for part in one.findings for text in part.sentences]


def test_a_missing_run_changes_neither_order_nor_baseline() -> None:
    every = select(
        expand(load_suite("headline")),
        {"seed": ["0"], "budget": ["W4A8"], "data": ["adult", "german"]},
    )
    kept = [run for run in every if (run.row, run.axes["data"]) != ("LSQ", "adult")]
    results = collect("headline", every, [record_of(run, {}) for run in kept])
    (setting,) = arranged(results.finished)
    assert setting.baseline == "LSQ"
    assert setting.rows == list(dict.fromkeys(run.row for run in every))
    assert setting.places["adult"].baseline is None


def test_two_rows_of_one_label_are_told_apart() -> None:
    def two(run: SuiteRun) -> SuiteRun:
        return replace(changed(run, group_min_rows=7), row="LSQ") if run.row == "PACT" else run

    every = [two(run) for run in runs()]
    results = collect("table1", every, [record_of(run, spread_out(run)) for run in every])
    rows = {result.row for result in results.finished}
    assert len(rows) == 6
    (other,) = rows - {"FP32", "FT32", "LSQ", "MixedPrec", "CFQ"}
    assert other.startswith("LSQ (")
    assert "evaluation.group_min_rows=7" in other


@pytest.mark.parametrize(
    ("by_data", "verdict"),
    [
        ([(-0.2, 0.01), (-0.1, 0.01), (-0.1, 0.2)], "lower"),
        ([(0.2, 0.01), (0.1, 0.01), (0.1, 0.2)], "higher"),
        # Holds on 2 of 5: the mean's interval alone is no verdict.
        ([(-0.4, 0.01), (-0.2, 0.01), (0.01, 0.2), (0.01, 0.2), (0.01, 0.2)], "mixed"),
        ([(-0.4, 0.01), (-0.2, 0.01), (0.05, 0.01)], "mixed"),
        ([(-0.4, 0.01), (0.4, 0.01)], "mixed"),
        ([(-0.01, 0.2), (-0.02, 0.3)], "not decided"),
        ([(-0.4, None), (-0.2, None)], "not decided"),
    ],
)
def test_verdicts_need_an_interval_and_agreement(
    by_data: list[tuple[float, float | None]], verdict: str
) -> None:
    def made_up(mean: float, half: float | None) -> Difference:
        interval = None if half is None else Interval(mean, mean - half, mean + half)
        return Difference(mean, interval, (0, 1), (mean, mean), over_rows=False)

    found = [made_up(*pair) for pair in by_data]
    halves = [half for _, half in by_data if half is not None]
    overall = sum(mean for mean, _ in by_data) / len(by_data)
    assert decide(made_up(overall, max(halves) / 3 if halves else None), found) == verdict


def test_means_over_data_sets_and_their_difference_are_at_the_same_seeds() -> None:
    """One data set has one seed: then no interval, and means at that seed."""
    kept = [run for run in runs() if run.axes["data"] != "german" or run.settings.seed == 1]

    def metrics(run: SuiteRun) -> Metrics:
        return {**spread_out(run), "task/acc": 0.5 + 0.1 * run.settings.seed}

    found = report(collect("table1", runs(), [record_of(run, metrics(run)) for run in kept]))
    (table,) = found.overviews
    texts = [cell.text for cell in table.rows[-1]]
    cfq = dict(zip(table.head, texts, strict=True))
    assert cfq["row"] == "CFQ"
    assert cfq["mean difference to LSQ"] == "-0.050 (one seed)"
    assert cfq["mean accuracy"] == "0.600"
    assert cfq["boundary error, adult"] == "0.105 ± 0.007"
    assert cfq["boundary error, german"] == "0.110"
    assert any("at seed 1." in note for note in table.notes)
    assert not [text for text in sentences(found) if "95 % interval" in text]


def test_no_failure_in_any_seed_has_an_upper_bound() -> None:
    none = {"recourse/vd": 0.0, "recourse/vd_adverse": 0.0, "recourse/boundary_error": 0.0}

    def record(run: SuiteRun) -> Record:
        made_up = record_of(run, none if run.row in ("CFQ", "FP32") else spread_out(run))
        counts = {"recourse/vd": 30, "recourse/vd_adverse": 50}
        return made_up.model_copy(update={"counts": {**counts, "recourse/boundary_error": 30}})

    found = report(collect("table1", runs(), [record(run) for run in runs()]))
    (table,) = (table for table in found.cells if "compas" in table.name)
    numbers = {(n["row"], n["metric"]): n for n in table.numbers}
    high = 3.8415 / (60 + 3.8415)  # z^2 / (n + z^2), two seeds of 30 people
    assert numbers["CFQ", "recourse/vd"]["wilson_high"] == pytest.approx(high, abs=1e-4)
    assert numbers["LSQ", "recourse/vd"]["wilson_high"] is None
    assert numbers["LSQ", "recourse/vd"]["of_seeds"] == 2
    (note,) = (note for note in table.notes if "Wilson" in note)
    assert "boundary error of CFQ: 0.035" in note
    assert "FP32" not in note  # it is the teacher itself


def test_runs_that_failed_or_are_missing_are_told() -> None:
    every = runs()
    records = [record_of(run, {}) for run in every[:-2]] + [record_of(every[-1], {}, "failed")]
    found = report(collect("table1", every, records))
    assert found.state[0] == f"Runs: {len(every) - 2} finished, 0 skipped, 1 failed, 1 missing."
    assert found.state[2] == f"Made by: cfq-bench 1.2 at 0123456789 ({len(every) - 2} runs)."
    assert "RuntimeError: it broke <down>" in found.state[3]


def test_a_run_says_on_which_rows_it_measured_and_how_few_they_are() -> None:
    run = changed(runs()[0], split="validation")
    record = record_of(run, {"recourse/vd": 0.0})
    record = record.model_copy(update={"counts": {"recourse/vd": 61, "task/acc": 105}})
    for text in (result_table(record, Path("x.json")), record_page(record, None)):
        assert text.splitlines()[0].endswith("seed 0, validation rows)")
        assert "accuracy of f_q on the validation split" in text
        (vd,) = (line for line in text.splitlines() if line.startswith("  VD  "))
        assert "0.000 n=61     [0.000, 0.059] share of teacher actions" in vd
        assert "test split" not in text


# --- the paper beside ---


def paper_says(metric: str, row: str, ours: Callable[[SuiteRun], Metrics]) -> str:
    found = beside("table1", made(ours).finished)
    (one,) = [
        one
        for one in found
        if (one.value.dataset, one.value.metric, one.value.method) == ("adult", metric, row)
    ]
    return one.verdict


@pytest.mark.parametrize(
    ("cfq", "mixed", "spread", "verdict"),
    [
        (0.065, 0.4, 0.0005, "agrees"),  # the paper: CFQ .061 ± .008, MixedPrec .121
        (0.065, 0.4, 0.05, "cannot tell"),  # within, but ours is wider than its gap to MixedPrec
        (0.3, 0.4, 0.0005, "same order"),
        (0.5, 0.4, 0.0005, "opposite order"),
        (0.4, 0.4, 0.0005, "differs"),  # a tie has no order
        (0.3, 0.4, 0.05, "cannot tell"),
    ],
)
def test_verdicts(cfq: float, mixed: float, spread: float, verdict: str) -> None:
    def metrics(run: SuiteRun) -> Metrics:
        own = {"CFQ": cfq, "MixedPrec": mixed}.get(run.row, 0.9)
        return {"recourse/vd": own + spread * (run.settings.seed - 0.5)}

    assert paper_says("vd", "cfq", metrics) == verdict


def test_one_seed_cannot_tell() -> None:
    one = [result for result in made(lambda run: {}).finished if result.seed == 0]
    assert {found.verdict for found in beside("table1", one)} == {"cannot tell"}


def test_without_a_spread_the_paper_s_rounding_counts() -> None:
    def metrics(vd: float) -> Callable[[SuiteRun], Metrics]:
        return lambda run: {"recourse/vd": vd if run.row == "FP32" else 0.3}

    assert paper_says("vd", "fp32", metrics(0.0004)) == "agrees"  # .000
    # The paper's teacher is below its MixedPrec, and so is ours.
    assert paper_says("vd", "fp32", metrics(0.0006)) == "same order"


def test_what_was_not_run_is_no_number() -> None:
    results = made(lambda run: {})
    rest = tuple(one for one in results.finished if one.row != "CFQ")
    found = beside("table1", rest)
    verdicts = {one.verdict for one in found if one.value.method == "cfq"}
    assert verdicts <= {"not run", "no counterpart"}
    assert "not run" in verdicts


def test_our_vd_never_stands_alone() -> None:
    found = beside("table1", made(lambda run: {}).finished)
    said = {one.beside for one in found if one.value.metric == "vd" and one.ours is not None}
    assert said == {"VD adverse 0.100, boundary error 0.150, drift 0.000"}


def test_the_map_names_rows_axes_and_metrics_that_exist() -> None:
    mapped, answered = paper_map(), set()
    for name in known_names("suite"):
        every = expand(load_suite(name))
        for table in set(load_suite(name).tables) & set(mapped.tables):
            answered.add(table)
            entry = mapped.tables[table]
            rows = {run.row for run in every}
            assert entry.baseline in rows, (name, table)
            assert set(entry.rows.values()) & rows, (name, table)
            for place in filter(None, entry.settings.values()):
                for axis, value in {**entry.axes, **place.axes}.items():
                    assert value in {run.axes.get(axis) for run in every}, (name, table, axis)
    assert answered == set(mapped.tables)
    sources = [mapped.metrics, *(entry.metrics for entry in mapped.tables.values())]
    for source in (s for part in sources for s in part.values()):
        for one in source if isinstance(source, list) else [source]:
            for key in [one] if isinstance(one, str) else (one.sum if one else []):
                metric_info(key)


# --- formats ---

TABLE = Table(
    "a", "50 % of a_b", ["row", "x & y"], [[Cell("<b>|*"), Cell("1", best=True)]], ["a note"], []
)


def test_markdown_keeps_its_cells() -> None:
    lines = markdown_table(TABLE).splitlines()
    assert lines[0] == "**50 % of a\\_b**"
    assert lines[2:5] == ["| row | x &amp; y |", "| --- | ---: |", "| &lt;b&gt;\\|\\* | **1** |"]


def test_latex_escapes_what_it_would_read() -> None:
    assert escaped("a_b & 5 % ± |x|") == r"a\_b \& 5 \% $\pm$ \textbar{}x\textbar{}"
    text = latex_table(TABLE)
    assert r"row & x \& y \\" in text
    assert r"\textless{}b\textgreater{}\textbar{}{*} & \textbf{1} \\" in text


def test_html_escapes_labels_and_has_no_script() -> None:
    every = runs()
    records = [record_of(run, {}) for run in every[:-1]] + [record_of(every[-1], {}, "failed")]
    text = files_of(report(collect("table1", every, records)))["report.html"].decode()
    assert "it broke &lt;down&gt;" in text
    assert "<script" not in text
    assert "src=" not in text
    assert text.count("<table") == text.count("<caption") > 3


def test_the_same_records_give_the_same_bytes() -> None:
    results = made(spread_out)
    turned = collect("table1", runs(), [one.record for one in reversed(results.finished)])
    first, again = files_of(report(results)), files_of(report(turned))
    assert {"report.md", "report.html", "tables/adult.csv", "tables/adult.tex"} <= set(first)
    assert first == again


def test_an_earlier_report_s_tables_are_removed(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "old.csv").write_text("x")
    count = write_report(report(made(spread_out)), tmp_path)
    assert not (tmp_path / "tables" / "old.csv").exists()
    assert count == sum(path.is_file() for path in tmp_path.rglob("*"))


# --- the archive ---


def archive() -> Archive:
    records = tuple(record_of(run, spread_out(run)) for run in runs()[:3])
    rows = {
        records[0].run_id: {
            "favourable": Validity.of([3, 70_000, 5], [True, False, True]),
            "adverse": Validity.of([], []),
        }
    }
    return Archive(records, rows)


def test_an_archive_holds_records_and_who_kept_their_action() -> None:
    data = pack(archive())
    back = unpack(data, "here")
    assert {one.run_id: one for one in back.records} == {
        one.run_id: one for one in archive().records
    }
    ((name, rows),) = back.rows.items()
    assert name == archive().records[0].run_id
    assert rows["favourable"].failures == {3: 0.0, 70_000: 1.0, 5: 0.0}
    assert len(rows["adverse"].row_ids) == 0
    turned = replace(archive(), records=archive().records[::-1])
    assert pack(turned) == data


def test_outcomes_come_from_the_rows_beside_a_record(tmp_path: Path) -> None:
    run = runs()[0]
    rows = pd.DataFrame(
        {
            "row_id": [7, 8, 9, 10],
            "direction": ["favourable", "favourable", "adverse", "favourable"],
            "valid_q": [True, False, True, None],  # row 10 has no action
            "cost_f": [1.0, 2.0, 3.0, float("inf")],
        }
    )
    store = RecordStore(tmp_path)
    store.write(record_of(run, {}), rows)
    found = unpack(pack(stored(store, [run.run_id])), "here").rows[run.run_id]
    assert found["favourable"].failures == {7: 0.0, 8: 1.0}
    assert found["adverse"].failures == {9: 0.0}


@pytest.mark.parametrize(
    "harm",
    [
        lambda d: d[:-20],
        lambda d: b"no archive",
        lambda d: b"",
        lambda d: lzma.compress(b'"another format"\n'),
        lambda d: lzma.compress(b'"cfq-bench archive 1"\n{"record": {}, "rows": []}\n'),
    ],
)
def test_a_damaged_archive_is_one_line(harm: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl.xz"
    path.write_bytes(harm(pack(archive())))
    with pytest.raises(UserError, match=r"records\.jsonl\.xz is no whole archive"):
        read_archive(path)
    with pytest.raises(UserError, match="results pack"):
        read_archive(tmp_path / "none")


def test_the_command_line_packs_and_reports(tmp_path: Path) -> None:
    for run in runs():
        made = made_by_code(run.settings.model_dump(mode="json"))
        record = record_of(run, spread_out(run)).model_copy(update={"made_by": made})
        RecordStore(tmp_path).write(record, None)
    into = tmp_path / "packed.xz"
    at = ["--results-dir", str(tmp_path)]
    done = CliRunner().invoke(main, ["results", "pack", "table1", *at, "--into", str(into)])
    assert done.exit_code == 0, done.output
    assert f"{len(runs())} records" in done.output
    for source, folder in ((at, "a"), (["--archive", str(into)], "b")):
        words = ["report", "table1", *source, "--into", str(tmp_path / folder)]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
    one, other = ((tmp_path / folder / "report.html").read_bytes() for folder in "ab")
    assert one == other
    done = CliRunner().invoke(main, ["report", "smoke", *at])
    assert done.exit_code == 2
    assert "cfq-bench suite smoke" in done.output
