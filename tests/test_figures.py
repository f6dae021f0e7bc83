"""Figures plot what records say: positions and lengths are read from matplotlib's own objects."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from math import isnan
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure

from cfq_bench.config.loader import known_names
from cfq_bench.config.suite import SuiteRun, expand, load_suite, select
from cfq_bench.figures.catalogue import FIGURES
from cfq_bench.figures.draw import Drawing, build_figure, draw_figures
from cfq_bench.figures.export import to_svg
from cfq_bench.figures.style import looks, styled
from cfq_bench.record.record import Record, run_id
from cfq_bench.results.collect import Results, collect
from cfq_bench.statistics.bootstrap import seed_interval
from tests.support.waiting import run_python

Metrics = dict[str, float | None]
VALUES: Metrics = {
    "task/acc": 0.8,
    "recourse/vd": 0.2,
    "recourse/vd_adverse": 0.1,
    "recourse/boundary_error": 0.15,
    "recourse/crg": -0.1,
    "recourse/crg_abs": 0.3,
    "recourse/frr": 0.9,
    "robust/success": 0.7,
    "deploy/avg_bits": 4.0,
    "time/fit_s": 2.0,
}
DETAILS: dict[str, Any] = {
    "deploy/bits_per_layer": {"layer1": 2, "layer2": 8},
    "sensitivities": [
        {"layer": "layer1", "factual": 4.0, "counterfactual": 1.0},
        {"layer": "layer2", "factual": 1.0, "counterfactual": 5.0},
    ],
    "margins": [
        {"quantile": level, "teacher": level, "quantized": level - 0.5}
        for level in (0.05, 0.25, 0.5, 0.75, 0.95)
    ],
    "groups": [
        {"attribute": "sex", "group": group, "metric": metric, "value": value, "count": 40}
        for group, value in (("Female", 0.3), ("Male", 0.1))
        for metric in ("vd", "vd_adverse", "crg", "crg_abs")
    ],
}


@cache
def runs_of(suite: str) -> list[SuiteRun]:
    return expand(load_suite(suite))


def budgets() -> list[float]:
    """Of the suite of curves, ascending."""
    return sorted({float(run.axes["budget"]) for run in runs_of("budget_curves")})


def made(
    suite: str,
    metrics: Callable[[SuiteRun], Metrics] = lambda run: {},
    details: Mapping[str, Any] = DETAILS,
    **only: list[str],
) -> Results:
    """Results of a real suite's runs with made-up values; `metrics` replace some of `VALUES`."""
    runs = select(runs_of(suite), {"seed": ["0", "1"], **only})
    records = []
    for run in runs:
        config = run.settings.model_dump(mode="json")
        records.append(
            Record(
                run_id=run_id(config),
                status="ok",
                config=config,
                metrics={**VALUES, **metrics(run)},
                counts={},
                details=dict(details),
                provenance={},
                seconds=1.0,
            )
        )
    return collect(suite, runs, records)


def built(name: str, results: Results) -> Figure:
    figure = build_figure(name, results)
    assert figure is not None
    return figure


def lines(figure: Figure, panel: int = 0) -> dict[str, tuple[list[float], list[float]]]:
    """x and y by label."""
    found = figure.axes[panel].get_lines()
    return {
        str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata()))
        for line in found
        if not str(line.get_label()).startswith("_")
    }


def bars(figure: Figure, panel: int = 0) -> dict[str, list[float]]:
    """Lengths by label."""
    containers = [c for c in figure.axes[panel].containers if isinstance(c, BarContainer)]
    return {str(c.get_label()): [bar.get_width() for bar in c] for c in containers}


def marks(figure: Figure, panel: int = 0) -> dict[str, tuple[float, float, tuple[float, float]]]:
    """x, y and the ends of the interval along x by label."""
    found = {}
    for container in figure.axes[panel].containers:
        assert isinstance(container, ErrorbarContainer)
        data, _, (segments, *_) = container.lines
        (x,), (y,) = data.get_data()
        ends = segments.get_segments()[0][:, 0]
        found[str(container.get_label())] = (x, y, (ends[0], ends[1]))
    return found


