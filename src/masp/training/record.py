"""Playing episodes to record them: any environment, at random or with the policy of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.acting import ActorState
from masp.environments import is_jax, make_env
from masp.environments.base import EnvInfo, HostEnv, JaxEnv, Step
from masp.errors import UserError
from masp.training.agent import Agent
from masp.training.compiled import step_or_reset
from masp.training.run import Run


class Vector(Protocol):
    """The part of `HostEnv` that playing needs."""

    @property
    def info(self) -> EnvInfo: ...

    @property
    def num_envs(self) -> int: ...

    def reset(self, seed: int) -> np.ndarray: ...

    def step(self, actions: np.ndarray) -> Step: ...


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


def vector_env(env_id: str, options: Sequence[str], num_envs: int) -> Vector:
    """The environment, `num_envs` of it side by side, stepped from Python."""
    env: JaxEnv | HostEnv = make_env(env_id, options, num_envs)
    return _JaxVector(env, num_envs) if is_jax(env) else env


class _JaxVector:
    """N of a JAX environment."""

    def __init__(self, env: JaxEnv, num_envs: int):
        self.info, self.num_envs, self._env = env.info, num_envs, env
        self._resetting = jnp.zeros(num_envs, bool)

    def reset(self, seed: int) -> np.ndarray:
        self._key, first = jax.random.split(jax.random.PRNGKey(seed))
        self._tick = 0
        self._envs, observation = jax.vmap(self._env.reset)(jax.random.split(first, self.num_envs))
        return np.asarray(observation)

    def step(self, actions: np.ndarray) -> Step:
        self._tick += 1
        self._envs, step, self._resetting = self._step(self._envs, actions, self._resetting, self._key, self._tick)
        return Step(*[np.asarray(part) for part in step])

    @partial(jax.jit, static_argnums=0)
    def _step(self, envs: Any, actions: Array, resetting: Array, key: Array, tick: Array) -> tuple[Any, Step, Array]:
        envs, step = step_or_reset(self._env, envs, actions, resetting, jax.random.fold_in(key, tick))
        return envs, step, step.terminated | step.truncated


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


class RunPolicy:
    """The policy of a run, with its own macros, without noise."""

    def __init__(self, run: Run, info: EnvInfo, epsilon: float | None, seed: int):
        """`epsilon`: chance of a random decision; None: that of the run's evaluations."""
        run.actions.require_primitives(info.actions.num_primitives, info.env_id)
        agent = Agent(run.config, info, run.actions)
        expected = jax.eval_shape(agent.policy_template)["params"]
        if jax.tree.map(jnp.shape, run.params) != jax.tree.map(jnp.shape, expected):
            raise UserError(
                f"{run.path}: its network does not fit the observations {info.observation_shape} of {info.env_id}; "
                f"it was trained in {run.config.env}"
            )
        self._agent, self._params, self._context = agent, run.params, run.context
        self._macros = agent.tables()
        self._epsilon = run.config.eval_epsilon if epsilon is None else epsilon
        self._key, self._tick = jax.random.PRNGKey(seed), 0

    def begin(self, observation: np.ndarray) -> None:
        self._state = self._agent.actor(self._macros).init(jnp.asarray(observation))

    def act(self) -> np.ndarray:
        self._tick += 1
        self._state, primitives = self._act(self._params, self._context, self._state, self._tick)
        return np.asarray(primitives)

    def see(self, step: Step) -> None:
        self._state = self._see(self._state, step)

    @partial(jax.jit, static_argnums=0)
    def _act(self, params: Any, context: Array, state: ActorState, tick: Array) -> tuple[ActorState, Array]:
        acting = self._agent.actor(self._macros)
        values = self._agent.learner.values(params, acting.inputs(state), context, None)
        return acting.decide(state, values, self._epsilon, tick, jax.random.fold_in(self._key, tick))

    @partial(jax.jit, static_argnums=0)
    def _see(self, state: ActorState, step: Step) -> ActorState:
        return self._agent.actor(self._macros).advance(state, step)[0]


def play_episodes(
    env: Vector,
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
