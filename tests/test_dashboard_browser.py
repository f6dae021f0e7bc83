"""The dashboard in headless Chromium, as people use it: mouse, keyboard, phone, no JavaScript."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from cfq_bench.aggregate.numbers import Form, written
from cfq_bench.dashboard.export import export
from cfq_bench.dashboard.index import RecordIndex
from cfq_bench.dashboard.page import Selection, overview
from cfq_bench.dashboard.server import Dashboard
from cfq_bench.record.store import RecordStore
from tests.support import hostile
from tests.support.records import made_record, made_rows
from tests.support.waiting import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
    pytest.mark.slow,
]
EVIL = "<img src=x onerror=alert(1)>"
HISTORY = pd.DataFrame({"name": "fit/loss", "step": [19, 39, 59], "value": [0.9, 0.5, 0.4]})
ERRORS = {"lsq": 0.3, "kd_qat": 0.2, "cfq": 0.0625}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_api.sync_playwright() as playwright:
        # Chromium's own sandbox does not start as root, as in a container.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    store = RecordStore(tmp_path)
    for method, error in ERRORS.items():
        for bits in (3.5, 4.0):
            for seed in range(3):
                full = (method, seed) == ("lsq", 0)
                store.write(
                    made_record(method, seed, error + 0.0125 * seed, bits),
                    made_rows(3, group=EVIL) if full else None,
                    history=HISTORY if full else None,
                )
    reason = f"RuntimeError: {EVIL}"
    store.write(made_record("pact", 0, status="failed", reason=reason, metrics={}), None)
    store.write(made_record("ptq", 1, 0.4, 4.0), None)  # a row that is not finished
    return tmp_path


@pytest.fixture
def server(results: Path) -> Iterator[Dashboard]:
    with Dashboard(results, 0) as server, serving(server):
        yield server


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open an address; the test fails if the page has an error or asks another machine."""
    troubles: list[str] = []
    contexts = []

    def open_address(address: str, **options: object) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: troubles.append("a dialog opened"))
        base = address.split("?")[0].removesuffix("/")
        page.on(
            "request",
            lambda r: None if r.url.startswith((base, "data:")) else troubles.append(r.url),
        )
        page.goto(address)
        return page

    yield open_address
    for context in contexts:
        context.close()
    assert troubles == []


def texts(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_text_contents()]


COMPARISON = "section[data-view=comparison] details:has(summary:text('W4A8'))"


def test_the_script_computes_what_the_server_computed(
    server: Dashboard, open_page: Callable[..., Page]
) -> None:
    """Two implementations of the same tables: one text."""
    page = open_page(server.url)
    script = "[...document.querySelectorAll('.tables')].map((one) => one.textContent)"
    by_server = page.evaluate(script)
    page.evaluate("applyFilters()")
    by_script = page.evaluate(script)
    assert ["".join(t.split()) for t in by_script] == ["".join(t.split()) for t in by_server]
    assert "own seeds: 1" in by_script[0]
    cases = [0.0625, 0.1875, 0.0005, 0.0015, -0.0625, -0.00001, 0.0, 2.5, 12.0, 0.1235]
    forms: tuple[Form, ...] = ("signed", "rate", "bits", "seconds")
    for form in forms:
        by_script = page.evaluate(
            "([all, form]) => all.map((x) => written(x, form))", [cases, form]
        )
        assert by_script == [written(value, form) for value in cases]