@pytest.mark.slow
def test_every_suite_has_the_figures_that_it_can_answer() -> None:
    expected = {
        "headline": ["headline"],
        "budget_curves": ["boundary-error-by-bits", "figure-03-04", "figure-05"],
        "constraints": ["figure-18", "figure-19", "figure-20"],
        "shift": ["figure-21", "figure-22"],
        "table7": ["figure-08", "figure-13"],
        "table8": [],
        "table31": ["boundary-error-by-bits", "figure-25", "figure-26"],
        "choices": [],  # two budgets are no curve
        "choices_images": [],
        "table13": ["figure-09"],
    }
    plain = {
        "subgroups": ["figure-06-23", "figure-24"],
        "table3": ["figure-07", "figure-08"],
        "cf_ptq": ["figure-10", "figure-11", "figure-12", "figure-13"],
        "teacher_quality": ["figure-14", "figure-15", "figure-16"],
        "overhead": ["figure-17"],
        "table30": ["pictures"],
        "table30_full": ["pictures"],
    }
    images = {"table30", "table30_full", "table31", "table32"}
    seen = set()
    for suite in known_names("suite"):
        details = {**DETAILS, "pictures": {"row_ids": []}} if suite in images else DETAILS
        results = made(suite, details=details, seed=["0"])
        found = [kind.name for kind in FIGURES if kind.needs.pick(results)]
        assert found == expected.get(suite, ["boundary-error", *plain.get(suite, [])]), suite
        seen |= {*found}
    assert seen == {kind.name for kind in FIGURES}


def test_a_curve_is_the_mean_over_seeds_at_the_bits_that_networks_have() -> None:
    def metrics(run: SuiteRun) -> Metrics:
        budget, seed = float(run.axes["budget"]), run.settings.seed
        return {"deploy/avg_bits": budget - 0.1, "recourse/boundary_error": 0.1 / budget + seed}

    results = made("budget_curves", metrics, data=["german", "compas"])
    figure = built("boundary-error-by-bits", results)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["german", "compas"]
    found = lines(figure)
    assert list(found) == ["LSQ", "PACT", "MixedPrec", "KD-QAT", "CFQ", "CFQ distilled"]
    x, y = found["CFQ"]
    assert x == pytest.approx([budget - 0.1 for budget in budgets()])
    assert y == pytest.approx([0.1 / (bits + 0.1) + 0.5 for bits in x])


def test_bands_and_lines_are_the_interval_of_the_mean() -> None:
    def metrics(run: SuiteRun) -> Metrics:
        return {"recourse/boundary_error": [0.1, 0.4, 0.2][run.settings.seed]}

    interval = seed_interval([0.1, 0.4, 0.2])
    assert interval is not None
    seeds = {"seed": ["0", "1", "2"], "data": ["german"]}
    band = built("boundary-error-by-bits", made("budget_curves", metrics, **seeds))
    corners = band.axes[0].collections[0].get_paths()[0].vertices
    assert np.min(corners[:, 1]) == pytest.approx(interval.low)
    assert np.max(corners[:, 1]) == pytest.approx(interval.high)
    mean, _, ends = marks(built("headline", made("headline", metrics, **seeds)))["LSQ, W4A8"]
    assert mean == pytest.approx(0.7 / 3)
    assert ends == pytest.approx((interval.low, interval.high))


def test_an_undefined_value_is_a_gap_and_no_zero() -> None:
    def without_one(run: SuiteRun) -> Metrics:
        place = (run.row, run.axes.get("budget"), run.axes.get("regime"))
        lost = place in (("CFQ", "4", None), ("CFQ", None, "moderate"))
        return {"recourse/boundary_error": None, "recourse/vd": None} if lost else {}

    curve = built("boundary-error-by-bits", made("budget_curves", without_one, data=["german"]))
    assert [isnan(y) for y in lines(curve)["CFQ"][1]] == [budget == 4 for budget in budgets()]
    bar = bars(built("figure-18", made("constraints", without_one)))
    assert bar["CFQ"] == pytest.approx([0.2, np.nan, 0.2], nan_ok=True)
    assert bar["MixedPrec"] == pytest.approx([0.2] * 3)

    def without_w4(run: SuiteRun) -> Metrics:
        return {"recourse/boundary_error": None} if run.axes.get("budget") == "W4A8" else {}

    dots = marks(built("headline", made("headline", without_w4, data=["german"])))
    assert "LSQ, W3.5A8 blocks" in dots
    assert not any("W4A8" in label for label in dots)


