"""Count violated constraints in every solver's answers: results/violations.json and .md.

Usage::

    python scripts/violations.py [--data NAME ...] [--solver NAME ...] [--exact-rows 100]
        [--regime NAME] [--image-rows 200] [--name violations]

Every data set at hand, every preset of it, every solver: all test rows are asked for both classes
at the default margin, and every answer is checked by rules that are written from the preset's YAML
and the raw table alone (`cfq_bench.evaluation.auditing`). A row that has the class already must be
left as it is. `exact` needs a mixed-integer program per row: it answers a seeded sample, on
logistic regression, with the weighted l1 cost. Of images, a seeded sample of the test rows is asked
on the data set's own network and solver, and checked by `cfq_bench.evaluation.audit_images`. The
exit code is 1 where a constraint is violated, or nothing could be checked.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.latent import LatentSpace
from cfq_bench.actions.outcome import Solution, Status
from cfq_bench.actions.semantic import SemanticSpace
from cfq_bench.actions.solver import make_solver
from cfq_bench.cache import Cache, default_cache_dir
from cfq_bench.config.images import LatentSettings, SemanticSettings
from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import Settings
from cfq_bench.config.yaml import read_yaml
from cfq_bench.data.dataset import TabularData, load_data, split_rows
from cfq_bench.data.images import ImageData
from cfq_bench.data.sources import named_data_dir
from cfq_bench.data.table import impute, load_table
from cfq_bench.errors import UserError
from cfq_bench.evaluation.audit_images import ImageQuestion, image_violations
from cfq_bench.evaluation.audit_solution import Question, solution_violations
from cfq_bench.experiment import Options, make_context
from cfq_bench.files import write_atomic
from cfq_bench.record.provenance import provenance
from cfq_bench.seeds import derive_seed
from cfq_bench.teacher.fit import obtain_teacher
from cfq_bench.training.trainer import Runtime

ROOT = Path(__file__).parents[1]
BACKBONE = "mlp2"
EXACT, EXACT_BACKBONE = "exact", "logreg"
IMAGE_SOLVER = "latent_search"
MOST_SHOWN = 20
"""Violations that a line of the report lists; all are counted."""
COUNTS = ("rows", "found", "not_found", "infeasible", "not_needed", "violations")
COLUMNS = ("data", "preset", "solver", "backbone", *COUNTS, "seconds", "rows_per_s")


class Case(NamedTuple):
    """A data set and a network: what its presets and solvers share."""

    data: TabularData
    train: pd.DataFrame
    """(N, F) raw train rows."""
    test: pd.DataFrame
    """(B, F) raw test rows, in the order of `data.test`."""
    teacher: Any


def main(arguments: list[str] | None = None) -> int:
    """Check and write; returns the exit code."""
    options = _options(arguments)
    torch.set_num_threads(1)
    report: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for name in options.data:
        if name in images():
            continue
        try:
            cases = {backbone: load_case(name, backbone) for backbone in backbones(options.solver)}
        except UserError as why:
            skip(skipped, name, why)
            continue
        for preset, solver in itertools.product(names(f"actions/{name}"), options.solver):
            try:
                line = check(cases, name, preset, solver, options)
            except UserError as why:
                skip(skipped, f"{name}, {preset}, {solver}", why)
                continue
            say(report, line)
    for name in (name for name in options.data if name in images()):
        if options.solver != names("solver") and IMAGE_SOLVER not in options.solver:
            continue
        try:
            say(report, check_images(name, options))
        except UserError as why:
            skip(skipped, name, why)
    clean = bool(report) and not any(line["violations"] for line in report)
    document = {
        "provenance": provenance("cpu", torch.get_num_threads()),
        "exact_rows": options.exact_rows,
        "regime": options.regime,
        "clean": clean,
        "lines": report,
        "skipped": skipped,
    }
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    write_atomic(options.out / f"{options.name}.json", text.encode())
    write_atomic(options.out / f"{options.name}.md", markdown(report).encode())
    return 0 if clean else 1


def say(report: list[dict[str, Any]], line: dict[str, Any]) -> None:
    """Keep a line and show it."""
    report.append(line)
    print("  ".join(f"{key} {_cell(line[key])}" for key in COLUMNS), flush=True)


def images() -> list[str]:
    """Data sets of images, in the settings for a CPU."""
    kinds = {name: read_yaml(ROOT / "conf" / "data" / f"{name}.yaml") for name in names("data")}
    return [
        name
        for name, settings in kinds.items()
        if settings.get("kind") == "images" and not name.endswith("_full")
    ]


def names(group: str) -> list[str]:
    """The packaged YAML files of a group."""
    return sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))


def backbones(solvers: list[str]) -> set[str]:
    """The networks that these solvers answer on."""
    return {EXACT_BACKBONE if solver == EXACT else BACKBONE for solver in solvers}


def skip(skipped: dict[str, str], what: str, why: UserError) -> None:
    """Say what could not be checked."""
    skipped[what] = str(why)
    print(f"skipped {what}: {why}", file=sys.stderr)


def load_case(name: str, backbone: str) -> Case:
    """Encoded splits, the raw rows behind them, and the teacher.

    Raises:
        UserError: the data are not at hand, or are images, which have no presets of features.
    """
    settings = load_settings("fp32", name, backbone=backbone)
    own, actions = settings.table()
    folder = named_data_dir(None)
    data = load_data(own, settings.seed, folder)
    table = load_table(own, folder)
    train, _, test = split_rows(table, own, settings.seed)
    frame = table.frame
    if own.missing == "impute":
        frame = impute(frame, train, own, table.source)
    space = ActionSet(data.schema, actions, data.train.x)
    teacher = obtain_teacher(settings, data, space, Cache(default_cache_dir()), Runtime())
    return Case(data, frame.iloc[train], frame.iloc[test], teacher)


def check(
    cases: Mapping[str, Case], name: str, preset: str, solver: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Ask for both classes of the test rows, or of a seeded sample, and check every answer.

    Raises:
        UserError: the solver refuses.
    """
    exact = solver == EXACT
    settings = load_settings(
        "fp32",
        name,
        backbone=EXACT_BACKBONE if exact else BACKBONE,
        solver=solver,
        actions=f"{name}/{preset}",
        regime=options.regime,
        # Optima are linear programs under weighted l1 alone; some presets have another cost.
        overrides=["actions.cost=weighted_l1"] if exact else [],
    )
    case = cases[settings.backbone.name]
    _, actions = settings.table()
    space = ActionSet(case.data.schema, actions, case.data.train.x)
    generator = torch.Generator().manual_seed(derive_seed(settings.seed, "violations"))
    order = torch.randperm(len(case.data.test), generator=generator)
    rows = order[: options.exact_rows if exact else None].sort().values
    solutions, broken, seconds = [], [], 0.0
    for wanted in (1, 0):
        asked = ask(case, settings, rows, wanted)
        start = time.perf_counter()
        solution = make_solver(settings.solver, case.data.train.x).solve(
            asked.model, space, asked.x, asked.target, asked.kappa
        )
        seconds += time.perf_counter() - start
        solutions.append(solution)
        broken.append(solution_violations(asked, solution).assign(target=wanted))
    about = {"data": name, "preset": preset, "solver": solver, "backbone": settings.backbone.name}
    counts = summary(solutions, pd.concat(broken, ignore_index=True), len(rows), seconds)
    return {**about, **counts}


