"""Weights & Biases: every benchmark run is one W&B run, and never depends on it.

The record on disk is the truth and W&B is a copy of it. A server that is slow, absent or dies
costs a bounded time and leaves a note that says how to upload the run later; it never costs the
run.
"""

import contextlib
import logging
import os
import secrets
import shlex
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from cfq_bench.text import shortened
from cfq_bench.tracking.mode import (
    UNKNOWN_DIRECTORY,
    EffectiveMode,
    Mode,
    resolve_mode,
    sync_note,
)

if TYPE_CHECKING:
    import wandb
    from lightning.pytorch.loggers import WandbLogger

__all__ = ["EffectiveMode", "Mode", "Tracker", "quiet_lightning", "resolve_mode"]

# wandb's own defaults wait 90 s for a server that is not there, and for ever for one that died.
INIT_TIMEOUT_S = 15.0
FINISH_TIMEOUT_S = 60.0
# Characters of W&B's names and tags; it refuses a run with longer ones.
_LABEL, _TAG = 128, 64


@dataclass
class Tracker:
    """One run as W&B sees it; made by `Tracker.start`, ended by `finish` or by its context.

    Args:
        config: the run's settings as W&B holds them. Under ``wandb agent`` the sweep's values
            have replaced the run's own.
        logger: goes to ``lightning.Trainer(logger=...)``; False where tracking is disabled.
        note: one line to show to the user, where the run was not uploaded.
    """

    config: dict[str, Any]
    logger: "WandbLogger | Literal[False]" = False
    note: str | None = None
    _run: "wandb.Run | None" = field(default=None, repr=False)

    @classmethod
    def start(
        cls,
        mode: Mode,
        *,
        run_id: str,
        name: str,
        config: Mapping[str, Any],
        group: str,
        tags: list[str],
        directory: Path,
        project: str = "cfq-bench",
        job_type: str = "run",
    ) -> Self:
        """Open a W&B run that writes only below `directory`, and prints nothing.

        Args:
            mode: what was asked for; a server that cannot be reached makes it offline.
            run_id: the record's identity, kept in the W&B config. It is not the W&B id.
            name: the run's title in the W&B tables.
            config: the resolved configuration, nested as it is.
            group: shared by runs that are compared or averaged.
            tags: short labels to filter by.
            directory: made if it does not exist; wandb puts its files in ``wandb/`` below it.
            project: the W&B project; under ``wandb agent`` the sweep's own.
            job_type: the W&B job type.
        """
        config = {"run_id": run_id, **config}
        effective, note = resolve_mode(mode)
        if effective == "disabled":
            return cls(config)
        labels = {
            "name": shortened(name, _LABEL),
            "group": shortened(group, _LABEL),
            "tags": [shortened(tag, _TAG) for tag in tags],
            "job_type": job_type,
        }
        try:
            run, failure = _open(effective, directory, config=config, project=project, **labels)
        except Exception as error:  # wandb's internal errors share no base class
            return cls(config, note=f"W&B: {_first_line(error)}; this run is not tracked")
        note = failure or note
        if note is not None:  # only now is it known which directory to upload
            note = note.replace(UNKNOWN_DIRECTORY, _where(run))
        tracker = cls(dict(run.config), note=note, _run=run)
        try:
            run.define_metric("budget/*", step_metric="budget/avg_bits")
            tracker.logger = _lightning_logger(run, directory, tracker._lost)
        except Exception as error:  # wandb's internal errors share no base class
            tracker._lost(error)
        return tracker

    def log(self, metrics: Mapping[str, float]) -> None:
        """Append one row to the history.

        Rows have no step of their own: W&B drops a row whose step is below the last one. An
        axis is a metric like any other, ``budget/avg_bits`` for ``budget/*``.
        """
        if self._run is None:
            return
        try:
            self._run.log(dict(metrics))
        except Exception as error:  # wandb's internal errors share no base class
            self._lost(error)

    def show(self, pictures: Mapping[str, bytes]) -> None:
        """Add pictures, PNG files by their names, to the run's media."""
        if self._run is None:
            return
        try:
            import wandb
            from PIL import Image

            opened = {name: Image.open(BytesIO(png)) for name, png in pictures.items()}
            self._run.log({name: wandb.Image(picture) for name, picture in opened.items()})
        except Exception as error:  # wandb's internal errors share no base class
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        """Note that W&B has not all of the run, and why."""
        if self._run is not None:
            self.note = sync_note(_first_line(error), _where(self._run))

    def finish(self, summary: Mapping[str, float | None], exit_code: int = 0) -> None:
        """Write the summary and end the run, in little more than `FINISH_TIMEOUT_S` seconds.

        Args:
            summary: the record's metrics; those that are None were not measured and are left out.
            exit_code: 0 for a run that worked.
        """
        if self._run is None:
            return
        run, self._run = self._run, None
        try:
            run.summary.update({key: item for key, item in summary.items() if item is not None})
            run.finish(exit_code=exit_code)
        except TimeoutError:
            reason = f"the upload was not done after {FINISH_TIMEOUT_S:g} s"
            self.note = sync_note(reason, _where(run))
        except Exception as error:  # wandb's internal errors share no base class
            self.note = sync_note(_first_line(error), _where(run))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        exit_code = 0 if error is None else 1
        if isinstance(error, KeyboardInterrupt):
            exit_code = 255  # as wandb does
        self.finish({}, exit_code)


