"""What is proved about the teacher's evaluation actions, on f_q and on the rounded teacher.

All on the favourable direction's found actions at the headline margin.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.outcome import Model
from cfq_bench.actions.space import ActionSpace
from cfq_bench.certificates.chain import Layer, read_chain
from cfq_bench.certificates.deployed import Verdict, backend_margin, verify_boxes
from cfq_bench.certificates.lipschitz import proved_by_lipschitz
from cfq_bench.certificates.rounding import certified_bits, stable_under_roundings
from cfq_bench.config.settings import Settings
from cfq_bench.errors import UserError
from cfq_bench.evaluation import functional as F
from cfq_bench.evaluation.teacher_recourse import Direction
from cfq_bench.seeds import derive_seed

BITS = 8
"""Weight bits at which the paper's bound is compared with ours: below, it proves nothing."""
ATTACK_BITS, ATTACKS = 4, 100
"""Weight bits and number of the random roundings that a teacher's actions are tried on."""

ON_DEPLOYED = ("backend", "box_verified", "box_refuted", "box_undecided")
ON_TEACHER = ("teacher", "teacher_any", "teacher_bits_median", "l3", "stable")


@dataclass
class Certificates:
    """What a record keeps of certificates.

    Attributes:
        metrics: ``certificate/`` keys, and the seconds spent; NaN where there are no rows, or the
            network was refused.
        counts: rows behind each.
        columns: (B,) each, one line per row of the direction; None without a found action.
        refused: why a network has none, by "deployed" and "teacher".
    """

    metrics: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    columns: dict[str, pd.Series] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def on_rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The per-row results with the columns added; adverse rows have None."""
        favourable = (rows["direction"] == "favourable").to_numpy()
        out = rows.copy()
        for name, column in self.columns.items():
            spread = pd.Series(None, index=rows.index, dtype=column.dtype)
            spread[favourable] = column.to_numpy()
            out[name] = spread
        return out


def certify(
    settings: Settings, f_q: Model, teacher: Model, space: ActionSpace, direction: Direction
) -> Certificates:
    """Certificates of the deployed network and of the teacher, at the teacher's actions.

    Columns: `backend_certified`, `backend_margin` (proved, logits), `box` (`Verdict`, in lower
    case), `teacher_bits` and `teacher_bits_any` (fewest weight bits that rounding to nearest, or
    any rounding, may have; 11: more than 10), `l3` and `stable`.

    Args:
        settings: of the run.
        f_q: the network that is deployed.
        teacher: the full-precision network.
        space: the action space; there are certificates about tables alone.
        direction: the favourable direction.
    """
    if not isinstance(space, ActionSet):
        raise TypeError(f"certificates are about action sets of tables, got {type(space).__name__}")
    start = time.perf_counter()
    result = Certificates()
    found = direction.solutions[settings.evaluation.kappa].found
    for who, network, add, names in (
        ("deployed", f_q, _add_deployed, ON_DEPLOYED),
        ("teacher", teacher, _add_teacher, ON_TEACHER),
    ):
        rows = int(found.sum())
        try:
            layers = read_chain(network)
        except UserError as why:  # nothing is wrong with a network that cannot be certified
            result.refused[who] = str(why)
            rows = 0
        if rows:
            add(result, settings, network, layers, space, direction)
        for name in names:
            result.metrics.setdefault(f"certificate/{name}", float("nan"))
            result.counts[f"certificate/{name}"] = rows
    result.metrics["time/certificates_s"] = time.perf_counter() - start
    return result


def _add_deployed(
    result: Certificates,
    settings: Settings,
    f_q: Model,
    layers: list[Layer],
    space: ActionSet,
    direction: Direction,
) -> None:
    evaluation = settings.evaluation
    point, target, _ = _found(direction, evaluation.kappa)
    found = direction.solutions[evaluation.kappa].found
    moved = moved_numbers(space, space.origin(direction.x[found]), point)
    at = space.to_input(point)
    margin = backend_margin(layers, at, target, evaluation.certificate_lsb)
    radius = evaluation.certificate_radius
    verdict = verify_boxes(f_q, layers, at, target, moved, radius).verdict
    result.metrics["certificate/backend"] = float(F.share(margin > 0))
    for outcome in Verdict:
        share = F.share(verdict == outcome)
        result.metrics[f"certificate/box_{outcome.name.lower()}"] = float(share)
    result.columns |= _columns(
        found,
        {
            "backend_certified": ("boolean", (margin > 0).tolist()),
            "backend_margin": ("float64", margin.tolist()),
            "box": ("object", [Verdict(code).name.lower() for code in verdict.tolist()]),
        },
    )


def _add_teacher(
    result: Certificates,
    settings: Settings,
    _: Model,
    layers: list[Layer],
    space: ActionSet,
    direction: Direction,
) -> None:
    kappa, per_channel = settings.evaluation.kappa, settings.quantization.per_channel
    point, target, margin = _found(direction, kappa)
    at = space.to_input(point)
    nearest = certified_bits(layers, at, target, per_channel=per_channel)
    every = certified_bits(layers, at, target, per_channel=per_channel, roundings="any")
    l3 = proved_by_lipschitz(layers, at, margin, BITS, per_channel=per_channel)
    stable = stable_under_roundings(
        layers,
        at,
        target,
        ATTACK_BITS,
        per_channel=per_channel,
        members=ATTACKS,
        generator=torch.Generator().manual_seed(derive_seed(settings.seed, "roundings")),
    )
    result.metrics |= {
        "certificate/teacher": float(F.share(nearest <= BITS)),
        "certificate/teacher_any": float(F.share(every <= BITS)),
        "certificate/teacher_bits_median": float(nearest.double().quantile(0.5)),
        "certificate/l3": float(F.share(l3)),
        "certificate/stable": float(F.share(stable)),
    }
    result.columns |= _columns(
        direction.solutions[kappa].found,
        {
            "teacher_bits": ("Int64", nearest.tolist()),
            "teacher_bits_any": ("Int64", every.tolist()),
            "l3": ("boolean", l3.tolist()),
            "stable": ("boolean", stable.tolist()),
        },
    )


def _found(direction: Direction, kappa: float) -> tuple[Tensor, Tensor, Tensor]:
    """Points, targets and the teacher's margins of the found actions."""
    solution = direction.solutions[kappa]
    found = solution.found
    return solution.point[found], direction.target[found], solution.margin[found]


def moved_numbers(space: ActionSet, origin: Tensor, point: Tensor) -> Tensor:
    """(B, d) bool: the numeric columns, integers and ordinals too, that an action changes."""
    moved = point != origin
    moved[:, space.n_single :] = False
    return moved


def _columns(found: Tensor, values: Mapping[str, tuple[str, list[Any]]]) -> dict[str, pd.Series]:
    """Values of the found rows, spread over all rows of the direction."""
    places = found.cpu().numpy()
    out = {}
    for name, (dtype, listed) in values.items():
        column = pd.Series(None, index=range(len(places)), dtype=dtype)
        column[places] = listed
        out[name] = column
    return out