def test_the_script_decides_on_hostile_records_what_python_decides(
    tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    """Seeds, means, spreads, counts, differences, bold values and order; with a filter, too."""
    for record in hostile.results(tmp_path)[2]:
        RecordStore(tmp_path).write(record, None)
    script = "[...document.querySelectorAll('.tables')].map((one) => one.innerHTML)"
    snapshot = RecordIndex(tmp_path).refresh()
    few = {"method": ["cfq", "fp32", "ptq"]}
    for chosen in ({"seed": ["0", "3", "4"]}, few, {}):
        path = tmp_path / "page.html"
        html = overview(snapshot, Selection(chosen), source="Here.", exported=True)
        path.write_text(html, encoding="utf-8")
        page = open_page(path.as_uri())
        by_python = page.evaluate(script)
        page.evaluate("applyFilters()")
        by_script = page.evaluate(script)
        assert [bare(text) for text in by_script] == [bare(text) for text in by_python]
        # Under the filters no two rows that differ may be compared.
        assert ("<strong>" in by_script[0]) == (chosen == {})
    notes = page.locator("#tradeoff-charts figure:first-child tbody td:last-child")
    text = notes.all_text_contents()
    assert (
        "0.150 ± 0.000, compas, mlp2, W4A8, actions paper, solver search, kappa 0.1, test rows"
        in text
    )


def bare(html: str) -> str:
    """Cells with their marks; without what only one of both writes, such as buttons of heads."""
    kept = re.sub(r"<(?!/?strong|/?t[drh])[^>]*>", "", html)
    return "".join(re.sub(r"<(/?\w+)[^>]*>", r"<\1>", kept).split())


def test_filter_sort_and_open_a_run(server: Dashboard, open_page: Callable[..., Page]) -> None:
    page = open_page(server.url)
    page.get_by_role("checkbox", name="4", exact=True).first.check()
    page.get_by_role("checkbox", name="lsq").check()
    page.get_by_role("checkbox", name="cfq", exact=True).check()
    assert page.inner_text("#status") == "6 of 20 runs shown."
    assert texts(page, f"{COMPARISON} tbody th") == ["lsq", "cfq"]
    assert page.locator("#run-table tbody tr:visible").count() == 6
    head = page.locator(f"{COMPARISON} thead th").filter(has_text="boundary error").first
    assert head.get_attribute("aria-sort") == "none"
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert texts(page, f"{COMPARISON} tbody th") == ["cfq", "lsq"]
    head.get_by_role("button").click()
    assert texts(page, f"{COMPARISON} tbody th") == ["lsq", "cfq"]
    name = made_record("lsq", 0, 0.3, 4.0).run_id
    page.click(f"tr[data-run='{name}'] a")
    assert page.url == f"{server.url}run/{name}"
    assert page.inner_text("h1") == "lsq on compas (mlp2, 4 bits, seed 0)"
    assert "Rows that broke: 3 of 10." in page.content()
    assert page.get_by_text(EVIL).count() == 3
    chart = page.get_by_role("img", name="fit/loss against optimizer step")
    assert (chart.locator(".series path").count(), chart.is_visible()) == (1, True)
    page.go_back()
    assert page.inner_text("#status") == "6 of 20 runs shown."
    assert texts(page, f"{COMPARISON} tbody th") == ["lsq", "cfq"]
    page.get_by_role("button", name="Show all").click()
    assert page.inner_text("#status") == "20 of 20 runs shown, 1 of them skipped or failed."


def test_charts_have_names_and_their_numbers_as_a_table(
    server: Dashboard, open_page: Callable[..., Page]
) -> None:
    page = open_page(server.url)
    charts = page.get_by_role("img")
    labels = [chart.get_attribute("aria-label") or "" for chart in charts.all()]
    assert [label.split(":")[0] for label in labels] == [
        "compas, mlp2, A8, actions paper, solver search, kappa 0.1",
        "boundary error against accuracy",
        "boundary error against drift",
        "boundary error against average weight bits",
    ]
    assert page.locator("#curve-charts .band").count() == 3
    page.get_by_label("Shown against").select_option(label="VD")
    assert "VD against budget" in (charts.first.get_attribute("aria-label") or "")
    page.locator("#curve-charts summary").click()
    cells = texts(page, "#curve-charts tbody tr:first-child > *")
    assert cells == ["lsq", "3.5", "0.312 ± 0.013 (3 seeds)"]


def test_keyboard_alone(server: Dashboard, open_page: Callable[..., Page]) -> None:
    page = open_page(server.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    for _ in range(2):  # into the filters, which the main part begins with
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "method"
    page.keyboard.press("Space")
    assert page.inner_text("#status") == "6 of 20 runs shown."
    assert page.evaluate("document.activeElement.name") == "method"  # the focus stays
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert ring == "3px"
    button = page.locator(f"{COMPARISON} thead button").nth(2)
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator(f"{COMPARISON} th[aria-sort=ascending]").count() == 1
    page.locator("#run-table tbody tr:visible a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/run/*")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_in_either_light(
    server: Dashboard, open_page: Callable[..., Page], scheme: str
) -> None:
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": scheme}
    page = open_page(server.url, **options)
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
    low = page.evaluate(CONTRAST)
    assert low == []
    run = made_record("lsq", 0, 0.3, 4.0).run_id
    page.goto(f"{server.url}run/{run}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const back = (one) => {
    for (let e = one; e; e = e.parentElement) {
      const rgb = parse(getComputedStyle(e).backgroundColor);
      if (rgb.length === 3 || rgb[3] > 0) return rgb;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const one of document.querySelectorAll("body *:not(script):not(noscript)")) {
    const style = getComputedStyle(one);
    const own = [...one.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const mark = one.matches(".series .mark, .series path[stroke-dasharray]");
    if (!own && !mark) continue;
    const inside = one.closest("svg") !== null;
    const own_colour = style[inside ? "fill" : "color"];
    const colour = mark ? getComputedStyle(one.parentElement).color : own_colour;
    const front = parse(colour);
    const [a, b] = [light(front), light(back(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${one.tagName} ${one.textContent.slice(0, 20)}`);
  }
  return low;
}"""


def test_without_javascript(server: Dashboard, open_page: Callable[..., Page]) -> None:
    page = open_page(server.url, java_script_enabled=False)
    assert texts(page, f"{COMPARISON} tbody th")[1] == "lsq"
    assert (page.text_content("main") or "").count("Charts need JavaScript") == 2
    page.get_by_role("checkbox", name="cfq", exact=True).check()
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**method=cfq")
    assert page.inner_text("#status") == "6 of 20 runs shown."
    page.locator("#run-table tbody tr:visible a").first.click()
    assert page.inner_text("h1").startswith("cfq on compas")


def test_new_records_appear_while_one_reads(
    server: Dashboard, results: Path, open_page: Callable[..., Page]
) -> None:
    page = open_page(server.url)
    page.get_by_role("checkbox", name="cfq", exact=True).check()
    page.locator(f"{COMPARISON} thead button").nth(2).click()
    page.locator(f"{COMPARISON} thead button").nth(2).click()
    RecordStore(results).write(made_record("cfq", 3, 0.0625, 4.0), None)
    sync_api.expect(page.locator("#status")).to_have_text("1 new. 7 of 21 runs shown.")
    assert texts(page, f"{COMPARISON} tbody td:nth-child(2)") == ["4"]
    head = page.locator(f"{COMPARISON} thead th").nth(2)
    assert head.get_attribute("aria-sort") == "descending"  # the update did not undo it
    focused = "document.activeElement.textContent"
    assert "accuracy" in page.evaluate(focused)


def test_the_exported_page_works_from_a_file(results: Path, open_page: Callable[..., Page]) -> None:
    path = results / "page.html"
    export(results, path)
    start = time.perf_counter()
    page = open_page(path.as_uri())
    assert time.perf_counter() - start < 3.0
    page.get_by_role("checkbox", name="cfq", exact=True).check()
    assert page.inner_text("#status") == "6 of 20 runs shown."
    assert page.get_by_role("img").count() == 4
    name = made_record("lsq", 0, 0.3, 4.0).run_id
    page.get_by_role("button", name="Show all").click()
    page.click(f"tr[data-run='{name}'] a")
    article = page.locator(f"#run-{name}")
    assert article.is_visible()
    assert not page.locator("#filters").is_visible()
    assert "Rows that broke: 3 of 10." in (article.text_content() or "")
    page.go_back()
    assert page.locator("#filters").is_visible()
