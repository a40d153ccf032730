"""Planted tasks: groups of equivalent actions, and the options of the grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vectors import make_vector, play

from masp.environments import make_env
from masp.environments.planted import GridState, PlantedBandit, PlantedGrid
from masp.errors import UserError


def at(row, column, goal=(0, 0)):
    return GridState(jnp.array([row, column]), jnp.array(goal), jnp.zeros((), jnp.int32))


@pytest.mark.parametrize("env", [PlantedGrid(copies=8, uneven=True), PlantedBandit(groups=4, copies=8, uneven=True)])
def test_uneven_groups(env):
    sizes = np.bincount(env.info.groups)
    assert sizes.tolist() == [16, 8, 5, 3]  # one primitive each, and 28 copies in the ratio 8 : 4 : 2 : 1
    primitives = [sequence[0] for sequence in env.info.actions.sequences()]
    np.testing.assert_array_equal(primitives, env.info.groups)


def test_leaving_the_grid_terminates_only_with_a_cliff():
    key, up = jax.random.PRNGKey(0), jnp.array(0)
    for cliff in (False, True):
        env = PlantedGrid(cliff=cliff)
        state, _, reward, terminated, truncated = env.step(at(0, 3), up, key)
        assert (bool(terminated), float(reward), bool(truncated)) == (cliff, 0.0, False)
        assert state.position.tolist() == [0, 3]
        _, _, reward, terminated, _ = env.step(at(1, 0), up, key)
        assert bool(terminated) and float(reward) == 1.0  # the goal is inside the grid


def test_leaving_the_grid_from_the_goal_has_no_reward():
    _, _, reward, terminated, _ = PlantedGrid(cliff=True).step(at(0, 0), jnp.array(0), jax.random.PRNGKey(0))
    assert bool(terminated) and float(reward) == 0.0


def test_the_goal_is_rewarded_with_probability_pay():
    env = PlantedGrid(pay=0.7)
    keys = jax.random.split(jax.random.PRNGKey(0), 4000)
    _, _, reward, terminated, _ = jax.vmap(lambda key: env.step(at(1, 0), jnp.array(0), key))(keys)
    assert bool(terminated.all())
    assert abs(float(reward.mean()) - 0.7) < 4 * (0.7 * 0.3 / 4000) ** 0.5


def test_sequences_are_grouped_by_displacement():
    info = PlantedGrid(sequences=124).info
    sequences = info.actions.sequences()
    assert len(sequences) == 128 and len(set(map(tuple, sequences))) == 128
    assert {len(sequence) for sequence in sequences[4:]} == {2, 3, 4}
    moves = {0: -1j, 1: 1, 2: 1j, 3: -1}
    displacements = [sum(moves[move] for move in sequence) for sequence in sequences]
    same = np.array([[a == b for b in displacements] for a in displacements])
    np.testing.assert_array_equal(info.groups[:, None] == info.groups[None, :], same)
    assert np.array_equal(PlantedGrid(sequences=124).info.groups, info.groups)
    assert PlantedGrid(sequences=124, order_seed=1).info.actions != info.actions


def test_opaque_copies_are_primitives():
    plain, opaque = PlantedGrid(copies=3), PlantedGrid(copies=3, opaque=True)
    assert opaque.info.actions.num_primitives == 12 and not opaque.info.actions.macros
    np.testing.assert_array_equal(opaque.info.groups, plain.info.groups)
    state, _ = opaque.reset(jax.random.PRNGKey(0))
    for action, group in enumerate(plain.info.groups):
        np.testing.assert_array_equal(
            opaque.step(state, jnp.asarray(action), jax.random.PRNGKey(1))[0].position,
            plain.step(state, jnp.asarray(group), jax.random.PRNGKey(1))[0].position,
        )


def test_sequences_of_opaque_copies_are_grouped_by_displacement():
    """Several primitives have the same effect; the groups follow the effect."""
    info = PlantedGrid(copies=3, opaque=True, sequences=20).info
    assert info.actions.num_primitives == 12 and len(info.actions.macros) == 20
    groups = PlantedGrid(copies=3).info.groups  # of up, right, down, left
    moves = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])[groups]
    displacements = [tuple(moves[list(sequence)].sum(axis=0)) for sequence in info.actions.sequences()]
    same = np.array([[a == b for b in displacements] for a in displacements])
    np.testing.assert_array_equal(info.groups[:, None] == info.groups[None, :], same)


def test_bandit_options_set_contexts_and_groups():
    env = make_env("planted-bandit", ["contexts=4", "groups=2", "pay_good=1", "pay_bad=0"])
    assert env.info.observation_shape == (4,)
    assert env.info.actions.num_primitives == 2
    np.testing.assert_array_equal(np.bincount(env.info.groups), [8, 8])


def test_grid_terminates_at_the_goal_and_truncates_at_the_limit():
    _, _, steps = play(make_vector("planted-grid", 64), 100)
    agent, goal = np.split(steps.observation, 2, axis=-1)
    arrived = (agent == goal).all(axis=-1)
    assert steps.terminated.any()
    assert steps.truncated.any()
    np.testing.assert_array_equal(arrived, steps.terminated)  # the final observation is the one at the goal
    np.testing.assert_array_equal(steps.reward, steps.terminated.astype(np.float32))


@pytest.mark.parametrize(
    ("env", "option", "message"),
    [
        ("planted-grid", "size=1", "planted-grid: size must be at least 2, got 1"),
        ("planted-grid", "max_steps=0", "max_steps must be at least 1, got 0"),
        ("planted-grid", "copies=0", "copies must be at least 1, got 0"),
        ("planted-grid", "order_seed=-1", "order_seed must be at least 0, got -1"),
        ("planted-grid", "sequences=337", r"in \[0, 336\]"),
        ("planted-grid", "pay=2", r"in \[0, 1\]"),
        ("planted-grid", "cliff=1", "type bool"),
        ("planted-bandit", "contexts=0", "contexts must be at least 1, got 0"),
        ("planted-bandit", "groups=0", "groups must be at least 1, got 0"),
        ("planted-bandit", "pay_good=1.5", r"pay_good must be in \[0, 1\], got 1.5"),
        ("planted-bandit", "pay_bad=-1", r"pay_bad must be in \[0, 1\], got -1"),
    ],
)
def test_invalid_options_are_named(env, option, message):
    with pytest.raises(UserError, match=message):
        make_env(env, [option])
