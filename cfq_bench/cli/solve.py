"""``cfq-bench solve``: one person's action as text."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cfq_bench.actions.outcome import Status
from cfq_bench.advice import Action, Advice, Proof, advise
from cfq_bench.certificates.deployed import Verdict
from cfq_bench.certificates.rounding import MOST_BITS
from cfq_bench.config.settings import Settings
from cfq_bench.errors import UserError
from cfq_bench.experiment import Options
from cfq_bench.record.identity import Judge
from cfq_bench.record.store import RecordStore
from cfq_bench.text import shown

_WITHOUT_ACTION = {
    Status.NOT_NEEDED: "no action is needed: the model accepts this person",
    Status.NOT_FOUND: "no action was found; one may still exist",
    Status.INFEASIBLE: "no action exists (proved)",
}


def solve_and_print(
    settings: Settings,
    row: str,
    run_id: str | None,
    data_dir: Path | None,
    results_dir: Path,
    cache_dir: Path | None,
) -> None:
    """Solve and print.

    Raises:
        UserError: the row or the run cannot be used.
    """
    options = Options(
        results_dir=results_dir, cache_dir=cache_dir, data_dir=data_dir, wandb="disabled"
    )
    person: str | Mapping[str, Any] = row
    if row.lstrip().startswith("{"):
        try:
            person = json.loads(row)
        except json.JSONDecodeError as error:
            raise UserError(
                f"ROW is not valid JSON: {error.msg} at character {error.pos}"
            ) from None
    if run_id is not None:
        record = RecordStore(results_dir).find(run_id)
        why = Judge(data_dir).why_stale(record)
        if why is not None:
            click.echo(f"run {record.run_id} is stale: {why}", err=True)
    click.echo(advice_page(advise(settings, options, person, run_id)), nl=False)


def advice_page(advice: Advice) -> str:
    """The person, the action, and what becomes of it once quantized."""
    lines = ["person"]
    lines += [f"  {name:<32} {value}" for name, value in advice.person.items()]
    verdict = "accepts" if advice.margin > 0 else "rejects"
    lines += ["", f"the full-precision model {verdict} (margin {advice.margin:+.3f} logit)"]
    lines += _action_lines(advice.on_teacher)
    if advice.proof is not None:
        lines.append(f"  {_rounding_line(advice.proof)}")
    if advice.margin_quantized is not None and advice.on_quantized is not None:
        if advice.on_teacher.status == Status.FOUND:
            holds = "still works" if advice.margin_quantized > 0 else "FAILS"
            margin = f"(margin {advice.margin_quantized:+.3f} logit)"
            lines += ["", f"on the quantized model this action {holds} {margin}"]
            proof = advice.proof
            if proof is not None and proof.box is not None and advice.margin_quantized > 0:
                lines.append(f"  {_deployed_line(proof, proof.box)}")
        lines += ["", "the quantized model's own cheapest action"]
        lines += _action_lines(advice.on_quantized)
    return shown("\n".join(lines) + "\n")


def _rounding_line(proof: Proof) -> str:
    if proof.bits > MOST_BITS:
        return f"not proved to outlive rounding the weights to {MOST_BITS} bits or fewer"
    return f"proved: it outlives any rounding of the weights to nearest, {proof.bits} bits or more"


def _deployed_line(proof: Proof, box: Verdict) -> str:
    yes = "proved" if proof.backend else "not proved"
    backend = f"{yes} for every backend ({proof.lsb:g} of a step off before it rounds)"
    near = {
        Verdict.VERIFIED: "proved also",
        Verdict.REFUTED: "it FAILS",
        Verdict.UNDECIDED: "not decided",
    }
    off = f"if the changed numbers are {proof.radius:g} standard deviations off"
    return f"{backend}; {near[box]} {off}"


def _action_lines(action: Action) -> list[str]:
    if action.status != Status.FOUND:
        return [f"  {_WITHOUT_ACTION[action.status]}"]
    lines = []
    for change in action.changes:
        unit = f"  ({change.unit})" if change.unit else ""
        lines.append(f"  {change.feature:<32} {change.before} -> {change.after}{unit}")
    lines.append(f"  cost {action.cost:.3f}, margin {action.margin:+.3f} logit")
    return lines
