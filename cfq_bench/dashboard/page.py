"""The page as HTML: everything in one document, readable without its script."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from cfq_bench.aggregate.labels import Labels, label
from cfq_bench.aggregate.runs import Run
from cfq_bench.aggregate.tables import Cell, cell_of, tables
from cfq_bench.dashboard.index import Snapshot
from cfq_bench.dashboard.payload import as_json, payload
from cfq_bench.dashboard.run_page import RunPage
from cfq_bench.dashboard.views import View, views
from cfq_bench.record.identity import stale_words
from cfq_bench.text import shown as visibly

FILTERS = {"data": "Data set", "method": "Method", "budget": "Budget, bits", "seed": "Seed"}
"""Names of `Run`'s attributes that one can filter by, and their titles."""
OPEN_TABLES = 6
"""Tables of a view that are open at first; the same in `assets/main.js`."""
_SCRIPTS = ("aggregate.js", "tables.js", "charts.js", "overview.js", "main.js")


@dataclass(frozen=True)
class Selection:
    """What the filters leave.

    Attributes:
        chosen: allowed values by name of `FILTERS`; none means all.
    """

    chosen: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def has(self, run: Run) -> bool:
        """Whether a run is shown."""
        return all(not v or getattr(run, name) in v for name, v in self.chosen.items())


@dataclass(frozen=True)
class RunLine:
    """One line of the table of runs."""

    run: Run
    label: str
    shown: bool
    stale: str | None
    cells: Sequence[Cell]


def overview(
    snapshot: Snapshot,
    selection: Selection,
    *,
    source: str,
    articles: Iterable[RunPage] = (),
    exported: bool = False,
) -> str:
    """The page of all records.

    Args:
        snapshot: the records.
        selection: what the filters leave.
        source: where the records come from, in a sentence.
        articles: pages of single runs that become part of the document.
        exported: the document is a file, which no server stands behind.
    """
    labels, shown = label(snapshot.runs), views(snapshot.runs)
    selected = [run for run in snapshot.runs if selection.has(run)]
    return _render(
        title="cfq-bench dashboard",
        run=None,
        exported=exported,
        policy=_policy(exported=True) if exported else None,
        source=source,
        status=f"{len(selected)} of {len(snapshot.runs)} runs shown.",
        filters=_filters(snapshot.runs, selection),
        problems=snapshot.problems,
        stale=stale_words(snapshot.stale, len(snapshot.runs)),
        views=shown,
        tables={view.name: tables(selected, labels, view) for view in shown},
        open_tables=OPEN_TABLES,
        run_columns=shown[0].columns,
        run_lines=_run_lines(snapshot, selection, labels, shown[0]),
        run_address="#run-" if exported else "/run/",
        articles=articles,
        data=Markup(as_json(visibly(payload(snapshot, labels, shown)))),
    )


def run_document(page: RunPage) -> str:
    """The page of one run, as the server shows it."""
    return _render(title=f"{page.title} - cfq-bench", run=page, policy=None, articles=())


def security_policy() -> str:
    """The Content-Security-Policy of the server's pages: nothing but what they hold themselves."""
    return _policy(exported=False)


def _policy(*, exported: bool) -> str:
    rules = {
        "default-src": "'none'",
        "style-src": _hash(_style()),
        "script-src": _hash(_script()),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'" if exported else "'self'",
    }
    if not exported:  # neither has a meaning in a file
        rules |= {"connect-src": "'self'", "frame-ancestors": "'none'"}
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _style() -> str:
    return _asset("dashboard.css")


@cache
def _script() -> str:
    return "\n".join(_asset(name) for name in _SCRIPTS)


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader(__package__, "assets"),
        autoescape=select_autoescape(["j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visibly,
    )


def _render(**context: Any) -> str:
    template = _environment().get_template("page.html.j2")
    return template.render(**context, style=Markup(_style()), script=Markup(_script()))


def _filters(runs: Iterable[Run], selection: Selection) -> list[dict[str, Any]]:
    boxes = []
    for name, title in FILTERS.items():
        chosen = selection.chosen.get(name, ())
        known = {getattr(run, name) for run in runs} | set(chosen)
        order = sorted(known, key=_number_first)
        options = [{"text": text, "chosen": text in chosen} for text in order]
        boxes.append({"name": name, "title": title, "options": options})
    return boxes


def _number_first(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text


def _run_lines(
    snapshot: Snapshot, selection: Selection, labels: Labels, view: View
) -> list[RunLine]:
    """Every run, the newest first, with the columns of the comparison."""
    lines = []
    for run in sorted(snapshot.runs, key=lambda run: (run.utc, run.run_id), reverse=True):
        cells = [cell_of([run.values.get(c.key)], c.form, 1) for c in view.columns]
        stale = snapshot.stale.get(run.run_id)
        lines.append(RunLine(run, labels.row(run), selection.has(run), stale, cells))
    return lines
