"""A peer on the same model and rows: DiCE's gradient method, from ``cfq-bench[benchmarks]``.

DiCE is told the preset: what may vary, and each row's permitted range. It knows neither a largest
number of changed features nor a cost, and it keeps its own encoding (min-max and one-hot), which
`AsDice` turns into ours. What it returns is judged by the rules of `cfq_bench.evaluation.auditing`.
"""

import contextlib
import importlib.util
import io
import logging
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from benchmarks.task import Task, at_hand, real_task
from benchmarks.timing import Measurement, interleave, wall
from cfq_bench.actions.solver import make_solver
from cfq_bench.config.loader import load_settings
from cfq_bench.config.settings import Settings
from cfq_bench.data.dataset import split_rows
from cfq_bench.data.schema import FeatureSchema
from cfq_bench.data.sources import named_data_dir
from cfq_bench.data.table import load_table
from cfq_bench.evaluation.audit_columns import Numbers, column_of
from cfq_bench.evaluation.audit_solution import margins_alone
from cfq_bench.evaluation.auditing import raw_violations

ROWS = 20
"""Of about a second each."""
LABEL = "favourable"
RULES = ("immutable", "bounds", "direction", "whole", "category", "max_features")


def measure(repeats: int) -> Iterator[Measurement]:
    if importlib.util.find_spec("dice_ml") is None:
        print("skipped dice: dice-ml is not installed", file=sys.stderr)
        return
    if not at_hand("adult"):
        print("skipped dice: Adult's raw files are not at hand", file=sys.stderr)
        return
    with real_task("adult") as task:
        yield from _measure(task, repeats)


def _measure(task: Task, repeats: int) -> Iterator[Measurement]:
    settings = load_settings(data="adult", solver="search")
    train, test = _raw(settings)
    rows = task.rejected(ROWS)
    asked = test.iloc[rows].reset_index(drop=True)
    explainer = _explainer(task, settings, train)
    start = time.perf_counter()
    found = _ask_dice(explainer, settings, train, asked)
    dice_s = time.perf_counter() - start
    x = task.data.test.x[torch.from_numpy(rows)]
    target = torch.ones(len(x), dtype=torch.int64)
    solver, kappa = make_solver(settings.solver), settings.evaluation.kappa
    own = interleave(
        {"search": wall(lambda: solver.solve(task.teacher, task.space, x, target, kappa))}, repeats
    )
    solution = solver.solve(task.teacher, task.space, x, target, kappa)
    about = f"{len(rows)} rejected test rows (a seeded sample), adult/paper, kappa {kappa}"
    yield Measurement(
        "DiCE gradient, adult", len(rows) / dice_s, "rows/s", {"dice": [dice_s]}, note=about
    )
    yield Measurement(
        "search, the same rows",
        len(rows) / statistics.median(own["search"]),
        "rows/s",
        own,
        note="a few rows fill no block: full chunks are the lines of adult",
    )
    yield from _judged(task, settings, train, asked, found)
    yield Measurement("search found", float(solution.found.double().mean()), "of rows", note=about)


def _judged(
    task: Task,
    settings: Settings,
    train: pd.DataFrame,
    asked: pd.DataFrame,
    found: pd.DataFrame,
) -> Iterator[Measurement]:
    """DiCE's rows on our model and by our rules; `found` has the positions of `asked`."""
    features, actions = settings.data.features, settings.actions
    before = asked.loc[found.index].reset_index(drop=True)
    after = found.reset_index(drop=True)
    margins = margins_alone(
        task.teacher, task.data.schema.encode(after), torch.ones(len(after), dtype=torch.int64)
    )
    reached = int((margins > settings.evaluation.kappa).sum())
    changed = int((margins > 0.0).sum())
    yield Measurement(
        "DiCE found, adult",
        reached / len(asked),
        "of rows",
        note=f"margin above kappa on the encoded answer; {changed} of {len(asked)} change class",
    )
    broken = raw_violations(before, after, train, features, actions)
    counts = Counter(rule for _, rule in set(zip(broken["row"], broken["rule"], strict=True)))
    told = ", ".join(f"{rule} {counts[rule]}" for rule in RULES)
    yield Measurement(
        "DiCE breaks a constraint",
        broken["row"].nunique() / len(after),
        "of answers",
        note=f"answers that break each rule: {told}; decoded, so that groups are one-hot",
    )