def test_a_mean_is_over_the_seeds_that_have_a_value() -> None:
    def metrics(run: SuiteRun) -> Metrics:
        return {"recourse/vd": [None, 0.3][run.settings.seed]}

    assert bars(built("figure-18", made("constraints", metrics)))["CFQ"] == [0.3] * 3


def test_small_errors_are_told_apart_on_a_root_axis() -> None:
    def metrics(run: SuiteRun) -> Metrics:
        return {"recourse/boundary_error": {"LSQ": 0.36, "CFQ": 0.0}.get(run.row, 0.01)}

    figure = built("headline", made("headline", metrics, data=["german"]))
    ax = figure.axes[0]
    low, zero, small, large = ax.transData.transform(
        [(x, 0) for x in (*ax.get_xlim()[:1], 0, 0.01, 0.36)]
    )[:, 0]
    assert (small - zero) / (large - zero) == pytest.approx(1 / 6)
    assert low < zero  # marks at zero are whole
    assert [text.get_text() for text in ax.get_xticklabels()][:3] == ["0", "0.01", "0.05"]


def test_a_run_that_is_missing_is_a_gap_in_its_row() -> None:
    results = made("headline", data=["german", "compas"])
    kept = [r for r in results.finished if (r.row, r.run.axes["data"]) != ("PACT", "german")]
    figure = built("headline", Results("headline", tuple(kept), (), (), ()))
    german, compas = marks(figure, 0), marks(figure, 1)
    assert "PACT, W4A8" not in german
    # Lines of the page are the same on both panels.
    rows = [row.label for row in load_suite("headline").rows]
    apart = rows.index("PACT") - rows.index("LSQ")
    assert compas["PACT, W4A8"][1] == pytest.approx(german["LSQ, W4A8"][1] + apart)
    assert compas["CFQ, W4A8"][1] == german["CFQ, W4A8"][1]


def test_rows_keep_the_suites_order_although_a_cell_leaves_one_out() -> None:
    figure = built("headline", made("headline", data=["german"]))
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == [*(row.label for row in load_suite("headline").rows), "MixedPrec"]


def test_a_headline_keeps_to_actions_on_the_integer_grid() -> None:
    labels = marks(built("headline", made("headline", data=["german"])))
    assert "LSQ, W4A8" in labels
    assert not any("off the grid" in label for label in labels)


@pytest.mark.parametrize(
    "lost",
    [{"recourse/boundary_error": None}, {"recourse/vd": None}, {"recourse/crg": None}],
    ids=str,
)
def test_without_a_metric_its_figures_are_not_drawn(lost: Metrics) -> None:
    results = made("budget_curves", lambda run: lost, data=["german"])
    names = {kind.name for kind in FIGURES if kind.needs.pick(results)}
    (key,) = lost
    gone = {"boundary_error": "boundary-error-by-bits", "vd": "figure-03-04", "crg": "figure-05"}
    assert {*gone.values()} - names == {gone[key.split("/")[1]]}


def test_an_axis_with_one_value_is_no_axis() -> None:
    assert draw_figures(made("budget_curves", data=["german"], budget=["4"])) == []
    assert draw_figures(made("shift", shift=["none"])) == []


def test_no_results_no_figures() -> None:
    assert draw_figures(Results("headline", (), (), (), ())) == []


def test_names_of_users_are_drawn_as_they_are() -> None:
    groups = [line | {"group": f"${line['group']} <&> $5_000"} for line in DETAILS["groups"]]
    results = made("subgroups", details={**DETAILS, "groups": groups}, data=["compas"])
    svg = next(d.svg for d in draw_figures(results) if d.name == "figure-24")
    words = {str(e.text) for e in ElementTree.fromstring(svg).iter()}
    assert "$Female <&> $5_000" in words


def test_groups_with_too_few_rows_have_no_bar() -> None:
    groups = [
        line | {"count": 3 if line["group"] == "Female" else 40} for line in DETAILS["groups"]
    ]
    results = made("subgroups", details={**DETAILS, "groups": groups}, data=["compas"])
    figure = built("figure-06-23", results)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["compas, sex"] * 2
    assert bars(figure)["CFQ"] == pytest.approx([np.nan, 0.1], nan_ok=True)


