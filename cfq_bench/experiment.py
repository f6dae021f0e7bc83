"""One run, from settings to record: the whole story on one page, and the public Python API."""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from lightning.pytorch.callbacks import Callback

from cfq_bench.actions.make import make_space
from cfq_bench.cache import Cache, default_cache_dir
from cfq_bench.codebase import RUN, entry_code
from cfq_bench.config.settings import Settings
from cfq_bench.data.dataset import Dataset, TabularData
from cfq_bench.data.load import load_dataset
from cfq_bench.data.shift import shifted
from cfq_bench.data.sources import named_data_dir
from cfq_bench.errors import UserError
from cfq_bench.evaluation.certificates import Certificates, certify
from cfq_bench.evaluation.diagnostics import diagnose
from cfq_bench.evaluation.evaluate import deployment_cost, evaluate, teacher_gap
from cfq_bench.evaluation.pictures import STRIPS, pictures
from cfq_bench.evaluation.quality import add_quality
from cfq_bench.evaluation.robustness import add_robustness
from cfq_bench.evaluation.teacher_recourse import teacher_recourse
from cfq_bench.files import ensure_writable, explain, has_no_room
from cfq_bench.methods.base import Context, NotApplicableError, fit_method, make_method
from cfq_bench.quantization.storage import network_to_bytes
from cfq_bench.record.identity import answering, begin, made_by, made_by_code
from cfq_bench.record.provenance import provenance
from cfq_bench.record.record import Record, run_id
from cfq_bench.record.store import RecordStore
from cfq_bench.teacher.fit import obtain_teacher
from cfq_bench.tracking.agent import refuse_other_values, under_agent
from cfq_bench.tracking.wandb import Mode, Tracker
from cfq_bench.training.history import History
from cfq_bench.training.trainer import NoProgress, ProgressBar, Runtime, StoppedEarlyError

entry_code(RUN)  # the files as they are imported: what is edited from here on computes nothing here


@dataclass(frozen=True)
class Options:
    """Where a run reads and writes, and how it reports. None of it changes a result.

    Attributes:
        results_dir: records go to ``<results_dir>/runs``.
        cache_dir: teachers and their actions; default: ``CFQ_BENCH_CACHE`` or the user cache.
        data_dir: raw data files; default: ``CFQ_BENCH_DATA``.
        wandb: Weights & Biases mode.
        force: run again even where a record exists.
        accept_stale: take a record that other code or other data made.
        device: a torch device.
        threads: torch threads; one is fastest for networks this small.
        progress: where long work reports.
        publish: stores what a run leaves; default: in place of an earlier record of the same run.
        group: W&B group; default: shared by runs that differ in the seed alone.
        callbacks: Lightning callbacks that watch the method's last fit.
    """

    results_dir: Path = Path("results")
    cache_dir: Path | None = None
    data_dir: Path | None = None
    wandb: Mode = "auto"
    force: bool = False
    accept_stale: bool = False
    device: str = "cpu"
    threads: int = 1
    progress: ProgressBar = field(default_factory=NoProgress)
    publish: (
        Callable[[Record, pd.DataFrame | None, bytes | None, pd.DataFrame | None], object] | None
    ) = None
    group: str | None = None
    callbacks: tuple[Callback, ...] = ()


@dataclass(frozen=True)
class Answer:
    """A record, and what the command line says about it.

    Attributes:
        record: the record.
        path: its file.
        cached: it existed already; nothing was run.
        note: one line about tracking, if there is something to say.
        stale: one line about a stale record that was taken or replaced.
    """

    record: Record
    path: Path
    cached: bool
    note: str | None = None
    stale: str | None = None


def run(settings: Settings, options: Options | None = None) -> Record:
    """Run one configuration, or read its record where it has been run before.

    Args:
        settings: from `load_settings`.
        options: folders and reporting.

    Returns:
        The record. Its status is ``failed``, with a reason, where the run broke down.

    Raises:
        UserError: bad input or an unusable folder; nothing is recorded.
        KeyboardInterrupt: Ctrl-C; nothing is recorded.
    """
    return answer(settings, options or Options()).record


