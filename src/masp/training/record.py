"""Playing episodes to record them: any environment, at random or with the policy of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from masp.environments.base import SUCCESS_UNKNOWN, Step, first_mask
from masp.macros.recording import Seen
from masp.training.playing import PlayerEnv


class Policy(Protocol):
    """Chooses primitives for N environments."""

    def begin(self, observation: np.ndarray, mask: np.ndarray | None) -> None:
        """[N, ...] first observations, and their action masks [N, P] if the environment has any."""

    def act(self) -> np.ndarray:
        """[N] the next primitives."""

    def see(self, step: Step) -> None:
        """Take in the results of the step."""


@dataclass
class PlayedEpisode:
    """One finished episode, step by step."""

    observations: list[np.ndarray] = field(default_factory=list)
    """One more than there are actions; empty if they are not recorded."""
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    life_lost: list[bool] = field(default_factory=list)
    terminated: bool = False
    said_success: bool | None = None
    """Whether the environment said at the end that the episode succeeded; None: it did not say."""
    seed: int | None = None
    """Seed with which the environment repeats the episode, if it can."""

    def success(self, success_above: float | None) -> bool | None:
        """Whether it succeeded, as the environment says, or else by its return; None: unknown."""
        if self.said_success is not None or success_above is None:
            return self.said_success
        return self.score > success_above

    @property
    def score(self) -> float:
        return math.fsum(self.rewards)

    @property
    def seen(self) -> Seen:
        """What an agent learns from; needs the observations."""
        rewards, lost = np.array(self.rewards, np.float32), np.array(self.life_lost, bool)
        return Seen(np.stack(self.observations), rewards, lost, self.terminated)


class RandomPolicy:
    """Every primitive that is allowed with the same chance."""

    def __init__(self, num_primitives: int, num_envs: int, seed: int):
        self._size, self._rng = (num_primitives, num_envs), np.random.default_rng(seed)

    def begin(self, observation: np.ndarray, mask: np.ndarray | None) -> None:
        self._mask = mask

    def act(self) -> np.ndarray:
        if self._mask is None:
            return self._rng.integers(0, *self._size)
        rank = self._rng.integers(0, np.maximum(self._mask.sum(axis=1), 1))
        return np.argmax(np.cumsum(self._mask, axis=1) > rank[:, None], axis=1)

    def see(self, step: Step) -> None:
        self._mask = step.action_mask


def play_episodes(
    env: PlayerEnv,
    policy: Policy,
    episodes: int,
    seed: int,
    finished: Callable[[PlayedEpisode], None],
    keep_observations: bool,
) -> None:
    """Play; `finished` gets every episode when it ends.

    How many each environment plays is fixed beforehand: taking those that end first would favour short ones.
    """
    observation = env.reset(seed)
    policy.begin(observation, first_mask(env))
    left = [episodes // env.num_envs + (i < episodes % env.num_envs) for i in range(env.num_envs)]
    open_episodes = [PlayedEpisode([first] if keep_observations else []) for first in observation]
    # An environment that ended has the seed of its old episode until the tick that resets it.
    seeds = list(getattr(env, "episode_seeds", [None] * env.num_envs))
    resetting = np.zeros(env.num_envs, bool)
    while any(left):
        actions = policy.act()
        step = env.step(actions)
        policy.see(step)
        ended = (np.asarray(step.terminated) | np.asarray(step.truncated)) & ~resetting
        if resetting.any():
            seeds = list(getattr(env, "episode_seeds", seeds))
        for i in np.flatnonzero(left):
            episode = open_episodes[i]
            episode.seed = seeds[i]
            if keep_observations:
                episode.observations.append(step.observation[i])
            if not resetting[i]:
                episode.actions.append(int(actions[i]))
                episode.rewards.append(float(step.reward[i]))
                episode.life_lost.append(bool(step.life_lost[i]))
            if ended[i]:
                episode.terminated = bool(step.terminated[i])
                if step.success is not None and step.success[i] != SUCCESS_UNKNOWN:
                    episode.said_success = bool(step.success[i])
                finished(episode)
                left[i] -= 1
                open_episodes[i] = PlayedEpisode()
        resetting = ended
