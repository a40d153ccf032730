"""The harder planted tasks: unequal groups, a cliff, arrivals that do not always pay, real macros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.environments import make_env
from masp.environments.planted import GridState, PlantedBandit, PlantedGrid
from masp.errors import UserError


def at(row, column, goal=(0, 0)):
    return GridState(jnp.array([row, column]), jnp.array(goal), jnp.zeros((), jnp.int32))


@pytest.mark.parametrize("env", [PlantedGrid(copies=8, uneven=True), PlantedBandit(groups=4, copies=8, uneven=True)])
def test_uneven_groups(env):
    sizes = np.bincount(env.info.groups)
    assert sizes.sum() == 32 and sizes.tolist() == [
        16,
        8,
        5,
        3,
    ]  # 28 aliases in shares of 8 : 4 : 2 : 1, and primitives
    played = [sequence[0] for sequence in env.info.actions.sequences()]
    np.testing.assert_array_equal(played, env.info.groups)


def test_leaving_the_grid_is_a_fall_only_with_a_cliff():
    key, up = jax.random.PRNGKey(0), jnp.array(0)
    for cliff in (False, True):
        env = PlantedGrid(cliff=cliff)
        state, _, reward, terminated, truncated = env.step(at(0, 3), up, key)
        assert (bool(terminated), float(reward), bool(truncated)) == (cliff, 0.0, False)
        assert state.position.tolist() == [0, 3]
        _, _, reward, terminated, _ = env.step(at(1, 0), up, key)
        assert bool(terminated) and float(reward) == 1.0  # the goal is on the edge, not over it


def test_who_bumps_into_the_wall_on_the_goal_falls():
    _, _, reward, terminated, _ = PlantedGrid(cliff=True).step(at(0, 0), jnp.array(0), jax.random.PRNGKey(0))
    assert bool(terminated) and float(reward) == 0.0


def test_arrivals_pay_as_often_as_said():
    env = PlantedGrid(pay=0.7)
    keys = jax.random.split(jax.random.PRNGKey(0), 4000)
    _, _, reward, terminated, _ = jax.vmap(lambda key: env.step(at(1, 0), jnp.array(0), key))(keys)
    assert bool(terminated.all())
    assert abs(float(reward.mean()) - 0.7) < 4 * (0.7 * 0.3 / 4000) ** 0.5


def test_sequences_are_grouped_by_where_they_lead():
    info = PlantedGrid(sequences=124).info
    sequences = info.actions.sequences()
    assert len(sequences) == 128 and len(set(map(tuple, sequences))) == 128
    assert {len(sequence) for sequence in sequences[4:]} == {2, 3, 4}
    moves = {0: -1j, 1: 1, 2: 1j, 3: -1}
    ends = [sum(moves[move] for move in sequence) for sequence in sequences]
    same = np.array([[a == b for b in ends] for a in ends])
    np.testing.assert_array_equal(info.groups[:, None] == info.groups[None, :], same)
    assert np.array_equal(PlantedGrid(sequences=124).info.groups, info.groups)
    assert PlantedGrid(sequences=124, order_seed=1).info.actions != info.actions


@pytest.mark.parametrize(
    ("option", "message"), [("sequences=337", r"in \[0, 336\]"), ("pay=2", r"in \[0, 1\]"), ("cliff=1", "type bool")]
)
def test_what_cannot_be(option, message):
    with pytest.raises(UserError, match=message):
        make_env("planted-grid", [option])


def test_opaque_copies_are_primitives_of_their_own():
    known, opaque = PlantedGrid(copies=3), PlantedGrid(copies=3, opaque=True)
    assert opaque.info.actions.num_primitives == 12 and not opaque.info.actions.macros
    np.testing.assert_array_equal(opaque.info.groups, known.info.groups)
    state, _ = opaque.reset(jax.random.PRNGKey(0))
    for action, group in enumerate(known.info.groups):
        np.testing.assert_array_equal(
            opaque.step(state, jnp.asarray(action), jax.random.PRNGKey(1))[0].position,
            known.step(state, jnp.asarray(group), jax.random.PRNGKey(1))[0].position,
        )


def test_macros_of_opaque_copies():
    """Their primitives are buttons, several of which do the same; the truth knows what they do."""
    info = PlantedGrid(copies=3, opaque=True, sequences=20).info
    assert info.actions.num_primitives == 12 and len(info.actions.macros) == 20
    buttons = PlantedGrid(copies=3).info.groups  # of up, right, down, left
    moves = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])[buttons]
    ends = [tuple(moves[list(sequence)].sum(axis=0)) for sequence in info.actions.sequences()]
    same = np.array([[a == b for b in ends] for a in ends])
    np.testing.assert_array_equal(info.groups[:, None] == info.groups[None, :], same)
