"""A finished sweep as Markdown: every point, the choice, and what it is worth on test rows."""

from collections.abc import Iterable, Sequence

from optuna.trial import FrozenTrial

from cfq_bench.aggregate.numbers import form_of, spread_of
from cfq_bench.evaluation.keys import metric_info
from cfq_bench.record.record import Record
from cfq_bench.report.markdown import plain
from cfq_bench.sweeps.points import Space, Values, text
from cfq_bench.sweeps.scores import feasible
from cfq_bench.sweeps.study import front, values_of
from cfq_bench.text import visible

BESIDE = (
    "recourse/boundary_error",
    "recourse/crg_abs",
    "task/acc",
    "task/favourable_drift",
    "deploy/avg_bits",
)
"""Shown for the chosen point on either split: no metric of recourse stands alone."""


def points_table(space: Space, trials: Sequence[FrozenTrial], chosen: FrozenTrial | None) -> str:
    """One line per point with a value: objectives, and the constraints that it breaks."""
    sweep = space.sweep
    heads = [*map(plain, sweep.space), *map(_label, sweep.objectives)]
    best = {trial.number for trial in front(sweep, list(trials))}
    rows = []
    for trial in trials:
        values = values_of(sweep, trial.params)
        broken = [name for name, value in trial.constraints.items() if value > 0]
        notes = [f"breaks {', '.join(broken)}"] if broken else []
        if len(sweep.objectives) > 1 and trial.number in best:
            notes.append("front")
        if chosen is not None and trial.number == chosen.number:
            notes.append("**chosen**")
        cells = [plain(text({"": value})[1:]) for value in values.values()]
        rows.append([*cells, *(f"{value:.4f}" for value in trial.values), ", ".join(notes)])
    return _table([*heads, ""], rows)


def split_table(validation: Sequence[Record], test: Sequence[Record]) -> str:
    """The chosen point on validation and on test rows: mean and standard deviation over seeds."""
    rows = [[_label(key), _spread(key, validation), _spread(key, test)] for key in BESIDE]
    seeds = [
        f"{name}, {len(records)} seeds"
        for name, records in (("validation", validation), ("test", test))
    ]
    return _table(["", *seeds], rows)


def choice(space: Space, trials: Sequence[FrozenTrial], values: Values | None) -> str:
    """One sentence: what was chosen, among how many."""
    allowed = sum(feasible(trial.constraints) for trial in trials)
    among = f"{allowed} of {len(trials)} points keep every constraint"
    if values is None:
        return f"Nothing chosen: {among}."
    label = metric_info(space.sweep.objectives[0]).label
    code = visible(text(values)).replace("`", "'")
    return f"Chosen by {label} on validation rows: `{code}` ({among})."


def _label(key: str) -> str:
    return plain(metric_info(key).label)


def _spread(key: str, records: Iterable[Record]) -> str:
    by_seed = {record.config["seed"]: record.metrics.get(key) for record in records}
    return spread_of([by_seed[seed] for seed in sorted(by_seed)], form_of(key), len(by_seed))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
