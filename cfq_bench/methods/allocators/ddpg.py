"""A small DDPG agent with one continuous action (Lillicrap et al. 2016), as HAQ uses it."""

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Transition:
    """One step of an episode.

    Attributes:
        state: (S,) float32.
        action: in [0, 1].
        reward: of the whole episode.
        following: (S,) the next state; None at the end of the episode.
    """

    state: Tensor
    action: float
    reward: float
    following: Tensor | None


class Agent:
    """Actor and critic with slowly following targets. All randomness is the generator's.

    Args:
        width: S, length of a state.
        hidden: units of the two hidden layers.
        actor_lr: Adam learning rate of the actor.
        critic_lr: Adam learning rate of the critic.
        tau: share by which the targets follow in each update.
        batch: transitions per update.
        memory: transitions that are kept.
        seed: of weights, noise and batches.
    """

    def __init__(
        self,
        width: int,
        *,
        hidden: int,
        actor_lr: float,
        critic_lr: float,
        tau: float,
        batch: int,
        memory: int,
        seed: int,
    ) -> None:
        self.tau, self.batch = tau, batch
        self.generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.actor, self.critic = _mlp(width, hidden), _mlp(width + 1, hidden)
            self.slow_actor, self.slow_critic = _mlp(width, hidden), _mlp(width + 1, hidden)
        self.slow_actor.load_state_dict(self.actor.state_dict())
        self.slow_critic.load_state_dict(self.critic.state_dict())
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=actor_lr, fused=True)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=critic_lr, fused=True)
        self.memory: deque[Transition] = deque(maxlen=memory)
        self.baseline: float | None = None

    def random_action(self) -> float:
        """Uniform in [0, 1)."""
        return float(torch.rand((), generator=self.generator))

    @torch.no_grad()
    def action(self, state: Tensor, noise: float) -> float:
        """The actor's action in [0, 1], with truncated normal noise of this deviation."""
        mean = torch.sigmoid(self.actor(state)).squeeze(-1)
        drawn = mean + noise * torch.randn((), generator=self.generator)
        return float(drawn.clamp(0.0, 1.0))

    def remember(self, episode: list[Transition]) -> None:
        """Keep an episode and move the rewards' running mean, which updates subtract."""
        self.memory.extend(episode)
        reward = episode[-1].reward
        self.baseline = reward if self.baseline is None else 0.95 * self.baseline + 0.05 * reward

    def update(self) -> None:
        """One step of critic and actor on a batch from memory."""
        drawn = torch.randint(len(self.memory), (self.batch,), generator=self.generator).tolist()
        batch = [self.memory[i] for i in drawn]
        states = torch.stack([t.state for t in batch])  # (B, S)
        actions = torch.tensor([[t.action] for t in batch])  # (B, 1)
        goal = self._goal(batch)
        self.critic_optimizer.zero_grad()
        torch.autograd.backward(F.mse_loss(self.critic(torch.cat([states, actions], 1)), goal))
        self.critic_optimizer.step()
        self.actor_optimizer.zero_grad()
        chosen = torch.sigmoid(self.actor(states))
        worth: Tensor = self.critic(torch.cat([states, chosen], 1)).mean()
        torch.autograd.backward(-worth)
        self.actor_optimizer.step()
        _follow(self.slow_actor, self.actor, self.tau)
        _follow(self.slow_critic, self.critic, self.tau)

    @torch.no_grad()
    def _goal(self, batch: list[Transition]) -> Tensor:
        """(B, 1) reward above the running mean, plus the value of what follows, undiscounted."""
        rewards = torch.tensor([[t.reward - (self.baseline or 0.0)] for t in batch])
        going_on = torch.tensor([[float(t.following is not None)] for t in batch])
        following = torch.stack([t.state if t.following is None else t.following for t in batch])
        action = torch.sigmoid(self.slow_actor(following))
        value: Tensor = self.slow_critic(torch.cat([following, action], 1))
        return rewards + going_on * value


def _mlp(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(width, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 1),
    )


@torch.no_grad()
def _follow(slow: nn.Module, fast: nn.Module, tau: float) -> None:
    torch._foreach_lerp_(list(slow.parameters()), list(fast.parameters()), tau)
