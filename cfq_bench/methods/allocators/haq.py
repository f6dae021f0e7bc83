"""HAQ: bits found by trying them (Wang et al. 2019).

A DDPG agent walks through the units and proposes bits for each from its features; the reward is the
accuracy of the network quantized so, after all units. Where this differs from the paper:

- the resource is the average weight bits, not the latency of a device, and activations stay in
  float, so that every method gets the same bits on the same teacher;
- no fine-tuning before the reward: the steps are the least-squares ones, and a try takes
  milliseconds;
- accuracy is taken on a seeded sample of train rows: validation and test rows stay unseen;
- the budget wall is exact: the nearest bits that use up the budget, instead of lowering units in
  turn, so that tries at one budget are comparable;
- of tries of equal accuracy, the one with the least label loss is best: on tables this small, many
  tries tie.

`search: greedy` needs no agent: from the most bits down, lower the unit that loses least accuracy
per bit saved.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from cfq_bench.backbones.base import Backbone
from cfq_bench.config.base import AllocatorSettings, Fraction, NonNegative, Positive
from cfq_bench.methods.allocators.base import Allocator
from cfq_bench.methods.allocators.ddpg import Agent, Transition
from cfq_bench.methods.base import Context
from cfq_bench.quantization.allocation import least_cost, spend_rest
from cfq_bench.quantization.cost import average_bits
from cfq_bench.quantization.float_pass import float_logits
from cfq_bench.quantization.network import QuantizedNetwork
from cfq_bench.seeds import derive_seed

LEAST_BITS, MOST_BITS = 2, 8


class Config(AllocatorSettings):
    """Settings of HAQ."""

    search: Literal["agent", "greedy"]
    """The DDPG agent, or a deterministic descent."""
    rows: Annotated[int, Field(ge=1)]
    """Most train rows on which a try's accuracy is taken."""
    episodes: Annotated[int, Field(ge=1)]
    """Tries of the agent, each one walk through all units."""
    warmup: Annotated[int, Field(ge=1)]
    """Tries at random before the agent acts and learns."""
    updates: Annotated[int, Field(ge=1)]
    """Updates of actor and critic after each try."""
    hidden: Annotated[int, Field(ge=1)]
    """Units of actor and critic in each of two layers."""
    actor_lr: Positive
    """Adam learning rate of the actor."""
    critic_lr: Positive
    """Adam learning rate of the critic."""
    tau: Fraction
    """Share by which the target networks follow in each update."""
    batch: Annotated[int, Field(ge=1)]
    """Transitions per update."""
    memory: Annotated[int, Field(ge=1)]
    """Transitions that are kept."""
    noise: NonNegative
    """Deviation of the actions' noise when the agent begins to act."""
    noise_decay: Fraction
    """Factor of the noise after each try."""
    reward_scale: Positive
    """Factor of the accuracy lost to float, a share (10 is 0.1 per point of a per cent)."""


@dataclass(frozen=True)
class Try:
    """One allocation and how it did: accuracy in [0, 1] and mean label loss in nats."""

    bits: list[int]
    accuracy: float
    loss: float

    @property
    def rank(self) -> tuple[float, float]:
        """Greater is better."""
        return self.accuracy, -self.loss