def quiet_lightning() -> None:
    """Silence Lightning's start-up talk, which goes to stderr; its own warnings stay."""
    import lightning.pytorch  # noqa: F401 - the import itself sets the level to INFO

    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # Between Lightning and a newer torch; nothing that a user of either could act on.
    warnings.filterwarnings("ignore", message=r".*LeafSpec.*deprecated", category=FutureWarning)


def _open(mode: EffectiveMode, directory: Path, **arguments: Any) -> tuple["wandb.Run", str | None]:
    """Open a run as `mode` says, or else offline, with a note that says why."""
    directory.mkdir(parents=True, exist_ok=True)
    note = None
    if mode == "online":
        try:
            return _init("online", directory, arguments), None
        except Exception as error:  # wandb's internal errors share no base class
            note = sync_note(f"no run at the server ({_first_line(error)})")
    return _init("offline", directory, arguments), note


def _init(
    mode: Literal["online", "offline"], directory: Path, arguments: dict[str, Any]
) -> "wandb.Run":
    """Call `wandb.init` so that it is silent, bounded in time and a run of its own."""
    import wandb

    # A fresh id each time: a record may be computed again, and W&B refuses an id that was ever
    # deleted. It is ours rather than wandb's so that a failed start can be cleaned up.
    wandb_id = secrets.token_hex(4)
    settings = wandb.Settings(
        silent=True,
        console="off",
        x_disable_stats=True,
        disable_git=True,
        disable_code=True,
        init_timeout=INIT_TIMEOUT_S,
        finish_timeout=FINISH_TIMEOUT_S,
        finish_timeout_raises=True,
    )
    try:
        with _service_environment(directory):
            # Silence before wandb.init(): it greets by the global settings.
            wandb.setup(wandb.Settings(silent=True))
            return wandb.init(
                mode=mode,
                id=wandb_id,
                dir=str(directory),
                reinit="create_new",
                settings=settings,
                **arguments,
            )
    except Exception:
        # Else `wandb sync` would later upload a second, empty run.
        for remains in directory.glob(f"wandb/*run-*-{wandb_id}"):
            shutil.rmtree(remains, ignore_errors=True)
        raise


@contextlib.contextmanager
def _service_environment(directory: Path) -> Iterator[None]:
    """Set what wandb reads from the environment alone, where the user has not, and unset it.

    The log of its service process would go to the home directory. Its reports about itself are
    sent by a thread that holds the program's end for 20 s when the server does not answer.
    """
    wanted = {
        "WANDB_CACHE_DIR": str(directory / "wandb" / "cache"),
        "WANDB_ERROR_REPORTING": "false",
    }
    ours = {name: text for name, text in wanted.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def _lightning_logger(
    run: "wandb.Run", directory: Path, lost: Callable[[Exception], None]
) -> "WandbLogger":
    """Wrap a run that exists: a run made by WandbLogger itself is shared between trainings.

    What W&B cannot keep, because its folder is full or read-only, costs no training.
    """
    from lightning.pytorch.loggers import WandbLogger

    class Guarded(WandbLogger):
        def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
            try:
                super().log_metrics(metrics, step)
            except Exception as error:  # wandb's internal errors share no base class
                lost(error)

        def log_hyperparams(self, params: Any) -> None:
            try:
                super().log_hyperparams(params)
            except Exception as error:
                lost(error)

    quiet_lightning()
    return Guarded(experiment=run, save_dir=directory)


def _where(run: "wandb.Run") -> str:
    return shlex.quote(run.settings.sync_dir)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
