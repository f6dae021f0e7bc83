"""One person's action: what to change, what it costs, and whether it still holds once quantized."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from cfq_bench.actions.action_set import ActionSet
from cfq_bench.actions.outcome import Model, Solution, Status, target_margin
from cfq_bench.actions.solver import in_blocks
from cfq_bench.certificates.chain import read_chain
from cfq_bench.certificates.deployed import Verdict, backend_margin, verify_boxes
from cfq_bench.certificates.rounding import certified_bits
from cfq_bench.config.loader import settings_from_config
from cfq_bench.config.settings import DataSettings, Settings
from cfq_bench.data.dataset import TabularData
from cfq_bench.data.table import check_features
from cfq_bench.errors import UserError
from cfq_bench.evaluation.certificates import moved_numbers
from cfq_bench.experiment import Options, make_context
from cfq_bench.quantization.storage import network_from_bytes
from cfq_bench.record.store import RecordStore
from cfq_bench.training.trainer import Runtime

FAVOURABLE = 1


@dataclass(frozen=True)
class Change:
    """One feature of an action, in raw units."""

    feature: str
    before: Any
    after: Any
    unit: str


@dataclass(frozen=True)
class Action:
    """The cheapest action found on one model.

    Attributes:
        status: of the search.
        changes: what changes; empty unless the status is FOUND.
        cost: in the action set's units; None without an action.
        margin: the model's target margin after the action, in logits.
    """

    status: Status
    changes: list[Change]
    cost: float | None
    margin: float


@dataclass(frozen=True)
class Proof:
    """What is proved about the teacher's action.

    Attributes:
        bits: fewest weight bits with which every rounding to nearest of the teacher keeps it; 11:
            more than 10.
        backend: f_q keeps it on every backend that is at most `lsb` steps off; None without f_q.
        box: whether f_q keeps it when the changed numbers are off by `radius`; None without f_q.
        lsb: steps.
        radius: standard deviations.
    """

    bits: int
    backend: bool | None
    box: Verdict | None
    lsb: float
    radius: float


@dataclass(frozen=True)
class Advice:
    """What the teacher recommends to one person, and what becomes of it.

    Attributes:
        person: the factual row, raw.
        margin: the teacher's favourable margin at the factual row, in logits.
        on_teacher: the teacher's action.
        margin_quantized: f_q's favourable margin at the teacher's action; None without f_q.
        on_quantized: f_q's own action; None without f_q.
        proof: None without an action, or for networks that cannot be certified.
    """

    person: dict[str, Any]
    margin: float
    on_teacher: Action
    margin_quantized: float | None = None
    on_quantized: Action | None = None
    proof: Proof | None = None


def advise(
    settings: Settings, options: Options, row: int | str | Mapping[str, Any], run: str | None = None
) -> Advice:
    """Solve one person's recourse.

    Args:
        settings: of the teacher, the action set and the solver; ignored where `run` is given.
        options: folders, device.
        row: the id of a row of the table, or raw values by feature.
        run: id, or first digits of it, of a finished run whose settings and network are used.

    Raises:
        UserError: no such row, a feature missing or unusable, no such run, or images.
    """
    f_q = None
    if run is not None:
        store = RecordStore(options.results_dir)
        record = store.find(run)
        settings = settings_from_config(record.config)
        where = str(store.network_path(record.run_id))
        f_q = network_from_bytes(store.read_network(record.run_id), where)
    table, _ = settings.table()
    context = make_context(settings, options, Runtime(torch.device(options.device)))
    data, space = context.data, context.actions
    if not isinstance(data, TabularData) or not isinstance(space, ActionSet):
        raise TypeError(f"{type(data).__name__} and {type(space).__name__} are no table's")
    x = _encode(data, table, row)
    solver, kappa = context.solver, settings.evaluation.kappa
    target = torch.full((1,), FAVOURABLE, device=x.device)

    on_f = solver.solve(context.teacher, space, x, target, kappa)
    person = {str(k): v for k, v in data.schema.decode(x).iloc[0].to_dict().items()}
    margin = _margin(context.teacher, x)
    action = _action(on_f, data, space, x)
    proof = _proof(settings, context.teacher, f_q, space, x, on_f)
    if f_q is None:
        return Advice(person, margin, action, proof=proof)
    f_q = f_q.to(x.device)
    on_q = _action(solver.solve(f_q, space, x, target, kappa), data, space, x)
    return Advice(person, margin, action, _margin(f_q, on_f.point), on_q, proof)


def _encode(
    data: TabularData, settings: DataSettings, row: int | str | Mapping[str, Any]
) -> Tensor:
    device = data.test.x.device
    if isinstance(row, Mapping):
        frame = check_features(pd.DataFrame([row]), settings, "the row")
        return data.schema.encode(frame, "the row").to(device)
    for split in (data.test, data.validation, data.train):
        found = [i for i, known in enumerate(split.row_ids) if str(known) == str(row)]
        if found:
            return split.x[found[0] : found[0] + 1]
    known = data.test.row_ids
    raise UserError(
        f"{data.source} has no row {row!r}: row ids are those of the table, for example "
        f"{known[0]} or {known[-1]}"
    )


def _margin(model: Model, x: Tensor) -> float:
    with torch.no_grad():
        target = torch.full((len(x),), FAVOURABLE, device=x.device)
        return float(target_margin(in_blocks(model)(x), target)[0])


def _proof(
    settings: Settings,
    teacher: Model,
    f_q: Model | None,
    space: ActionSet,
    x: Tensor,
    on_f: Solution,
) -> Proof | None:
    if not bool(on_f.found[0]):
        return None
    evaluation, point = settings.evaluation, on_f.point
    lsb, radius = evaluation.certificate_lsb, evaluation.certificate_radius
    target = torch.full((1,), FAVOURABLE, device=x.device)
    per_channel = settings.quantization.per_channel
    try:
        bits = int(certified_bits(read_chain(teacher), point, target, per_channel=per_channel))
        if f_q is None:
            return Proof(bits, None, None, lsb, radius)
        layers = read_chain(f_q)
    except UserError:  # nothing is wrong with a network that cannot be certified
        return None
    backend = bool(backend_margin(layers, point, target, lsb) > 0)
    moved = moved_numbers(space, space.origin(x), point)
    box = verify_boxes(f_q, layers, point, target, moved, radius).verdict
    return Proof(bits, backend, Verdict(int(box)), lsb, radius)


def _action(solution: Solution, data: TabularData, space: ActionSet, x: Tensor) -> Action:
    status = Status(int(solution.status[0]))
    changes = []
    if status == Status.FOUND:
        before = data.schema.decode(x).iloc[0]
        after = data.schema.decode(solution.point).iloc[0]
        moved = space.changed(space.origin(x), solution.point)[0].tolist()
        changes = [
            Change(feature.name, before[feature.name], after[feature.name], feature.unit)
            for feature, is_changed in zip(data.schema.features, moved, strict=True)
            if is_changed
        ]
    cost = float(solution.cost[0]) if bool(solution.solved[0]) else None
    return Action(status, changes, cost, float(solution.margin[0]))