def _raw(settings: Settings) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Raw train and test rows."""
    table = load_table(settings.data, named_data_dir(None))
    train, _, test = split_rows(table, settings.data, settings.seed)
    return table.frame.iloc[train], table.frame.iloc[test]


def _ask_dice(
    explainer: Any, settings: Settings, train: pd.DataFrame, asked: pd.DataFrame
) -> pd.DataFrame:
    """DiCE's answers, one row for each row that it answers, indexed by position in `asked`."""
    features, actions = settings.data.features, settings.actions
    free = [name for name in features if actions.features[name].kind != "immutable"]
    ranges = {}
    for name in features:
        column = column_of(asked[name], asked[name], train[name], features[name], actions)
        if isinstance(column, Numbers):
            ranges[name] = column.reach()
    answers = []
    for i in range(len(asked)):
        answer = _one(
            explainer,
            asked.loc[[i], list(features)].astype(_dtypes(settings)),
            features_to_vary=free,
            permitted_range={name: [low[i], high[i]] for name, (low, high) in ranges.items()},
            stopping_threshold=float(torch.sigmoid(torch.tensor(settings.evaluation.kappa))),
        )
        if answer is not None:
            answers.append(answer.set_axis([i]))
    return pd.concat(answers) if answers else asked.iloc[:0]


def _one(explainer: Any, row: pd.DataFrame, **options: Any) -> pd.DataFrame | None:
    """One row's first answer as DiCE shows it, made sparser; None without one."""
    from raiutils.exceptions import UserConfigValidationException

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            result = explainer.generate_counterfactuals(
                row, total_CFs=1, desired_class=1, **options
            )
        except UserConfigValidationException:  # how it says that it found none
            return None
    answer = result.cf_examples_list[0].final_cfs_df_sparse
    return None if answer is None or answer.empty else answer[list(row.columns)].iloc[:1]


def _dtypes(settings: Settings) -> dict[str, type]:
    """DiCE tells numbers from categories by their types."""
    return {n: str if f.kind == "categorical" else int for n, f in settings.data.features.items()}


def _explainer(task: Task, settings: Settings, train: pd.DataFrame) -> Any:
    import dice_ml

    logging.disable(logging.WARNING)  # it warns of every column with a zero deviation
    names = list(settings.data.features)
    frame = train[names].astype(_dtypes(settings))
    label = settings.data.target
    frame[LABEL] = (train[label.column] == label.favourable).astype(int)
    numbers = [n for n in names if settings.data.features[n].kind != "categorical"]
    data = dice_ml.Data(dataframe=frame, continuous_features=numbers, outcome_name=LABEL)
    data.create_ohe_params(data.one_hot_encode_data(data.data_df[names]))
    model = AsDice(task.teacher, task.data.schema, data.ohe_encoded_feature_names, frame).eval()
    wrapped = dice_ml.Model(model=model, backend="PYT", func="ohe-min-max")
    return dice_ml.Dice(data, wrapped, method="gradient")


class AsDice(nn.Module):
    """The teacher behind DiCE's encoding: (..., columns) to the probability of class 1 (..., 1).

    Args:
        teacher: our network.
        schema: our encoding.
        names: DiCE's columns: a number's own name, or ``feature_category``.
        train: the rows whose minimum and maximum DiCE scales numbers with.
    """

    def __init__(
        self, teacher: nn.Module, schema: FeatureSchema, names: list[str], train: pd.DataFrame
    ) -> None:
        super().__init__()
        self.teacher = teacher
        units = schema.units
        self.mean, self.scale, self.log = units.mean.float(), units.scale.float(), units.log
        numbers = [feature.name for feature in schema.features[: schema.n_single]]
        self.least = torch.tensor([float(train[name].min()) for name in numbers])
        self.span = torch.tensor([float(train[name].max()) for name in numbers]) - self.least
        at = {name: i for i, name in enumerate(names)}
        self.number_at = torch.tensor([at[name] for name in numbers])
        # A category that no train row has is a column that DiCE lacks: it stays 0.
        wanted = [
            at.get(f"{feature.name}_{category}", len(names))
            for feature in schema.features[schema.n_single :]
            for category in feature.categories
        ]
        self.category_at = torch.tensor(wanted)

    def forward(self, x: Tensor) -> Tensor:
        """From DiCE's columns to ours, and through the teacher."""
        rows = x.reshape(-1, x.shape[-1]).float()
        raw = self.least + rows[:, self.number_at] * self.span
        value = torch.where(self.log, torch.log1p(raw.clamp_min(0.0)), raw)
        single = (value - self.mean) / self.scale
        padded = torch.cat([rows, rows.new_zeros(len(rows), 1)], dim=1)
        logits = self.teacher(torch.cat([single, padded[:, self.category_at]], dim=1))
        chance = torch.sigmoid(logits[:, 1] - logits[:, 0])
        return chance.reshape(*x.shape[:-1], 1)
