"""A JAX environment stepped from Python, for whoever plays rather than trains: recordings, videos."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from masp.environments.base import EnvInfo, JaxEnv, Step
from masp.training.compiled import action_masks, step_or_reset


class JaxVector:
    """N copies of a JAX environment with `reset` and `step` of a `HostEnv`; it cannot be stopped and resumed."""

    def __init__(self, env: JaxEnv, num_envs: int = 1):
        self._env, self._num_envs = env, num_envs
        self._reset = jax.jit(jax.vmap(env.reset))
        self._masks = jax.jit(partial(action_masks, env))
        self._step = jax.jit(partial(step_or_reset, env))
        self._key: Array = jax.random.PRNGKey(0)
        self._tick = 0
        self._state: Any = None
        self._resetting = np.zeros(num_envs, bool)
        self.action_mask: np.ndarray | None = None

    @property
    def info(self) -> EnvInfo:
        return self._env.info

    @property
    def num_envs(self) -> int:
        return self._num_envs

    def reset(self, seed: int) -> np.ndarray:
        """New episodes everywhere; [N, ...] first observations. The same seed gives the same episodes."""
        self._key, self._tick = jax.random.PRNGKey(seed), 0
        self._resetting[:] = False
        self._state, observation = self._reset(jax.random.split(self._key, self.num_envs))
        self.action_mask = jax.tree.map(np.asarray, self._masks(self._state))
        return np.asarray(observation)

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] each; an environment whose episode ended in the last tick only resets."""
        self._tick += 1
        key = jax.random.fold_in(self._key, self._tick)
        self._state, step = self._step(self._state, actions, self._resetting, key)
        step = jax.tree.map(np.asarray, step)
        self._resetting = step.terminated | step.truncated
        return step

    def render(self) -> np.ndarray | None:
        """The first environment as an image; None if it does not draw itself."""
        draw = getattr(self._env, "render", None)
        return None if draw is None else np.asarray(draw(jax.tree.map(lambda leaf: leaf[0], self._state)))

    def close(self) -> None:
        pass
