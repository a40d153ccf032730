"""Atari through envpool: the same emulator and the same preprocessing in C++, on several threads.

One difference is unavoidable: an environment of envpool has one stream of random numbers, seeded at construction, from
which sticky actions draw at each frame. An episode depends on all steps before it, so a run can be repeated from its
start but not resumed, and the episodes of a seed differ from those of backend=ale.
"""

from __future__ import annotations

import os
from typing import Any

import envpool
import numpy as np

from masp.environments.atari import AtariGame, AtariSettings, describe_atari
from masp.environments.base import Step, episode_seed
from masp.errors import UserError


class EnvPoolAtari:
    """N environments as a `HostEnv`; a reference game of ale-py describes them."""

    def __init__(self, game: str, settings: AtariSettings, num_envs: int = 1):
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}")
        if settings.noops < 1:
            raise UserError("backend=envpool plays at least one no-op; give noops=1 or leave out backend=envpool")
        self._task, reference = f"{game}-v5", AtariGame(game, settings)
        self.info, self._indices = describe_atari(reference), reference.legal_indices()
        if self._task not in envpool.list_all_envs():
            raise UserError(f"envpool has no {game}; leave out backend=envpool")
        self.num_envs, self._settings = num_envs, settings
        self._observation = np.zeros((num_envs, *self.info.observation_shape), np.uint8)
        self._lives, self._steps = np.zeros((2, num_envs), np.int64)
        self._resetting = np.zeros(num_envs, bool)
        self._pool: Any = None

    def reset(self, seed: int) -> np.ndarray:
        """Start new episodes; [N, ...] first observations. The same seed gives the same run."""
        settings = self._settings
        self._pool = envpool.make_gymnasium(
            self._task,
            num_envs=self.num_envs,
            num_threads=min(self.num_envs, os.cpu_count() or 1),
            env_seed=[episode_seed(seed, i, 0) for i in range(self.num_envs)],
            stack_num=1,
            frame_skip=settings.repeat,
            noop_max=settings.noops,
            repeat_action_probability=settings.sticky,
            full_action_space=settings.full_actions,
            img_height=settings.size,
            img_width=settings.size,
            use_fire_reset=False,
            # `step` truncates one step earlier: envpool reports a termination in the last allowed step as truncation.
            max_episode_steps=settings.max_steps + 1,
        )
        self._begin_episodes(np.arange(self.num_envs))
        return self._observation.copy()

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] in each environment; one whose episode ended in the last tick only resets."""
        if self._pool is None:
            raise RuntimeError("reset(seed) comes first")
        reward = np.zeros(self.num_envs, np.float32)
        terminated, truncated, life_lost = np.zeros((3, self.num_envs), bool)
        resetting, playing = np.flatnonzero(self._resetting), np.flatnonzero(~self._resetting)
        if len(resetting):
            self._begin_episodes(resetting)
        if len(playing):
            legal_actions = self._indices[np.asarray(actions)[playing]]
            images, rewards, ends, _, info = self._pool.step(legal_actions, playing.astype(np.int32))
            envs = info["env_id"]
            self._steps[envs] += 1
            reward[envs], terminated[envs] = rewards, ends
            truncated[envs] = (self._steps[envs] >= self._settings.max_steps) & ~ends
            life_lost[envs] = (info["lives"] < self._lives[envs]) & ~ends & self._settings.life_loss
            self._observe(images, info)
        self._resetting = terminated | truncated
        return Step(self._observation.copy(), reward, terminated, truncated, life_lost)

    def snapshot(self) -> dict[str, np.ndarray]:
        """An empty snapshot, because envpool cannot be restored."""
        return {}

    def restore(self, seed: int, snapshot: Any) -> None:
        """Raise `UserError`, because envpool does not expose its random state."""
        del seed, snapshot
        raise UserError(
            f"a run of {self.info.env_id} with backend=envpool cannot be resumed: envpool does not give its random "
            "state out; train it anew, or with backend=ale"
        )

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def _begin_episodes(self, envs: np.ndarray) -> None:
        images, info = self._pool.reset(envs.astype(np.int32))
        self._steps[envs] = 0
        self._resetting[envs] = False
        self._observe(images, info)

    def _observe(self, images: np.ndarray, info: dict[str, np.ndarray]) -> None:
        """Store [n, 1, size, size] images, which come in the order in which the environments finished."""
        self._observation[info["env_id"]] = np.moveaxis(images, 1, -1)
        self._lives[info["env_id"]] = info["lives"]
