"""Playing episodes to record them: any environment, at random or with the policy of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from masp.environments.base import Step
from masp.training.playing import PlayerEnv


class Policy(Protocol):
    """Chooses primitives for N environments."""

    def begin(self, observation: np.ndarray) -> None:
        """[N, ...] first observations."""

    def act(self) -> np.ndarray:
        """[N] the next primitives."""

    def see(self, step: Step) -> None:
        """What they brought."""


@dataclass
class PlayedEpisode:
    """One finished episode, step by step."""

    observations: list[np.ndarray] = field(default_factory=list)
    """One more than there are actions; empty if nobody wants them."""
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False

    @property
    def score(self) -> float:
        return math.fsum(self.rewards)


class RandomPolicy:
    """Every primitive with the same chance."""

    def __init__(self, num_primitives: int, num_envs: int, seed: int):
        self._size, self._rng = (num_primitives, num_envs), np.random.default_rng(seed)

    def begin(self, observation: np.ndarray) -> None:
        pass

    def act(self) -> np.ndarray:
        return self._rng.integers(0, *self._size)

    def see(self, step: Step) -> None:
        pass


def play_episodes(
    env: PlayerEnv,
    policy: Policy,
    episodes: int,
    seed: int,
    finished: Callable[[PlayedEpisode], None],
    keep_observations: bool,
) -> None:
    """Play; `finished` gets every episode when it ends.

    How many each environment plays is fixed beforehand: taking whichever end first would favour short ones.
    """
    observation = env.reset(seed)
    policy.begin(observation)
    left = [episodes // env.num_envs + (i < episodes % env.num_envs) for i in range(env.num_envs)]
    open_episodes = [PlayedEpisode([first] if keep_observations else []) for first in observation]
    resetting = np.zeros(env.num_envs, bool)
    while any(left):
        actions = policy.act()
        step = env.step(actions)
        policy.see(step)
        ended = (np.asarray(step.terminated) | np.asarray(step.truncated)) & ~resetting
        for i in np.flatnonzero(left):
            episode = open_episodes[i]
            if keep_observations:
                episode.observations.append(step.observation[i])
            if not resetting[i]:
                episode.actions.append(int(actions[i]))
                episode.rewards.append(float(step.reward[i]))
            if ended[i]:
                episode.terminated = bool(step.terminated[i])
                finished(episode)
                left[i] -= 1
                open_episodes[i] = PlayedEpisode()
        resetting = ended
