"""A report as one HTML file: no script, nothing from elsewhere."""

from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cfq_bench.report.build import Report
from cfq_bench.text import shown


def html(report: Report) -> str:
    """The whole report, with its figures inside."""
    drawings = [
        # An XML declaration is not allowed inside HTML.
        (drawing, Markup(drawing.svg.decode()[drawing.svg.decode().index("<svg") :]))
        for drawing in report.drawings
    ]
    template = _environment().get_template("report.html.j2")
    return template.render(report=report, drawings=drawings, style=_style())


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("cfq_bench.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=shown,
    )


@cache
def _style() -> Markup:
    folder = resources.files("cfq_bench.report") / "templates"
    return Markup((folder / "report.css").read_text(encoding="utf-8"))
