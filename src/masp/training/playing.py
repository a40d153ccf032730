"""A trained agent at play, tick by tick."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from masp.environments import is_jax, make_env
from masp.environments.base import HostEnv, Step
from masp.training.jax_vector import JaxVector
from masp.training.run import Run
from masp.training.train import make_loop


class Tick(NamedTuple):
    """One step of N environments, and why it was played."""

    observation: np.ndarray  # [N, ...] before the step
    action: np.ndarray  # [N] the decision under way
    position: np.ndarray  # [N] steps of it played before this one
    primitive: np.ndarray  # [N]
    resetting: np.ndarray  # [N] bool, nothing was played here
    step: Step


def make_player_env(env_id: str, options: tuple[str, ...], num_envs: int = 1) -> HostEnv | JaxVector:
    """The environment, stepped from Python whatever it is."""
    env = make_env(env_id, options, num_envs)
    return JaxVector(env, num_envs) if is_jax(env) else env


def play(run: Run, env: HostEnv | JaxVector, seed: int, epsilon: float = 0.0) -> Iterator[Tick]:
    """Ticks without end; decisions are greedy and without noise, or random with chance `epsilon`."""
    agent = make_loop(run.config, run.actions)[0].agent
    actor = agent.actor(agent.tables())
    key = jax.random.PRNGKey(seed)

    @jax.jit
    def decide(state, tick):
        values = agent.learner.values(run.params, actor.inputs(state), run.context, None)
        return actor.decide(state, values, epsilon, tick, jax.random.fold_in(key, tick))

    advance = jax.jit(lambda state, step: actor.advance(state, step)[0])
    observation = env.reset(seed)
    state = actor.init(jnp.asarray(observation))
    for tick in range(np.iinfo(np.int32).max):
        resetting = np.asarray(state.resetting)
        state, primitives = decide(state, tick)
        step = env.step(np.asarray(primitives))
        played = np.asarray(state.macro.action), np.asarray(state.macro.position), np.asarray(primitives)
        yield Tick(observation, *played, resetting, step)
        state, observation = advance(state, step), step.observation
