"""Replay buffers that keep each transition's own discount, which Stable-Baselines3's learners then use.

A macro of k steps discounts the next value by gamma^k. The buffers of Stable-Baselines3 keep no discount, so that its
learners discount every decision by gamma and prefer long macros that they should not
(https://github.com/DLR-RM/stable-baselines3/issues/1889). Its DQN, SAC and TD3 use `replay_data.discounts` where a
buffer gives them: a buffer is all that is missing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from masp.errors import UserError


class Windows(NamedTuple):
    """n-step returns over decisions."""

    reward: np.ndarray  # [B, 1], sum of the rewards, each times the discounts of the decisions before it
    discount: np.ndarray  # [B, 1], product of the discounts
    done: np.ndarray  # [B, 1], 1 where the last decision terminated the episode
    last: np.ndarray  # [B] row of the last decision, whose next observation the return bootstraps from


class _Discounts:
    """What `MacroReplayBuffer` adds to a replay buffer of Stable-Baselines3, whatever its observations."""

    def __init__(self, *args: Any, n_steps: int = 1, **kwargs: Any):
        if kwargs.get("optimize_memory_usage"):
            raise UserError(f"{type(self).__name__} does not support optimize_memory_usage=True; leave it out")
        if n_steps < 1:
            raise UserError(f"{type(self).__name__}: n_steps must be at least 1, got {n_steps}")
        super().__init__(*args, **kwargs)
        self.n_steps = n_steps
        self.discounts = np.zeros((self.buffer_size, self.n_envs), np.float32)  # type: ignore[attr-defined]

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        """Keep one decision of every environment; `infos` come from environments in `masp.MacroActionEnv`."""
        if not all("discount" in info for info in infos):
            raise UserError(
                f"{type(self).__name__} found no info['discount']: wrap each environment in masp.MacroActionEnv, "
                "outside of Monitor"
            )
        self.discounts[self.pos] = [info["discount"] for info in infos]  # type: ignore[attr-defined]
        super().add(obs, next_obs, action, reward, done, infos)  # type: ignore[misc]

    def _windows(self: Any, rows: np.ndarray, envs: np.ndarray, normalizer: VecNormalize | None) -> Windows:
        """n-step returns that begin at `rows` [B] of the environments `envs` [B].

        They end with the episode, and at the newest row, after which the ring holds older decisions.
        """
        reward, discount = np.zeros(len(rows), np.float32), np.ones(len(rows), np.float32)
        last, going = rows.copy(), np.ones(len(rows), bool)
        newest = (self.pos - 1) % self.buffer_size
        for step in range(self.n_steps):
            row = (rows + step) % self.buffer_size
            reward += going * discount * self._normalize_reward(self.rewards[row, envs], normalizer)
            discount *= np.where(going, self.discounts[row, envs], 1.0)
            last = np.where(going, row, last)
            going &= (self.dones[row, envs] == 0) & (row != newest)
        done = self.dones[last, envs] * (1 - self.timeouts[last, envs])
        return Windows(reward[:, None], discount[:, None], done[:, None], last)


class MacroReplayBuffer(_Discounts, ReplayBuffer):
    """A replay buffer for decisions of different lengths: `DQN(..., replay_buffer_class=MacroReplayBuffer)`.

    With `replay_buffer_kwargs={"n_steps": n}` returns run over n decisions and multiply their discounts.
    """

    def __init__(self, buffer_size: int, observation_space: spaces.Space, *args: Any, **kwargs: Any):
        if isinstance(observation_space, spaces.Dict):
            raise UserError(f"{type(self).__name__} keeps no Dict observations; use masp.sb3.MacroDictReplayBuffer")
        super().__init__(buffer_size, observation_space, *args, **kwargs)

    def _get_samples(self, batch_inds: np.ndarray, env: VecNormalize | None = None) -> ReplayBufferSamples:
        envs = np.random.randint(0, self.n_envs, size=len(batch_inds))
        windows = self._windows(batch_inds, envs, env)
        arrays = (
            self._normalize_obs(self.observations[batch_inds, envs], env),
            self.actions[batch_inds, envs],
            self._normalize_obs(self.next_observations[windows.last, envs], env),
            windows.done,
            windows.reward,
            windows.discount,
        )
        return ReplayBufferSamples(*map(self.to_torch, arrays))


class MacroDictReplayBuffer(_Discounts, DictReplayBuffer):
    """The same for Dict observations (`MultiInputPolicy`)."""

    def _get_samples(self, batch_inds: np.ndarray, env: VecNormalize | None = None) -> DictReplayBufferSamples:
        envs = np.random.randint(0, self.n_envs, size=len(batch_inds))
        windows = self._windows(batch_inds, envs, env)
        before = {name: array[batch_inds, envs] for name, array in self.observations.items()}
        after = {name: array[windows.last, envs] for name, array in self.next_observations.items()}
        return DictReplayBufferSamples(
            observations=self._tensors(self._normalize_obs(before, env)),
            actions=self.to_torch(self.actions[batch_inds, envs]),
            next_observations=self._tensors(self._normalize_obs(after, env)),
            dones=self.to_torch(windows.done),
            rewards=self.to_torch(windows.reward),
            discounts=self.to_torch(windows.discount),
        )

    def _tensors(self, observations: Any) -> dict[str, Any]:
        return {name: self.to_torch(array) for name, array in observations.items()}
