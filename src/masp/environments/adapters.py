"""Environments of other JAX libraries as a `JaxEnv`.

masp.train(from_gymnax(*gymnax.make("CartPole-v1")))
masp.train(from_pgx(pgx.make("2048")))
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.environments.base import SMALLEST_IMAGE, EnvInfo, JaxEnv, ObservationKind
from masp.errors import UserError
from masp.macros.actions import default_macros


def from_gymnax(env: Any, params: Any = None) -> JaxEnv:
    """A gymnax environment, of version 0 or 1; `params` None: its default parameters."""
    return GymnaxEnv(env, env.default_params if params is None else params)


def from_pgx(env: Any) -> JaxEnv:
    """A pgx environment for one player."""
    if env.num_players != 1:
        raise UserError(f"{env.id} is a game for {env.num_players} players; masp trains one agent alone")
    return PgxEnv(env)


class GymnaxEnv:
    """Steps with `step_env` where it exists, because `step` resets by itself and hides the final observation."""

    def __init__(self, env: Any, params: Any):
        self._env, self._params = env, params
        self._step = getattr(env, "step_env", env.step)
        limit = getattr(params, "max_steps_in_episode", None)
        self._limit = None if limit is None else int(limit)
        observation, _ = jax.eval_shape(lambda key: env.reset(key, params), jax.random.PRNGKey(0))
        name = getattr(env, "name", type(env).__name__)
        self.info = _info(name, observation, int(env.num_actions), self._limit)

    def reset(self, key: Array) -> tuple[Any, Array]:
        """State and first observation of a new episode."""
        observation, state = self._env.reset(key, self._params)
        return state, _converted(observation, self.info)

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Array, Array, Array, Array]:
        """State, observation, reward, terminated and truncated after one primitive action."""
        observation, state, reward, *ends, _ = self._step(key, state, action, self._params)
        if len(ends) == 2:  # gymnax 1
            terminated, truncated = ends
        else:
            # gymnax 0 does not tell a time limit from a termination.
            done, out_of_time = ends[0], self._limit is not None and state.time >= self._limit
            terminated, truncated = done & jnp.logical_not(out_of_time), done & out_of_time
        terminated = jnp.asarray(terminated, bool)
        truncated = jnp.asarray(truncated, bool) & ~terminated
        return state, _converted(observation, self.info), jnp.asarray(reward, jnp.float32), terminated, truncated


class PgxEnv:
    """One player; pgx's legal actions are the action mask."""

    def __init__(self, env: Any):
        self._env = env
        observation = jax.eval_shape(env.init, jax.random.PRNGKey(0)).observation
        self.info = _info(str(env.id), observation, int(env.num_actions), None)

    def reset(self, key: Array) -> tuple[Any, Array]:
        """State and first observation of a new episode."""
        state = self._env.init(key)
        return state, _converted(state.observation, self.info)

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Array, Array, Array, Array]:
        """State, observation, reward, terminated and truncated after one primitive action."""
        state = self._env.step(state, action, key)
        reward = jnp.squeeze(state.rewards, 0).astype(jnp.float32)
        truncated = state.truncated & ~state.terminated
        return state, _converted(state.observation, self.info), reward, state.terminated, truncated

    def action_mask(self, state: Any) -> Array:
        """[primitives] bool"""
        return state.legal_action_mask


def _info(env_id: str, observation: Any, num_actions: int, limit: int | None) -> EnvInfo:
    """The description of an environment whose observations are like `observation`."""
    shape, dtype = observation.shape, np.dtype(observation.dtype)
    kind: ObservationKind = "vector"
    if len(shape) == 3 and dtype.kind == "b":
        kind = "planes"
    elif len(shape) == 3 and dtype == np.uint8 and min(shape[:2]) >= SMALLEST_IMAGE:
        kind = "image"
    else:
        shape, dtype = (int(np.prod(shape)),), np.dtype(np.float32)
    return EnvInfo(
        env_id=env_id,
        observation_shape=shape,
        observation_dtype=dtype,
        observation_kind=kind,
        actions=default_macros(num_actions, (), env_id),
        max_episode_steps=EnvInfo.max_episode_steps if limit is None else limit,
    )


def _converted(observation: Array, info: EnvInfo) -> Array:
    return jnp.reshape(observation, info.observation_shape).astype(info.observation_dtype)