def test_margins_are_the_records_quantiles() -> None:
    ax = built("figure-07", made("table3", data=["german"])).axes[0]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["teacher f", "MixedPrec", "CFQ"]
    spans = [c.get_segments()[0][:, 0].tolist() for c in ax.collections]
    assert spans[:2] == [[0.05, 0.95], [0.25, 0.75]]  # the teacher's
    assert spans[2] == pytest.approx([-0.45, 0.45])
    assert lines(ax.figure)["CFQ"] == ([0.0], [2])


def test_bits_are_those_of_the_layers() -> None:
    figure = built("figure-08", made("table3", data=["german"]))
    assert bars(figure) == {"MixedPrec": [2, 8], "CFQ": [2, 8]}


def test_sensitivities_are_relative_to_the_most_sensitive_layer() -> None:
    figure = built("figure-13", made("cf_ptq", data=["german"]))
    assert bars(figure) == {"factual": [1.0, 0.25], "counterfactual": [0.2, 1.0]}


def test_times_are_relative_at_the_same_seed() -> None:
    def metrics(run: SuiteRun) -> Metrics:
        slow = 10.0**run.settings.seed  # seed 1 ran on a machine that is ten times slower
        seconds = {"QAT": 2.0, "CFQ (K=3)": 3.0, "PTQ (INT8)": 2.0, "CFQ": 5.0}
        return {"time/fit_s": slow * seconds.get(run.row, 4.0)}

    found = marks(built("figure-17", made("overhead", metrics)))
    assert {label: x for label, (x, *_) in found.items()} == pytest.approx(
        {"QAT": 1.0, "CFQ (K=1)": 2.0, "CFQ (K=2)": 2.0, "CFQ (K=3)": 1.5, "CFQ (cached)": 2.0}
    )
    scatter = marks(built("figure-12", made("cf_ptq", metrics, data=["german"])))
    assert scatter["PTQ (INT8)"][:2] == pytest.approx((1.0, 0.2))
    assert scatter["CFQ"][:2] == pytest.approx((2.5, 0.2))


def test_without_the_unit_of_time_there_is_no_figure_of_times() -> None:
    rows = [row.label for row in load_suite("cf_ptq").rows if row.method != "ptq"]
    names = [d.name for d in draw_figures(made("cf_ptq", data=["german"], row=rows))]
    assert names == ["boundary-error", "figure-10", "figure-11", "figure-13"]


def test_settings_of_the_method_are_the_x_axis() -> None:
    def metrics(run: SuiteRun) -> Metrics:
        method = run.settings.model_dump()["method"]
        return {"recourse/vd": 0.1 * method["steps"] + method["noise"]}

    results = made("teacher_quality", metrics)
    steps, noise = built("figure-14", results), built("figure-16", results)
    assert lines(steps)["cfq"] == ([1.0, 2.0, 3.0], pytest.approx([0.1, 0.2, 0.3]))
    assert lines(noise)["cfq"] == ([0.0, 0.01, 0.05, 0.1], pytest.approx([0.3, 0.31, 0.35, 0.4]))


def test_the_feasible_rate_is_the_teachers() -> None:
    figure = built("figure-20", made("constraints"))
    assert bars(figure) == {"teacher f": pytest.approx([0.9] * 3)}


def test_robust_success_against_cost() -> None:
    def metrics(run: SuiteRun) -> Metrics:
        return {"recourse/crg": 0.4 if run.row == "Robust solver" else 0.1}

    figure = built("figure-09", made("table13", metrics, data=["german"], kappa=["0.1", "0"]))
    assert marks(figure)["Robust solver"][:2] == pytest.approx((0.4, 0.7))


@pytest.fixture(scope="module")
def drawings() -> dict[str, list[Drawing]]:
    """Every kind of figure once."""
    suites = ["headline", "budget_curves", "subgroups", "table3", "table13", "cf_ptq"]
    adult = ["teacher_quality", "overhead", "constraints", "shift"]
    with pytest.MonkeyPatch.context() as patch:  # one test asks for PDF
        patch.setattr("cfq_bench.figures.draw.to_pdf", lambda figure: b"%PDF")
        some = {suite: draw_figures(made(suite, data=["compas"])) for suite in suites}
        return some | {suite: draw_figures(made(suite)) for suite in [*adult, "table1"]}


@pytest.mark.slow
def test_vd_never_stands_alone(drawings: dict[str, list[Drawing]]) -> None:
    shown = 0
    for drawing in (d for found in drawings.values() for d in found):
        text = drawing.svg.decode()
        vd, twin = (len(re.findall(f">{name} \\(share\\)<", text)) for name in ("VD", "VD adverse"))
        assert vd == twin, drawing.name
        shown += vd
    assert shown > 5


