"""Samples and targets of several updates at once are those of one after the other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.agent import replay
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


def assert_close(found, expected):
    jax.tree.map(lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6), found, expected)


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
        {"target_period_steps": 2, "held_out": "separate"},
        {"target_period_steps": 2, "n_step": 1, "similarity_from": "outcomes"},
        {"target_period_steps": 2, "learn_similarity": False, "embedding": 4},
    ],
)
def test_ahead_is_one_by_one(tiny_config, changes):
    config = replace(tiny_config, **UNIFORM | changes).resolved()
    loop, before = after_a_while(config)
    assert config.updates_per_iteration == 3 and loop.agent.learner.targets_stay
    found = over_seeds(loop, before, loop.agent.learn)
    expected = over_seeds(loop, before, lambda state: one_by_one(loop.agent, state))
    assert int(found.learner.updates) == int(before.learner.updates) + 3
    assert_close(
        (found.learner.params, found.learner.target_params, found.learner.similarity, found.tally),
        (expected.learner.params, expected.learner.target_params, expected.learner.similarity, expected.tally),
    )


def test_a_network_that_was_replaced_is_asked_again(tiny_config, monkeypatch):
    """Targets that are never renewed would be noticed above."""
    config = replace(tiny_config, **UNIFORM, target_period_steps=2).resolved()
    loop, before = after_a_while(config)
    expected = over_seeds(loop, before, lambda state: one_by_one(loop.agent, state)).learner.params
    kept = type(loop.agent.learner)._sync_target
    replaced = type(loop.agent.learner).has_new_target

    def with_its_condition(self, state):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(self), "has_new_target", replaced)
            return kept(self, state)

    monkeypatch.setattr(type(loop.agent.learner), "_sync_target", with_its_condition)
    monkeypatch.setattr(type(loop.agent.learner), "has_new_target", lambda self, state: jnp.array(False))
    stale = over_seeds(loop, before, loop.agent.learn).learner.params
    pairs = zip(*map(jax.tree.leaves, (stale, expected)), strict=True)
    assert any(not np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in pairs)


def test_blocks_of_an_iteration(tiny_config, monkeypatch):
    """Six updates, of which three at most may be known ahead; or one; or as many as two have outputs."""
    config = replace(tiny_config, **UNIFORM | {"num_envs": 6}, target_period_steps=4).resolved()
    loop, before = after_a_while(config)
    expected = over_seeds(loop, before, lambda state: one_by_one(loop.agent, state)).learner.params
    outputs = len(loop.agent.actions)
    for most, most_outputs, ahead in ((15, 10**6, 3), (4, 10**6, 1), (100, 8 * outputs, 2)):
        monkeypatch.setattr("masp.agent.agent.MOST_AHEAD", most)
        monkeypatch.setattr("masp.agent.agent.MOST_OUTPUTS_AHEAD", most_outputs)
        assert loop.agent._updates_ahead == ahead
        found = over_seeds(loop, before, lambda state: loop.agent.learn(state)).learner.params
        assert_close(found, expected)


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