def answer(settings: Settings, options: Options) -> Answer:
    """As `run`, with the record's path and whether it was there already."""
    config = settings.model_dump(mode="json")
    identity = run_id(config)
    store = RecordStore(options.results_dir)
    path = store.path(identity)
    refuse_other_values(config)
    stale = None
    if not options.force:
        found, stale = answering(store, config, options.data_dir, options.accept_stale)
        if found is not None:
            note = _tell_sweep(found, settings, options) if under_agent() else None
            return Answer(found, path, cached=True, note=note, stale=stale)
    code = begin(config)
    ensure_writable(store.runs_dir, "records")

    device = usable_device(options.device)
    start = time.perf_counter()
    with _threads(options.threads), _track(settings, config, identity, options) as tracker:
        history = History()
        loggers = [logger for logger in (tracker.logger, history) if logger is not False]
        runtime = Runtime(device, loggers, options.progress, options.callbacks)
        try:
            outcome = _measure(settings, options, runtime)
        except NotApplicableError as why:
            outcome = _Outcome("skipped", str(why))
        except (UserError, KeyboardInterrupt, StoppedEarlyError):
            raise
        except OSError as error:
            if has_no_room(error):  # the folder's fault, and not the run's
                raise explain(f"use {error.filename or 'a file'}", error) from error
            outcome = _Outcome("failed", f"{type(error).__name__}: {error}")
        except Exception as error:  # a failed run is a record with its reason
            outcome = _Outcome("failed", f"{type(error).__name__}: {error}")
        record = Record(
            run_id=identity,
            status=outcome.status,
            reason=outcome.reason,
            config=config,
            metrics=outcome.metrics,
            counts=outcome.counts,
            details=outcome.details,
            provenance=provenance(options.device, options.threads),
            seconds=time.perf_counter() - start,
            made_by=made_by_code(config)
            if outcome.status == "failed"
            else made_by(config, code, options.data_dir),
        )
        # The local record is the truth: first, W&B after it.
        (options.publish or store.write)(record, outcome.rows, outcome.network, history.frame())
        _publish(record, tracker)
    return Answer(record, path, cached=False, note=tracker.note, stale=stale)


@dataclass(frozen=True)
class _Outcome:
    """What a run leaves: everything of its record but identity and provenance."""

    status: Literal["ok", "skipped", "failed"]
    reason: str | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    rows: pd.DataFrame | None = None
    network: bytes | None = None


def make_context(settings: Settings, options: Options, runtime: Runtime) -> Context:
    """Config -> data -> actions -> teacher: what all methods of a seed share."""
    cache = Cache(options.cache_dir or default_cache_dir())
    data_dir = named_data_dir(options.data_dir)
    data = load_dataset(settings.data, settings.seed, data_dir).to(runtime.device)
    space, told = make_space(settings, data, cache, runtime)
    teacher = obtain_teacher(settings, data, space, cache, runtime)
    return Context(settings, data, teacher, space, cache, runtime, details=told)


