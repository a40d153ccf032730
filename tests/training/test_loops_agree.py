"""The compiled loop and the host loop are the same agent: on the same environment they do exactly the same."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from masp.agent.agent import Agent, AgentState, Keys
from masp.config import TrainConfig, replace
from masp.environments.base import Step
from masp.environments.planted import PlantedGrid
from masp.macros.actions import ActionSet
from masp.training.compiled import CompiledLoop, action_masks, step_or_reset
from masp.training.host import HostLoop

ACTIONS = ActionSet(4, [(0, 0), (1, 1, 1), (2, 1, 0, 3), (3,)])


class JaxOnHost:
    """A JAX environment driven from Python with the keys that the compiled loop would use."""

    def __init__(self, env: PlantedGrid, num_envs: int, seed: int):
        self.info, self.num_envs, self._env, self._seed = env.info, num_envs, env, seed
        self._step = jax.jit(lambda envs, actions, resetting, key: step_or_reset(env, envs, actions, resetting, key))

    def reset(self, seed: int) -> np.ndarray:
        del seed  # host environments get a derived one; the compiled loop uses the seed of the run
        self._key = Keys.of(jax.random.PRNGKey(self._seed)).environment
        resets = jax.random.split(jax.random.fold_in(self._key, 0), self.num_envs)
        self._envs, observation = jax.vmap(self._env.reset)(resets)
        self.action_mask = jax.tree.map(np.asarray, action_masks(self._env, self._envs))
        self._resetting, self._tick = jnp.zeros(self.num_envs, bool), 0
        return np.asarray(observation)

    def step(self, actions: np.ndarray) -> Step:
        self._tick += 1
        key = jax.random.fold_in(self._key, self._tick)
        self._envs, step = self._step(self._envs, jnp.asarray(actions), self._resetting, key)
        self._resetting = step.terminated | step.truncated
        return jax.tree.map(np.asarray, step)


def run_both(
    config: TrainConfig, ticks: int, env: Any = None, actions: ActionSet = ACTIONS
) -> tuple[AgentState, AgentState]:
    env = PlantedGrid(size=4, copies=1, max_steps=6) if env is None else env
    agent = Agent(config, env.info, actions)
    on_host: Any = JaxOnHost(env, config.num_envs, seed=7)
    compiled, host = CompiledLoop(agent, env), HostLoop(agent, on_host, on_host)
    configs = [replace(config, seed=7)]
    one, other = compiled.init(configs, [actions]), host.init(configs, [actions])
    for learn in (False, True):
        one, other = compiled.run(one, ticks, learn), host.run(other, ticks, learn)
    return with_observations(compiled, one)[0], other.agent


def with_observations(loop: CompiledLoop, state: Any) -> list[Any]:
    """The agents of all seeds as checkpoints hold them, with the observations that the replay log holds."""
    agents = [checkpoint.agent for checkpoint in loop.checkpoints(state)]
    rings = np.asarray(state.agent.memory.observations)
    return [
        agent._replace(memory=agent.memory._replace(observations=ring))
        for agent, ring in zip(agents, rings, strict=True)
    ]


def test_same_transitions_and_same_learning(tiny_config):
    config = replace(
        tiny_config, n_step=3, stack=2, num_atoms=5, value_range=(-1.0, 2.0), noisy=True, intra_option=True
    )
    one, other = run_both(config, 50)
    assert int(one.tick) == int(other.tick) == 100
    assert int(one.unused_steps) == int(other.unused_steps)
    assert int(one.learner.updates) == int(other.learner.updates) > 15
    assert np.count_nonzero(one.memory.tree[0]) > 20
    for name in ("action", "span", "age", "observations"):
        np.testing.assert_array_equal(getattr(one.memory, name), getattr(other.memory, name), err_msg=name)
    jax.tree.map(np.testing.assert_array_equal, one.memory.steps, other.memory.steps)
    np.testing.assert_allclose(one.memory.reward, other.memory.reward, rtol=1e-6)
    np.testing.assert_allclose(one.memory.discount, other.memory.discount, rtol=1e-6)
    np.testing.assert_array_equal(one.actor.usage, other.actor.usage)
    # Compiled apart, the same sums may round differently; fifty updates leave no more than that.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-3), one.learner.params, other.learner.params)
    similarities = [agent.learner.similarity.similarity for agent in (one, other)]
    np.testing.assert_allclose(*similarities, atol=2e-3)


def test_seeds_together_equal_seeds_alone(tiny_config):
    env = PlantedGrid(size=4, copies=1, max_steps=6)
    loop = CompiledLoop(Agent(tiny_config, env.info, ACTIONS), env)
    configs = [replace(tiny_config, seed=seed) for seed in (3, 5)]
    together = with_observations(loop, loop.run(loop.init(configs, [ACTIONS] * 2), 20, False))
    for seed, joint in zip((3, 5), together, strict=True):
        state = loop.run(loop.init([replace(tiny_config, seed=seed)], [ACTIONS]), 20, False)
        alone = with_observations(loop, state)[0]
        np.testing.assert_array_equal(joint.memory.action, alone.memory.action)
        np.testing.assert_array_equal(joint.memory.observations, alone.memory.observations)
    assert not np.array_equal(together[0].memory.observations, together[1].memory.observations)


def test_windows_never_cross_episodes_and_discount_counts_steps(tiny_config):
    """Every window, retold from the raw rows, lies inside one episode and has the discount gamma^steps."""
    config = replace(tiny_config, n_step=2, gamma=0.9, replay_steps=3000)
    env = PlantedGrid(size=4, copies=1, max_steps=6)
    loop = CompiledLoop(Agent(config, env.info, ACTIONS), env)
    state = loop.run(loop.init([replace(config, seed=1)], [ACTIONS]), 200, False)
    memory = jax.tree.map(np.asarray, loop.checkpoints(state)[0].agent.memory)
    ticks, num_envs = memory.age.shape
    rows = np.flatnonzero(memory.tree[0][: ticks * num_envs])
    ends = 0
    assert rows.size > 200
    for leaf in rows:
        row, e = divmod(int(leaf), num_envs)
        span = int(memory.span[row, e])
        ages = memory.age[row : row + span + 1, e].astype(int)
        np.testing.assert_array_equal(ages, ages[0] + np.arange(span + 1))
        if memory.discount[row, e] == 0.0:
            ends += 1
            np.testing.assert_allclose(memory.reward[row, e], 0.9 ** (span - 1), rtol=1e-5)
        else:
            np.testing.assert_allclose(memory.discount[row, e], 0.9**span, rtol=1e-5)
            assert memory.reward[row, e] == 0.0
    assert ends > 5