def test_a_method_has_one_colour_in_all_figures() -> None:
    curve = built("boundary-error-by-bits", made("budget_curves", data=["german"]))
    bar = built("figure-18", made("constraints"))
    dot = built("headline", made("headline", data=["german"]))
    colours = {
        *(line.get_color() for line in curve.axes[0].get_lines() if line.get_label() == "CFQ"),
        *(to_hex(c[0].get_facecolor()) for c in bar.axes[0].containers if c.get_label() == "CFQ"),
        *(c.lines[0].get_color() for c in dot.axes[0].containers if "CFQ," in str(c.get_label())),
    }
    assert colours == {looks({"CFQ": "cfq"})["CFQ"].colour}


def test_rows_of_one_figure_differ_without_colour() -> None:
    methods = {f"CFQ (K={k})": "cfq" for k in (1, 2, 3)} | {"LSQ": "lsq", "mine": "my_method"}
    found = looks(methods).values()
    assert len({look.marker for look in found}) == len(methods)
    assert len({look.hatch for look in found}) == 3


@pytest.mark.slow
def test_svg_is_read_aloud_and_searched(drawings: dict[str, list[Drawing]]) -> None:
    space, link = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
    ids: list[str] = []
    for drawing in (d for found in drawings.values() for d in found):
        root = ElementTree.fromstring(drawing.svg)
        named = {str(e.get("id")): e.text for e in root.iter() if e.get("id")}
        title, caption = str(root.get("aria-labelledby")).split()
        assert root.get("role") == "img"
        assert (named[title], named[caption]) == (drawing.title, drawing.caption)
        words = [str(e.text).split(",")[0] for e in root.iter(f"{space}text")]
        assert {"compas", "adult"} & {*words}
        uses = [str(e.get(link))[1:] for e in root.iter(f"{space}use")]
        assert set(uses) <= set(named)
        ids += named
    assert len(ids) == len(set(ids)), "ids of two figures in one page must differ"


@pytest.mark.slow
def test_captions_name_seeds_and_what_is_missing(drawings: dict[str, list[Drawing]]) -> None:
    for drawing in (d for found in drawings.values() for d in found):
        assert "2 seeds" in drawing.caption
        assert "{" not in drawing.caption
        assert "missing" not in drawing.caption
    runs = runs_of("shift")
    some = made("shift")
    partly = collect("shift", runs, [result.record for result in some.finished])
    assert "24 of the suite's 40 runs are missing" in draw_figures(partly)[0].caption
    one = draw_figures(made("shift", seed=["0"]))[0]
    assert "1 seed, hence without intervals" in one.caption


def test_a_users_style_changes_nothing_and_is_left_alone() -> None:
    results = made("table1", data=["german"])
    plain = files(results)
    with matplotlib.rc_context({"font.size": 30.0, "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert files(results) == plain
        assert dict(matplotlib.rcParams) == before


def files(results: Results) -> list[bytes]:
    return [drawing.svg + drawing.pdf for drawing in draw_figures(results)]


def test_nothing_is_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files(made("overhead", seed=["0"]))


@pytest.mark.slow
def test_two_processes_draw_the_same_bytes_without_pyplot() -> None:
    script = (
        "import sys, hashlib; from tests.test_figures import digest; print(digest());"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    assert run_python(script).strip() == digest()


def digest() -> str:
    """Of a few figures' bytes."""
    some = [made("table3", data=["german"]), made("table13", data=["german"])]
    every = b"".join(content for results in some for content in files(results))
    return hashlib.sha256(every).hexdigest()


def test_ids_do_not_depend_on_hashes_and_are_all_there() -> None:
    with styled():
        figure = Figure()
        axes = figure.subplots(1, 2)
        for one in axes:
            one.plot([0, 1, 2], [1, 3, 2], marker="o")
        one, two = (to_svg(figure, name, "title", "words").decode() for name in ("one", "two"))
    assert one.replace("one-", "two-") == two  # the name is the salt of matplotlib's hashes
    ids = re.findall(r'\bid="([^"]+)"', one)
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', one)
    assert len(ids) == len(set(ids))
    assert len(set(used)) >= 3  # two clip paths and a marker
    assert set(used) <= set(ids)