class HAQ(Allocator):
    """The bits of the best try within the budget."""

    config: Config

    def allocate(
        self, network: QuantizedNetwork, origin: Backbone, context: Context, budget: float
    ) -> list[int]:
        """See the class."""
        trial = Trial(network, *self._rows(context), budget)
        if self.config.search == "greedy":
            return greedy(trial)
        return max(self.tries(trial), key=lambda done: done.rank).bits

    def tries(self, trial: "Trial") -> list[Try]:
        """Every episode of the agent, in order."""
        config, features = self.config, trial.features()
        agent = Agent(
            features.shape[1] + 1,
            hidden=config.hidden,
            actor_lr=config.actor_lr,
            critic_lr=config.critic_lr,
            tau=config.tau,
            batch=config.batch,
            memory=config.memory,
            seed=derive_seed(self.settings.seed, "haq"),
        )
        reference, noise, tries = trial.float_accuracy(), config.noise, []
        for episode in range(config.episodes):
            random = episode < config.warmup
            states, actions = self._walk(agent, features, None if random else noise)
            tries.append(trial.run(trial.wall([_bits_of(action) for action in actions])))
            reward = config.reward_scale * (tries[-1].accuracy - reference)
            after: list[Tensor | None] = [*states[1:], None]
            steps = zip(states, actions, after, strict=True)
            agent.remember([Transition(s, a, reward, following) for s, a, following in steps])
            if not random:
                noise *= config.noise_decay
                for _ in range(config.updates):
                    agent.update()
        return tries

    def _walk(
        self, agent: Agent, features: Tensor, noise: float | None
    ) -> tuple[list[Tensor], list[float]]:
        """States and actions of one episode; the state holds the action before it."""
        states, actions = [], []
        last = 1.0
        for row in features:
            states.append(torch.cat([row, torch.tensor([last])]))
            last = agent.random_action() if noise is None else agent.action(states[-1], noise)
            actions.append(last)
        return states, actions

    def _rows(self, context: Context) -> tuple[Tensor, Tensor]:
        train = context.data.train
        generator = torch.Generator().manual_seed(derive_seed(self.settings.seed, "haq", "rows"))
        rows = torch.randperm(len(train), generator=generator)[: self.config.rows]
        rows = rows.to(train.x.device)
        return train.inputs(rows), train.y[rows]


class Trial:
    """Tries allocations on a network: its accuracy at some bits, remembered.

    Args:
        network: at the teacher's weights.
        x: (N, d) rows.
        y: (N,) labels.
        budget: greatest average bits.
    """

    def __init__(self, network: QuantizedNetwork, x: Tensor, y: Tensor, budget: float) -> None:
        self.network, self.x, self.y, self.budget = network, x, y, budget
        self.sizes, self.candidates = network.sizes, network.candidates
        self._done: dict[tuple[int, ...], Try] = {}

    @torch.no_grad()
    def run(self, bits: list[int]) -> Try:
        """Accuracy and loss with the weights at these bits."""
        key = tuple(bits)
        if key not in self._done:
            weights = {
                unit: unit.rounded_weight(unit.candidates.index(chosen))
                for unit, chosen in zip(self.network.units, bits, strict=True)
            }
            logits = float_logits(self.network, self.x, weights)
            accuracy = float((logits.argmax(1) == self.y).float().mean())
            self._done[key] = Try(bits, accuracy, float(F.cross_entropy(logits, self.y)))
        return self._done[key]

    @torch.no_grad()
    def float_accuracy(self) -> float:
        """Accuracy without any quantizer."""
        right = float_logits(self.network, self.x).argmax(1) == self.y
        return float(right.float().mean())

    def wall(self, proposed: list[float]) -> list[int]:
        """The nearest bits that the budget holds and that use it up."""
        far = [
            [abs(bits - wanted) for bits in row]
            for row, wanted in zip(self.candidates, proposed, strict=True)
        ]
        near = least_cost(far, self.sizes, self.candidates, self.budget)
        return spend_rest(near, self.sizes, self.candidates, self.budget)

    def features(self) -> Tensor:
        """(L, 4) in [0, 1]: position, inputs, outputs (or channels) and weights of each unit."""
        rows = [
            [float(i), unit.weight.shape[1], unit.weight.shape[0], unit.weight.numel()]
            for i, unit in enumerate(self.network.units)
        ]
        table = torch.tensor(rows)
        return table / table.amax(0).clamp_min(1.0)


def greedy(trial: Trial) -> list[int]:
    """From the most bits down: lower the unit that loses least accuracy per bit saved.

    Ties go to the least label loss. What the last step leaves of the budget is spent.
    """
    bits = [row[-1] for row in trial.candidates]
    while average_bits(trial.sizes, bits) > trial.budget + 1e-9:
        now, options = trial.run(bits), []
        for unit, row in enumerate(trial.candidates):
            if bits[unit] == row[0]:
                continue
            lower = list(bits)
            lower[unit] = row[row.index(bits[unit]) - 1]
            saved = trial.sizes[unit] * (bits[unit] - lower[unit])
            then = trial.run(lower)
            price = ((now.accuracy - then.accuracy) / saved, (then.loss - now.loss) / saved)
            options.append((price, lower))
        bits = min(options)[1]
    return trial.wall([float(b) for b in bits])


def _bits_of(action: float) -> float:
    """Bits in [2, 8] of an action in [0, 1]; the wall rounds them to candidates."""
    return LEAST_BITS + action * (MOST_BITS - LEAST_BITS)
