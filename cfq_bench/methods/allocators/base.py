"""What a bit allocator provides."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.plugin import load_class
from cfq_bench.config.settings import Settings
from cfq_bench.methods.base import Context, Phase
from cfq_bench.quantization.network import QuantizedNetwork


class Allocator(ABC):
    """Divides a bit budget among the units of a network. Subclasses stand in one file each.

    Most allocators decide before training and define `allocate` alone. One that learns its bits
    while the method trains also says how training is divided, draws bits in every step of the phase
    named ``search``, and adds what bits cost to the loss.

    Args:
        config: the allocator's settings.
        settings: those of the run.
    """

    learns = False
    """Whether bits are learned in a ``search`` phase of the method's training."""

    def __init__(self, config: Any, settings: Settings) -> None:
        self.config = config
        self.settings = settings

    @abstractmethod
    def allocate(
        self, network: QuantizedNetwork, origin: Backbone, context: Context, budget: float
    ) -> list[int]:
        """Bits of each unit, from its candidates, within the budget.

        Args:
            network: freshly started from `origin`, or after the search of a learned policy.
            origin: the float network that it copies.
            context: data, teacher and recourse points; test rows must not be read.
            budget: greatest average weight bits.
        """

    def objection(self, network: QuantizedNetwork) -> str | None:
        """Why the settings do not fit the network, in one line; asked before any work."""
        return None

    def policy_ramp(self) -> float | None:
        """Where the bit logits' initial ramp ends; None without a learned policy."""
        return None

    def phases(self, whole: Phase) -> list[Phase]:
        """How the method's training is divided."""
        return [whole]

    def restarts(self) -> bool:
        """Whether training begins anew from the teacher once the bits are chosen."""
        return False

    def draw(self, network: QuantizedNetwork, progress: float, generator: torch.Generator) -> None:
        """Draw the bits of one step of the search; `progress` rises from 0 to 1."""
        raise RuntimeError(f"{type(self).__name__} has no search")

    def bit_cost(self, network: QuantizedNetwork, budget: float) -> Tensor | float:
        """What the policy's bits add to the loss of a step of the search."""
        return 0.0


def make_allocator(settings: Settings) -> Allocator:
    """The allocator that the settings name."""
    kind = load_class(settings.allocator.module, Allocator)
    allocator: Allocator = kind(settings.allocator, settings)
    return allocator
