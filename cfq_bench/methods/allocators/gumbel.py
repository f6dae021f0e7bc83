"""Bits that are learned while the method trains: the paper's policy (Section 4.3)."""

import torch
from torch import Tensor

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import AllocatorSettings
from cfq_bench.methods.allocators.base import Allocator
from cfq_bench.methods.base import Context, Phase
from cfq_bench.quantization.allocation import least_cost, spend_rest
from cfq_bench.quantization.network import QuantizedNetwork


class Config(AllocatorSettings):
    """The numbers of the policy are the settings `policy.*`."""


class Gumbel(Allocator):
    """A Gumbel-Softmax policy: a search that learns the bits, then a tail that trains at them."""

    learns = True

    def allocate(
        self, network: QuantizedNetwork, origin: Backbone, context: Context, budget: float
    ) -> list[int]:
        """The most likely bits under the policy that use up the budget."""
        return discretise(network, budget, self.settings.policy.slack)

    def policy_ramp(self) -> float | None:
        """See `PolicySettings.initial_logit`."""
        return self.settings.policy.initial_logit

    def phases(self, whole: Phase) -> list[Phase]:
        """A search and a tail that share the steps of the whole."""
        policy = self.settings.policy
        search = max(1, round(policy.search * whole.steps))
        tail, restart = max(1, whole.steps - search), self.restarts()
        return [
            Phase("search", search, 0, whole.steps),
            Phase("tune", tail, 0 if restart else search, tail if restart else whole.steps),
        ]

    def restarts(self) -> bool:
        """See `PolicySettings.tail`."""
        return self.settings.policy.tail == "restart"

    def draw(self, network: QuantizedNetwork, progress: float, generator: torch.Generator) -> None:
        """One sample at a temperature that falls linearly."""
        policy = self.settings.policy
        tau = policy.tau_start + (policy.tau_end - policy.tau_start) * progress
        network.sample(tau, generator)

    def bit_cost(self, network: QuantizedNetwork, budget: float) -> Tensor | float:
        """Return lambda (E[b] / B - 1)^2 of the policy itself, not of the noisy sample."""
        excess = network.expected_bits() / budget - 1.0
        return self.settings.policy.bit_cost * excess.square()


def discretise(network: QuantizedNetwork, budget: float, slack: float) -> list[int]:
    """Most likely allocation under the bit policy, among those that use up the budget.

    Args:
        network: with bit logits.
        budget: greatest average bits.
        slack: share of the largest feasible average that may be left over before the rest is spent.

    Returns:
        Bits of each unit. What the most likely allocation leaves of the budget is spent where it
        raises a unit to its next candidate, smallest unit first.
    """
    if network.policy_logits is None:
        raise RuntimeError("this network has no bit policy")
    unlikely = iter((-torch.log_softmax(network.policy_logits.detach().cpu(), 1)).tolist())
    free, sizes, candidates = network.free_units, network.sizes, network.candidates
    costs = [next(unlikely) if unit in free else [0.0] for unit in network.units]
    bits = least_cost(costs, sizes, candidates, budget, slack)
    return spend_rest(bits, sizes, candidates, budget)