def _measure(settings: Settings, options: Options, runtime: Runtime) -> _Outcome:
    """Context -> method -> evaluation."""
    context = make_context(settings, options, runtime)
    teacher, space = context.teacher, context.actions
    method = make_method(context)
    fit_s = fit_method(method)
    f_q, deployment = method.deployed(), method.deployment()

    data = context.data
    if settings.evaluation.split == "validation":
        data = data.on_validation()
    # A shift comes after training: teacher and method have seen the data as they are.
    data, shift = shifted(data, settings)
    solver = context.solver
    directions = teacher_recourse(settings, data, teacher, space, solver, context.cache, runtime)
    gap = teacher_gap(settings, data, teacher, space, directions[0], context.cache, runtime)
    start = time.perf_counter()
    result = evaluate(f_q, teacher, data, space, solver, directions, settings.evaluation, runtime)
    eval_s = time.perf_counter() - start
    result = add_quality(result, teacher, space, directions, settings.evaluation)
    shown = pictures(f_q, data, space, directions[0], result.on_q, settings.evaluation.kappa)
    more = diagnose(settings, f_q, teacher, data, space, directions, result.rows)
    result = add_robustness(result, f_q, data, space, solver, directions[0], settings)
    wanted = settings.evaluation.certificates
    proved = certify(settings, f_q, teacher, space, directions[0]) if wanted else Certificates()
    metrics: dict[str, float | None] = {
        **result.metrics,
        **more.metrics,
        **proved.metrics,
        **deployment_cost(deployment),
        **gap,
        "time/fit_s": fit_s,
        "time/teacher_actions_s": context.seconds.get("teacher_actions_s", 0.0),
        "time/solve_s": result.solve_s,
        "time/eval_s": eval_s,
    }
    details = {
        "deploy/bits_per_layer": deployment["bits_per_layer"],
        "deploy/activation_bits": deployment["activation_bits"],
        "action_set": {"preset": settings.actions.name, "sha256": space.fingerprint},
        "data": {"source": data.source, "sha256": context.data.fingerprint},
        "shift": shift,
        **more.details,
        "scale_fallbacks": _scale_fallbacks(data),
        **context.details,
    }
    if shown:
        details["pictures"] = shown
    if proved.refused:
        details["certificate/refused"] = proved.refused
    rows, counts = proved.on_rows(more.rows), {**result.counts, **more.counts, **proved.counts}
    return _Outcome("ok", None, metrics, counts, details, rows, network_to_bytes(f_q))


def _scale_fallbacks(data: Dataset) -> dict[str, str]:
    """Columns of a table whose standard deviation could not be their scale, and what is instead."""
    if not isinstance(data, TabularData):
        return {}
    return {f.name: f.scale_source for f in data.schema.features if f.scale_source != "std"}


def usable_device(name: str) -> torch.device:
    """The device, after one allocation on it; a GPU computes as a CPU does, up to rounding.

    Left to itself, cuDNN rounds the factors of convolutions to 10 bits (TF32) and picks kernels
    that add up in another order every time: a deployed network would answer otherwise elsewhere,
    and a solver's point would fall short of its margin when it is looked at again.

    Raises:
        UserError: torch has no such device here.
    """
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
        if device.type == "cuda":
            torch.backends.cudnn.allow_tf32 = False
            torch.backends.cudnn.deterministic = True
    except (RuntimeError, AssertionError) as error:  # torch says both
        raise UserError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from None
    return device


def _track(settings: Settings, config: dict[str, Any], identity: str, options: Options) -> Tracker:
    """Open the W&B run; runs that differ in the seed alone share a group, unless one is given."""
    names = [settings.method.name, settings.data.name, settings.backbone.name]
    bits = f"{settings.budget.avg_bits:g}b"
    return Tracker.start(
        options.wandb,
        run_id=identity,
        name="-".join([*names[:2], bits, f"s{settings.seed}"]),
        config=config,
        group="-".join([*names, bits]) if options.group is None else options.group,
        tags=[*names, bits],
        directory=options.results_dir,
    )


def _tell_sweep(record: Record, settings: Settings, options: Options) -> str | None:
    """Give a W&B sweep the metrics of a run that was there already."""
    with _track(settings, record.config, record.run_id, options) as tracker:
        _publish(record, tracker)
    return tracker.note


def _publish(record: Record, tracker: Tracker) -> None:
    tracker.log(_budget_row(record))
    if kept := record.details.get("pictures"):
        tracker.show({f"pictures/{name}": base64.b64decode(kept[name]) for name in STRIPS})
    tracker.finish(record.metrics, exit_code=0 if record.status != "failed" else 1)


def _budget_row(record: Record) -> dict[str, float]:
    """Headline metrics against the budget, for curves over runs: ``budget/*``."""
    keys = ("vd", "vd_adverse", "boundary_error", "crg", "crg_abs")
    row = {"budget/avg_bits": record.metrics.get("deploy/avg_bits")}
    row |= {f"budget/{key}": record.metrics.get(f"recourse/{key}") for key in keys}
    row["budget/acc"] = record.metrics.get("task/acc")
    return {key: value for key, value in row.items() if value is not None}


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
