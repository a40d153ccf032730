"""Environments of gymnax and pgx as JAX environments of masp."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp import UserError
from masp.environments.adapters import from_gymnax, from_pgx
from masp.training.compiled import action_masks

KEY = jax.random.PRNGKey(0)


class State(NamedTuple):
    place: jax.Array
    time: jax.Array


class Corridor:
    """In the style of gymnax 0: `step` resets by itself, and `done` includes the time limit."""

    name = "Corridor-v0"
    num_actions = 2
    default_params = SimpleNamespace(max_steps_in_episode=4)
    values = 5

    def reset(self, key, params):
        state = State(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return self._observation(state), state

    def step_env(self, key, state, action, params):
        state = State(state.place + 2 * action - 1, state.time + 1)
        terminated = state.place == 2
        out_of_time = state.time >= params.max_steps_in_episode
        ends = (terminated, out_of_time) if self.values == 6 else (terminated | out_of_time,)
        return self._observation(state), state, terminated * 1, *ends, {}

    def step(self, *_):
        raise AssertionError("step hides the final observation")

    def _observation(self, state):
        return jnp.stack([state.place, state.time])[None]


class NewCorridor(Corridor):
    """In the style of gymnax 1: six values."""

    values = 6


def play(env, actions):
    state, observation = env.reset(KEY)
    steps = [(observation, 0.0, False, False)]
    for action in actions:
        state, *step = jax.jit(env.step)(state, jnp.asarray(action), KEY)
        steps.append(step)
    return [(observation.tolist(), float(reward), bool(end), bool(cut)) for observation, reward, end, cut in steps]


@pytest.mark.parametrize("env", [Corridor(), NewCorridor()])
def test_gymnax_environments_of_both_versions(env):
    adapted = from_gymnax(env)
    assert (adapted.info.env_id, adapted.info.observation_shape) == ("Corridor-v0", (2,))
    assert (adapted.info.observation_kind, adapted.info.max_episode_steps) == ("vector", 4)
    assert adapted.info.actions.num_primitives == 2
    assert play(adapted, [1, 1]) == [
        ([0.0, 0.0], 0.0, False, False),
        ([1.0, 1.0], 0.0, False, False),
        ([2.0, 2.0], 1.0, True, False),
    ]
    assert play(adapted, [1, 0, 1, 0])[-1] == ([0.0, 4.0], 0.0, False, True)


def test_parameters_of_a_gymnax_environment_can_be_chosen():
    env = from_gymnax(Corridor(), SimpleNamespace(max_steps_in_episode=1))
    assert play(env, [1])[-1] == ([1.0, 1.0], 0.0, False, True)


class Game(NamedTuple):
    observation: jax.Array
    rewards: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    legal_action_mask: jax.Array


class Coins:
    """In the style of pgx: take coins until none is left."""

    id, num_players, num_actions = "coins", 1, 3

    def init(self, key):
        return Game(jnp.ones((4, 4, 2), bool), jnp.zeros(1), jnp.array(False), jnp.array(False), jnp.ones(3, bool))

    def step(self, state, action, key=None):
        board = state.observation.at[action].set(False)
        return Game(board, jnp.full(1, 2.0), ~board.any(), jnp.array(False), board[:3].any(axis=(1, 2)))


def test_pgx_environments():
    env = from_pgx(Coins())
    assert (env.info.observation_kind, env.info.observation_shape) == ("planes", (4, 4, 2))
    assert env.info.observation_dtype == np.dtype(bool)
    assert [step[1:] for step in play(env, [0, 1])] == [(0.0, False, False), (2.0, False, False), (2.0, False, False)]
    state, _ = env.reset(KEY)
    assert action_masks(env, jax.tree.map(lambda leaf: leaf[None], state)).tolist() == [[True, True, True]]
    state, *_ = env.step(state, 1, KEY)
    assert env.action_mask(state).tolist() == [True, False, True]
    two = Coins()
    two.num_players = 2
    with pytest.raises(UserError, match="coins is a game for 2 players"):
        from_pgx(two)


def test_a_game_of_pgx_itself():
    pgx = pytest.importorskip("pgx")
    env = from_pgx(pgx.make("minatar-breakout"))
    steps = play(env, [0, 1, 2])
    assert env.info.observation_kind == "planes"
    assert np.shape(steps[-1][0]) == env.info.observation_shape == (10, 10, 4)
