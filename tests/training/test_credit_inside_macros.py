"""Primitives that were only ever played inside macros are learned, where the steps inside macros teach."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.agent.agent import Agent
from masp.config import TrainConfig, replace
from masp.environments.base import EnvInfo
from masp.macros.actions import ActionSet
from masp.training.compiled import step_or_reset
from masp.training.lanes import start_of

STAY, FORWARD = 0, 1
ACTIONS = ActionSet(2, [(FORWARD, FORWARD, FORWARD), (FORWARD, STAY, FORWARD), (STAY, FORWARD)])
GAMMA = 0.5


class Corridor:
    """Cells 0, 1, 2 and the goal: forward from cell 2 pays 1 and ends the episode, which is cut after 7 steps."""

    info = EnvInfo("corridor", (4,), np.dtype(np.float32), "vector", ACTIONS, max_episode_steps=7)

    def reset(self, key):
        del key
        return jnp.zeros(2, jnp.int32), jax.nn.one_hot(0, 4)

    def step(self, state, action, key):
        del key
        cell, steps = state[0] + action, state[1] + 1
        arrived = cell == 3
        cut = (steps == 7) & ~arrived
        return jnp.stack([cell, steps]), jax.nn.one_hot(cell, 4), arrived.astype(jnp.float32), arrived, cut


def learned_values(intra_option: bool) -> np.ndarray:
    """[cells, A] after play in which every decision was a macro."""
    changes = {"hidden": 32, "num_atoms": 1, "noisy": False, "dueling": False, "batch_size": 32, "num_envs": 4}
    changes |= {"steps_per_update": 2, "gamma": GAMMA, "n_step": 1, "learning_rate": 5e-3, "adam_eps": 1e-5}
    changes |= {"replay_steps": 800, "target_period_steps": 40, "intra_option": intra_option}
    agent = Agent(replace(TrainConfig(env="corridor", variant="macros"), **changes).resolved(), Corridor.info, ACTIONS)
    env, key = Corridor(), jax.random.PRNGKey(0)

    @jax.jit
    def run(state, envs):
        def tick(i, carry):
            state, envs = carry
            key_choice, key_env = jax.random.split(jax.random.fold_in(key, i))
            acting = agent.actor(state.macros)
            liked = jax.random.uniform(key_choice, (4, len(ACTIONS))).at[:, : ACTIONS.num_primitives].set(-1.0)
            actor, primitives = acting.decide(state.actor, liked, 0.0, state.tick, key_choice)
            envs, step = step_or_reset(env, envs, primitives, actor.resetting, key_env)
            return agent.observe(state._replace(actor=actor), step)[0], envs

        state, envs = jax.lax.fori_loop(0, 150, tick, (state, envs))
        return jax.lax.fori_loop(0, 1500, lambda _, s: agent.update(s, agent.update_keys(s)[0]), state)

    envs, observation = jax.vmap(env.reset)(jax.random.split(key, 4))
    keys, start = start_of(agent.config, agent, ACTIONS)
    state = run(jax.jit(agent.init)(keys, observation, start), envs)
    assert state.actor.usage[: ACTIONS.num_primitives].tolist() == [0, 0]
    assert (state.memory.steps == ()) == (not intra_option)  # nothing is kept for nothing
    return np.asarray(
        agent.learner.values(state.learner.params, jnp.eye(4)[:3], state.learner.similarity.similarity, None)
    )


def test_primitives_are_learned_from_macros():
    """gamma^(steps to the goal - 1), each action followed by the best; macros stop at the goal."""
    values = learned_values(intra_option=True)
    expected = [
        [GAMMA**3, GAMMA**2, GAMMA**2, GAMMA**3, GAMMA**3],
        [GAMMA**2, GAMMA, GAMMA, GAMMA**2, GAMMA**2],
        [GAMMA, 1, 1, 1, GAMMA],
    ]
    assert values == pytest.approx(np.array(expected), abs=0.04)


def test_without_it_they_are_not():
    values = learned_values(intra_option=False)
    errors = np.abs(values[:, FORWARD] - np.array([GAMMA**2, GAMMA, 1]))
    assert errors.max() > 0.15


def test_without_macros_nothing_is_learned_twice():
    """All transitions would only be drawn again; what outcomes need of longer windows is drawn all the same."""
    config = replace(TrainConfig(env="planted-grid"), intra_option=True)
    assert Agent(config, Corridor.info, ACTIONS).learns_inside_macros
    bare = Agent(config, Corridor.info, ACTIONS.without_macros())
    assert not bare.learns_inside_macros
    outcomes = replace(config, variant="outcomes", n_step=3)
    assert Agent(outcomes, Corridor.info, ACTIONS.without_macros()).learns_inside_macros