def check_images(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """As `check`, for a sample of images on the data set's own network and solver."""
    lines = [f"evaluation.max_rows={options.image_rows}"]
    settings = load_settings("fp32", name, solver=IMAGE_SOLVER, overrides=lines)
    context = make_context(settings, Options(), Runtime())
    data, space, actions = context.data, context.actions, settings.actions
    if not isinstance(data, ImageData) or not isinstance(space, LatentSpace | SemanticSpace):
        raise TypeError(f"{name} holds no images")
    if not isinstance(actions, LatentSettings | SemanticSettings):
        raise TypeError(f"{actions.name} is no action space of images")
    with torch.no_grad():
        latents = torch.cat([space.coded.encode(x) for x in data.train.blocks()])
        predicted = torch.cat([context.teacher(x).argmax(1) for x in data.test.blocks()])
    kappa = settings.evaluation.kappa
    solutions, broken, seconds, asked_rows = [], [], 0.0, 0
    for wanted in (1, 0):
        generator = torch.Generator().manual_seed(derive_seed(0, "violations", str(wanted)))
        rows = (predicted != wanted).nonzero()[:, 0]
        rows = rows[torch.randperm(len(rows), generator=generator)[: options.image_rows]]
        x, target = data.test.inputs(rows), torch.full((len(rows),), wanted)
        start = time.perf_counter()
        solution = context.solver.solve(context.teacher, space, x, target, kappa)
        seconds += time.perf_counter() - start
        asked = ImageQuestion(
            model=context.teacher,
            actions=actions,
            coded=space.coded,
            to_image=space.to_input,
            train_latents=latents,
            attributes=data.train_attributes,
            x=x,
            target=target,
            kappa=kappa,
        )
        solutions.append(solution)
        broken.append(image_violations(asked, solution).assign(target=wanted))
        asked_rows += len(rows)
    about = {
        "data": name,
        "preset": Path(actions.name).name,
        "solver": IMAGE_SOLVER,
        "backbone": settings.backbone.name,
    }
    counts = summary(solutions, pd.concat(broken, ignore_index=True), asked_rows, seconds)
    return {**about, **counts}


def ask(case: Case, settings: Settings, rows: torch.Tensor, wanted: int) -> Question:
    """The question for some test rows, all towards one class."""
    own, actions = settings.table()
    return Question(
        model=case.teacher,
        schema=case.data.schema,
        data=own,
        actions=actions,
        train=case.train,
        raw=case.test.iloc[rows.numpy()],
        x=case.data.test.x[rows],
        target=torch.full((len(rows),), wanted),
        kappa=settings.evaluation.kappa,
    )


def summary(
    solutions: list[Solution], broken: pd.DataFrame, rows: int, seconds: float
) -> dict[str, Any]:
    """Counts over both classes; every row needs an action for one of them."""
    status = torch.cat([solution.status for solution in solutions])
    counts = {each.name.lower(): int((status == int(each)).sum()) for each in Status}
    return {
        "rows": rows,
        **counts,
        "violations": len(broken),
        "seconds": seconds,
        "rows_per_s": rows / seconds,
        "first_violations": json.loads(broken.head(MOST_SHOWN).to_json(orient="records")),
    }


def markdown(report: list[dict[str, Any]]) -> str:
    """The lines as a table."""
    rows = [list(COLUMNS), ["---"] * len(COLUMNS)]
    rows += [[_cell(line[key]) for key in COLUMNS] for line in report]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Violated constraints, counted.")
    parser.add_argument("--data", nargs="+", default=names("data"), help="default: all at hand")
    parser.add_argument("--solver", nargs="+", default=names("solver"), help="default: all")
    parser.add_argument("--exact-rows", type=int, default=100, help="test rows that exact answers")
    parser.add_argument("--image-rows", type=int, default=200, help="images, for each class")
    parser.add_argument("--regime", help="how much may change; default: as each preset says")
    parser.add_argument("--name", default="violations", help="of the files")
    parser.add_argument("--out", type=Path, default=ROOT / "results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
