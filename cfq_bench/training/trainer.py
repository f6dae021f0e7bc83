"""One way to fit a LightningModule: quiet, without files, with our progress bar."""

import logging
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import nn


class ProgressBar(Protocol):
    """Where long work reports how far it is (the command line draws it)."""

    def start(self, what: str, total: int) -> None:
        """Begin a piece of work of `total` steps."""
        ...

    def advance(self, steps: int) -> None:
        """`steps` more are done."""
        ...

    def stop(self) -> None:
        """The piece of work is done."""
        ...


class NoProgress:
    """Reports nothing."""

    def start(self, what: str, total: int) -> None:
        """Nothing."""

    def advance(self, steps: int) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class StoppedEarlyError(Exception):
    """A callback wants no more of this run: it has no result, and is no failure."""


@dataclass(frozen=True)
class Runtime:
    """How and where a run computes. Nothing here changes a result, so nothing here is settings."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    logger: Any = False
    """A Lightning logger, several, or False."""
    progress: ProgressBar = field(default_factory=NoProgress)
    callbacks: tuple[Callback, ...] = ()
    """Lightning callbacks of the method's last fit; they may look, and stop it, never change it."""


class _Watch(Callback):
    """Advances the bar every few steps (drawing it costs more than a step) and passes on Ctrl-C."""

    def __init__(self, bar: ProgressBar, what: str, total: int) -> None:
        self.bar, self.what, self.total = bar, what, total
        self.every = max(1, total // 50)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.bar.start(self.what, self.total)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        if trainer.global_step % self.every == 0:
            self.bar.advance(self.every)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.bar.stop()

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        # Lightning ends `fit` quietly on Ctrl-C; a half-trained model is no result.
        if isinstance(exception, KeyboardInterrupt):
            raise exception


class KeepBest(Callback):
    """Keeps the weights of the epoch with the least monitored value and restores them at the end.

    Also stops the fit after `patience` epochs without improvement.
    """

    def __init__(self, monitor: str, patience: int) -> None:
        self.monitor, self.patience = monitor, patience
        self.best, self.best_epoch = math.inf, -1
        self.weights: dict[str, torch.Tensor] = {}

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Keep the weights if they are the best so far; stop when patience ends."""
        value = float(trainer.callback_metrics[self.monitor])
        if value < self.best:
            self.best, self.best_epoch = value, trainer.current_epoch
            state = pl_module.state_dict()
            self.weights = {name: tensor.detach().clone() for name, tensor in state.items()}
        elif trainer.current_epoch - self.best_epoch >= self.patience:
            trainer.should_stop = True

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Restore the best weights."""
        pl_module.load_state_dict(self.weights)


def fit(
    module: L.LightningModule,
    datamodule: L.LightningDataModule,
    runtime: Runtime,
    *,
    what: str,
    max_epochs: int,
    total_steps: int,
    log_every: int,
    validate: bool = False,
    callbacks: Iterable[Callback] = (),
) -> None:
    """Fit a module in place.

    Args:
        module: the module; it is moved to the runtime's device and left there.
        datamodule: its batches, on the runtime's device.
        runtime: device, logger, progress bar.
        what: what the progress bar says.
        max_epochs: Lightning epochs.
        total_steps: optimizer steps, for the progress bar.
        log_every: optimizer steps between history rows.
        validate: run the validation batch after every epoch.
        callbacks: further callbacks.

    Raises:
        KeyboardInterrupt: Ctrl-C while fitting.
        FloatingPointError: the loss became NaN or infinite.
    """
    watch = _Watch(runtime.progress, what, total_steps)
    with _quiet(), _no_driver_probe(runtime.device):
        trainer = L.Trainer(
            accelerator=runtime.device.type,
            devices=1 if runtime.device.index is None else [runtime.device.index],
            max_epochs=max_epochs,
            logger=runtime.logger,
            log_every_n_steps=log_every,
            limit_val_batches=1.0 if validate else 0,
            num_sanity_val_steps=0,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            use_distributed_sampler=False,
            callbacks=[*callbacks, watch],
        )
        module.train()
        trainer.fit(module, datamodule=datamodule)
        module.to(runtime.device)
    bad = [name for name, value in module.named_parameters() if not bool(value.isfinite().all())]
    if bad:
        raise FloatingPointError(
            f"training diverged: {bad[0]} is not finite: lower training.lr or quantizer_lr"
        )


def cosine(total_steps: int) -> Callable[[int], float]:
    """Learning-rate factor that falls from 1 to 0 along half a cosine."""
    return lambda step: 0.5 * (1.0 + math.cos(math.pi * min(step, total_steps) / total_steps))


def freeze(module: nn.Module) -> nn.Module:
    """Put a module into evaluation mode without gradients, in place."""
    module.eval()
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return module


class LeanModule(L.LightningModule):
    """A LightningModule whose loop costs less.

    Lightning notes the running hook in an attribute some 46 times a step; torch's `__setattr__`
    looks for parameters and submodules each time, which is a tenth of a step of a small network.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Set plain bookkeeping directly, everything else as torch does."""
        if name == "_current_fx_name":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)


@contextmanager
def _no_driver_probe(device: torch.device) -> Iterator[None]:
    """Keep Adam from looking for a GPU driver in every step of a fit on the CPU.

    Importing Lightning sets this variable to 1, and torch then loads the driver's library again and
    again where there is none.
    """
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(name)
    if device.type == "cpu":
        os.environ[name] = "0"
    try:
        yield
    finally:
        if before is not None:
            os.environ[name] = before
        elif device.type == "cpu":
            del os.environ[name]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Lightning's adverts and its advice about loaders and workers."""
    names = ("lightning", "lightning.pytorch", "lightning.fabric", "lightning.pytorch.utilities")
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning.*")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
