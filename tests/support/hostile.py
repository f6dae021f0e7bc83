"""One suite and records that every view must show alike, whatever they try.

Of five seeds, LSQ has all and CFQ three (one failed, one is pending), PACT has two that the others
are not compared on. Label training's other learning rate has an undefined CRG and no boundary error
at one seed, KD-QAT is LSQ's network under another name, PTQ has fewer bits. The same rows are there
on validation rows and at another kappa, with other values. There is a record of another suite too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cfq_bench.config.suite import SuiteRun, SuiteSettings, expand, load_suite
from cfq_bench.record.record import Record
from cfq_bench.results.collect import Results, collect
from tests.support.records import made_record, record_of

SUITE = """
about: what views may disagree on
overrides: [budget.avg_bits=4]
axes:
  data: [compas]
  measured:
    usual: []
    validation: [evaluation.split=validation]
    closer: [evaluation.kappa=0.0]
  seed: [0, 1, 2, 3, 4]
rows:
  - {label: fp32, method: fp32}
  - {label: ptq, method: ptq}
  - {label: lsq, method: lsq}
  - {label: lsq (lr=0.0003), method: lsq, overrides: [training.lr=3.0e-4]}
  - {label: pact, method: pact}
  - {label: kd_qat, method: kd_qat}
  - {label: cfq, method: cfq}
"""
TITLE = "compas, mlp2, W4A8, actions paper, solver search, kappa {}"
TITLES = {
    "closer": TITLE.format(0) + ", test rows",
    "usual": TITLE.format(0.1) + ", test rows",
    "validation": TITLE.format(0.1) + ", validation rows",
}
"""Titles of the tables of single records by the place in the suite, in the order of a page."""
LSQ = (0.1, 0.1, 0.1, 0.5, 0.5)
ERRORS: dict[str, dict[int, float | None]] = {
    "fp32": dict.fromkeys(range(5), 0.0),
    "ptq": {0: 0.03125, 1: 0.0625, 2: 0.0, 3: 0.9},
    "lsq": dict(enumerate(LSQ)),
    "lsq (lr=0.0003)": {0: 1 / 3, 1: None, 2: 1 / 24},  # a mean that lies between two digits
    "pact": {3: 0.2, 4: 0.4},
    "kd_qat": dict(enumerate(LSQ)),
    "cfq": {0: 0.15, 1: 0.15, 2: 0.15},
}
"""By row and seed of a finished run."""
SHIFT = {"usual": 0.0, "validation": 0.0625, "closer": 0.125}
ERROR = "recourse/boundary_error"


def suite(folder: Path) -> SuiteSettings:
    path = folder / "hostile.yaml"
    path.write_text(SUITE)
    return load_suite(str(path))


def records(runs: list[SuiteRun]) -> list[Record]:
    found = [_record(run) for run in runs]
    other = made_record("lsq", 0, 0.7, 3.0)
    return [*(record for record in found if record is not None), other]


def results(folder: Path) -> tuple[SuiteSettings, Results, list[Record]]:
    settings = suite(folder)
    runs = expand(settings)
    made = records(runs)
    return settings, collect(settings.name, runs, made), made


def _record(run: SuiteRun) -> Record | None:
    seed, place, config = (
        run.settings.seed,
        run.axes["measured"],
        run.settings.model_dump(mode="json"),
    )
    known = ERRORS[run.row]
    if seed not in known:
        if run.row == "cfq" and seed == 3:
            return record_of(
                config, status="failed", reason="RuntimeError: it broke", metrics={}, details={}
            )
        return None  # pending
    value = known[seed]
    error = None if value is None else value + (SHIFT[place] if run.row != "fp32" else 0.0)
    bits = {"fp32": 32.0, "ptq": 3.5}.get(run.row, 4.0)
    vd = None if error is None else 0.5 * error
    metrics: dict[str, Any] = {
        "task/acc": 0.7 + 0.001 * seed,
        "task/favourable_drift": -0.0001 * seed,
        "recourse/vd": vd,
        "recourse/vd_adverse": None if error is None else 1.5 * error,
        ERROR: error,
        "recourse/crg": None if error is None else -0.0002 * seed,
        "recourse/crg_abs": error,
        "recourse/lost": 0.0,
        "deploy/avg_bits": bits,
        "time/fit_s": 1.0 + len(run.row),
    }
    counts = {"recourse/vd": 60, "recourse/vd_adverse": 90, ERROR: 60}
    return record_of(config, metrics=metrics, counts=counts)
