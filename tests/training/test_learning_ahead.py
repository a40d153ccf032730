"""Samples and targets of several updates at once are those of one after the other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp import replay
from masp.config import replace
from masp.training.compiled import TrainState
from masp.training.train import make_loop

UNIFORM = {"prioritised": False, "embedding": 0, "steps_per_update": 1, "batch_size": 4}
"""Three environments, so three updates in an iteration."""


def after_a_while(config):
    """The agent, and its state [seeds] before learning, with something in its replay and another target network."""
    loop = make_loop(config)
    state = loop.run(loop.init([config, replace(config, seed=1)]), 40, learn=False)
    state = loop.run(state, 3, learn=True)
    return loop, state.agent


def over_seeds(loop, state, function):
    axes = loop._axes(TrainState(state, ())).agent
    return jax.jit(jax.vmap(function, in_axes=(axes,), out_axes=axes))(state)


def one_by_one(agent, state):
    """What the text book says: every update draws for itself and asks the target network as it is then."""
    for _ in range(agent.config.updates_per_iteration):
        key = jax.random.fold_in(state.keys.learn, state.learner.updates)
        state = agent._update(state, jax.random.split(key, 3 + agent.credits_inside))
    return state


@pytest.mark.parametrize(
    "changes",
    [
        {"target_period_steps": 2},  # the network is replaced in the middle of iterations
        {"target_period_steps": 3, "double": False},  # at their ends
        {"target_period_steps": 2, "intra_option": True, "held_out": "next"},
    ],
)
def test_ahead_is_one_by_one(tiny_config, changes):
    config = replace(tiny_config, **UNIFORM, **changes).resolved()
    loop, before = after_a_while(config)
    assert config.updates_per_iteration == 3 and loop.agent.learner.targets_stay
    found = over_seeds(loop, before, loop.agent.learn)
    expected = over_seeds(loop, before, lambda state: one_by_one(loop.agent, state))
    assert int(found.learner.updates) == int(before.learner.updates) + 3
    jax.tree.map(
        lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6),
        (found.learner.params, found.learner.target_params, found.learner.similarity, found.tally),
        (expected.learner.params, expected.learner.target_params, expected.learner.similarity, expected.tally),
    )


def test_a_network_that_was_replaced_is_asked_again(tiny_config, monkeypatch):
    """Otherwise the test above would hold for targets that are never renewed."""
    config = replace(tiny_config, **UNIFORM, target_period_steps=2, learning_rate=0.1).resolved()
    loop, before = after_a_while(config)
    expected = over_seeds(loop, before, lambda state: one_by_one(loop.agent, state)).learner.params
    monkeypatch.setattr(type(loop.agent.learner), "has_new_target", lambda self, state: jnp.array(False))
    stale = over_seeds(loop, before, loop.agent.learn).learner.params
    assert any(not np.allclose(a, b, atol=1e-3) for a, b in zip(*map(jax.tree.leaves, (stale, expected)), strict=True))


@pytest.mark.parametrize(
    "changes", [{"prioritised": True}, {"noisy": True}, {"embedding": 4}], ids=lambda changes: next(iter(changes))
)
def test_not_where_an_update_changes_what_the_next_would_see(tiny_config, monkeypatch, changes):
    config = replace(tiny_config, **UNIFORM | changes).resolved()
    loop = make_loop(config)
    monkeypatch.setattr(type(loop.agent), "_learn_ahead", lambda *_: pytest.fail("it looked ahead"))
    state = loop.init([config])
    loop._run.lower(loop, state, 1, True)


def test_draws_are_those_of_each_key(tiny_config):
    config = replace(tiny_config, **UNIFORM).resolved()
    loop, state = after_a_while(config)
    memory = jax.tree.map(lambda leaf: leaf[0], state.memory)
    keys, where = jax.random.split(jax.random.PRNGKey(3), 5), (loop.agent.info.observation_shape, config.agent.stack)
    found = replay.sample_each(memory, keys, 6, *where)
    for i, key in enumerate(keys):
        expected = replay.sample(memory, key, 6, *where, 0.0)
        jax.tree.map(lambda ours, theirs: np.testing.assert_array_equal(ours[i], theirs), found, expected)
    assert len(np.unique(np.asarray(found.leaf), axis=0)) == 5
