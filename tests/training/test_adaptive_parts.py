"""Replacing macros, part by part: the journal, which are exchanged, and what the agent forgets and keeps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masp.agent import priorities, replay
from masp.agent.acting import Episodes as Ended
from masp.agent.agent import Agent
from masp.agent.nstep import Windows
from masp.config import replace
from masp.environments.planted import PlantedGrid
from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro
from masp.macros.episodes import Episodes
from masp.training import journal
from masp.training.adaptive import Replacement, replace_macros
from masp.training.discovery import exchanges, good_episodes, mined_macros, randomised, require_macros, with_exchanges

ACTIONS = ActionSet(4, [(0, 0), (1, 1, 1), (2, 1, 0, 3), (3,)])
write = jax.jit(journal.write)

ticks = st.lists(
    st.tuples(st.lists(st.integers(0, 6), min_size=2, max_size=2), st.lists(st.integers(0, 9), min_size=2, max_size=2)),
    max_size=20,
)
"""Per tick and environment, a primitive and a number: 0 ends the episode."""


@settings(deadline=None, max_examples=40)
@given(ticks)
def test_journal_equals_a_plain_diary(script):
    ring = journal.init(7, 2)
    diary = [[], []]  # rows of the last seven ticks: (primitive, score where the episode ended)
    resetting, played = [False, False], [0.0, 0.0]
    for tick, (primitives, dice) in enumerate(script):
        idle = np.array(resetting)
        ended = np.array([die == 0 and not rests for die, rests in zip(dice, idle, strict=True)])
        played = [0.0 if rests else score + 0.5 for rests, score in zip(idle, played, strict=True)]
        told = Ended(jnp.asarray(ended), jnp.asarray(played), jnp.zeros(2, jnp.int32))
        ring = write(ring, tick, jnp.asarray(primitives), jnp.asarray(idle), told)
        for env in range(2):
            row = None if idle[env] else (primitives[env], played[env] if ended[env] else None)
            diary[env] = [*diary[env], (tick, row)][-7:]
        resetting = ended.tolist()
    told = []
    for env, rows in enumerate(diary):
        episode = []
        for tick, row in rows:
            if row is not None:
                episode.append(row[0])
                if row[1] is not None:
                    told.append((tick, env, episode, row[1]))
                    episode = []
    expected = [(episode, score) for _, _, episode, score in sorted(told)]
    found = journal.finished_episodes(jax.tree.map(np.asarray, ring), len(script), success_above=1.0)
    assert np.split(found.actions, np.cumsum(found.lengths)[:-1])[: found.count] == [
        pytest.approx(actions) for actions, _ in expected
    ]
    assert found.scores.tolist() == [score for _, score in expected]
    assert found.success.tolist() == [score > 1.0 for _, score in expected]


def test_good_episodes():
    play = [[0], [1, 1], [2, 2, 2], [3]]
    scored = Episodes.of(play, [1.0, 3.0, 3.0, 2.0])
    assert good_episodes(scored, 0.5).actions.tolist() == [1, 1, 2, 2, 2]
    assert good_episodes(scored, 0.25).actions.tolist() == [2, 2, 2]  # of equals the later
    assert good_episodes(Episodes.of(play, [1.0] * 4), 1.0).count == 0  # nothing tells good from bad
    assert good_episodes(Episodes.of(play, [1.0, 0.0, 0.0, 1.0], [1, 0, 0, 1]), 0.5).actions.tolist() == [3]
    assert good_episodes(Episodes.of(play, [0.0] * 4, [0] * 4), 1.0).count == 0
    assert good_episodes(Episodes.of([], [], []), 1.0).count == 0


def test_mined_macros_are_those_of_mining():
    good = Episodes.of([[0, 1, 2, 0, 1, 2]] * 3)
    assert (0, 1, 2, 0, 1, 2) in [macro.actions for macro in mined_macros(ACTIONS, good)]
    assert mined_macros(ACTIONS, good.take(np.zeros(3, bool))) == []


def test_least_used_give_way_and_what_is_found_again_stays():
    mined = [Macro((3,)), Macro((0, 1, 2)), Macro((2, 2, 1)), Macro((1, 0, 1))]
    used = np.array([9, 9, 9, 9, 5, 7, 2, 0])
    # (3,) is used least but was mined again; of the others the fourth, then the second place is used least
    found = exchanges(ACTIONS, mined, used, share=0.5)
    assert [(action, macro.actions) for action, macro in found] == [(6, (0, 1, 2)), (4, (2, 2, 1))]
    assert [action for action, _ in exchanges(ACTIONS, mined, used, share=0.01)] == [6]  # at least one
    assert [action for action, _ in exchanges(ACTIONS, mined, used, share=1.0)] == [6, 4, 5]
    assert exchanges(ACTIONS, list(ACTIONS.macros), used, share=1.0) == []
    after = with_exchanges(ACTIONS, found)
    assert [macro.actions for macro in after.macros] == [(2, 2, 1), (1, 1, 1), (0, 1, 2), (3,)]


def test_control_keeps_places_and_lengths():
    found = exchanges(ACTIONS, [Macro((0, 1, 2)), Macro((2, 2, 1, 1))], np.arange(8), share=1.0)
    random = randomised(found, 4, np.random.default_rng(0))
    assert [(e.action, len(e.macro.actions)) for e in random] == [(e.action, len(e.macro.actions)) for e in found]
    assert random == randomised(found, 4, np.random.default_rng(0)) != randomised(found, 4, np.random.default_rng(1))


@given(st.lists(st.floats(0, 10, width=32), min_size=40, max_size=40))
@settings(deadline=None, max_examples=20)
def test_rebuilt_tree_equals_a_written_one(values):
    tree = priorities.init(40)
    leaves = jnp.zeros_like(tree[0]).at[:40].set(jnp.asarray(values))
    written = priorities.write(tree, jnp.arange(40), jnp.asarray(values))
    for one, other in zip(priorities.rebuild(tree, leaves), written, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_forgotten_actions_are_never_drawn():
    state = replay.init(8, 3, (2,), np.dtype(np.float32))
    write_windows = jax.jit(lambda state, tick, windows: replay.write_windows(state, tick, windows, 1))
    for tick in range(1, 6):
        rows = jnp.full((3, 1), tick - 1)
        window = Windows(jnp.ones((3, 1), bool), rows, (rows + jnp.arange(3)[:, None]) % 4, rows * 1.0, rows * 0.0)
        state = write_windows(state, jnp.asarray(tick), window)
    forgotten = replay.forget_actions(state, jnp.array([False, True, False, False]))
    sample = jax.jit(lambda state: replay.sample(state, jax.random.PRNGKey(0), 256, (2,), 1, 0.0))
    drawn = sample(forgotten).transition.a_tm1
    assert set(drawn.tolist()) == {0, 2, 3}
    kept = np.asarray(state.action).reshape(-1) != 1
    before, after = np.asarray(state.tree[0])[:24], np.asarray(forgotten.tree[0])[:24]
    np.testing.assert_array_equal(after, np.where(kept, before, 0))


@pytest.fixture(scope="module", params=["plain", "noisy"])
def agent_and_state(request):
    """An agent that has just begun, with everything that a round touches set to something."""
    from masp.config import TrainConfig

    changes = {"hidden": 8, "replay_steps": 200, "num_envs": 3, "batch_size": 4, "mine_every_frames": 100}
    changes |= {"held_out": "next", "embedding": 4, "num_atoms": 5, "v_min": -1.0, "v_max": 2.0, "n_step": 2}
    config = replace(TrainConfig(env="planted-grid"), noisy=request.param == "noisy", **changes)
    agent = Agent(config, PlantedGrid(size=4, copies=1, max_steps=6).info, ACTIONS)
    keys, start = agent.start(agent.config)
    state = jax.jit(agent.init)(keys, jnp.ones((3, 16)), start)
    learner = state.learner
    rng = np.random.default_rng(1)

    def filled(record):
        def leaf(value):
            return jnp.asarray(rng.random(value.shape, np.float32)) if value.dtype == jnp.float32 else value

        return jax.tree.map(leaf, record)

    learner = learner._replace(
        params=filled(learner.params),
        target_params=filled(learner.target_params),
        opt_state=filled(learner.opt_state),
        similarity_opt_state=filled(learner.similarity_opt_state),
        similarity=filled(learner.similarity),
        recent=filled(learner.recent),
    )
    macro = state.actor.macro._replace(
        action=jnp.array([5, 5, 6]), position=jnp.array([2, 0, 1]), reward=jnp.ones(3), discount=jnp.full(3, 0.9)
    )
    windows = state.actor.windows._replace(open=jnp.ones((3, 2), bool), action=jnp.array([[0, 5], [0, 5], [4, 6]]))
    actor = state.actor._replace(macro=macro, windows=windows, usage=jnp.arange(8) + 10)
    return agent, state._replace(learner=learner, actor=actor)


@pytest.fixture(scope="module")
def replaced(agent_and_state):
    """Action 5 becomes 2-2-1."""
    agent, state = agent_and_state
    actions = ActionSet(4, [(0, 0), (2, 2, 1), (2, 1, 0, 3), (3,)])
    first = jnp.asarray([s[0] for s in actions.sequences()], jnp.int32)
    start = jnp.full((8, 8), 0.03)
    which = jnp.arange(8) == 5
    change = Replacement(which, agent.tables(actions), first, start)
    return agent, state, jax.jit(replace_macros)(state, change)


def test_new_macro_is_worth_its_first_primitive(replaced):
    agent, before, after = replaced
    observation = jax.random.normal(jax.random.PRNGKey(5), (4, 16))

    def values(state, params):
        return np.asarray(agent.learner.values(params, observation, state.learner.similarity, None))

    for name in ("params", "target_params"):
        new = values(after, getattr(after.learner, name))
        np.testing.assert_array_equal(new[:, 5], new[:, 2])
        assert not np.allclose(new[:, 5], new[:, 3])
    head = agent.learner.network.apply
    old_logits, new_logits = (
        np.asarray(head({"params": state.learner.params}, observation, before.learner.similarity))
        for state in (before, after)
    )
    # What the others say about each other is as it was: dueling heads shift all actions alike.
    others = np.array([0, 1, 2, 3, 4, 6, 7])
    np.testing.assert_allclose(
        np.diff(old_logits[:, others], axis=1), np.diff(new_logits[:, others], axis=1), atol=1e-4
    )


def test_moments_of_the_head_are_cleared_and_nothing_else(replaced):
    _, before, after = replaced
    atoms, hidden = 5, 8
    sizes = {"bias": atoms, "bias_sigma": atoms, "kernel": atoms * hidden, "kernel_sigma": atoms * hidden}
    pairs = [(before.learner.recent.gradient, after.learner.recent.gradient)]
    for moment in ("mu", "nu"):
        pairs.append(tuple(getattr(state.learner.opt_state[1], moment) for state in (before, after)))
        pairs.append(tuple(getattr(state.learner.recent.opt_state[1], moment) for state in (before, after)))
    for one, other in pairs:
        for (path, old), new in zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
            layer, name = path[0].key, path[-1].key
            different = np.asarray(old) != np.asarray(new)
            assert different.sum() == (sizes[name] if layer == "advantage_out" else 0), (layer, name)
            assert not np.asarray(new)[different].any()


def test_similarity_of_those_that_stay_is_kept(replaced):
    _, before, after = replaced
    stay = np.array([0, 1, 2, 3, 4, 6, 7])
    for old, new in (
        (before.learner.similarity, after.learner.similarity),
        (before.learner.recent.similarity[0], after.learner.recent.similarity[0]),
        (before.learner.similarity_opt_state.mu, after.learner.similarity_opt_state.mu),
    ):
        old, new = np.asarray(old), np.asarray(new)
        np.testing.assert_array_equal(old[np.ix_(stay, stay)], new[np.ix_(stay, stay)])
        np.testing.assert_array_equal(new[5], new[:, 5])
    np.testing.assert_allclose(after.learner.similarity[5], np.full(8, 0.03), rtol=1e-6)
    assert np.all(np.asarray(after.learner.similarity_opt_state.nu)[5] == 0)


def test_macro_under_way_is_cut_and_its_windows_dropped(replaced):
    _, before, after = replaced
    macro = after.actor.macro
    # Environment 0 is in the middle of the old macro, 1 is done with it, 2 plays another one.
    assert macro.position.tolist() == [0, 0, 1]
    assert macro.reward.tolist() == [0, 1, 1]
    np.testing.assert_allclose(macro.discount, [1, 0.9, 0.9])
    assert after.actor.windows.open.tolist() == [[False, False], [True, False], [True, True]]
    assert after.discovery.usage_at_round.tolist() == list(range(10, 18))
    assert after.discovery.usage_at_birth.tolist() == [0, 0, 0, 0, 0, 15, 0, 0]
    assert after.macros.table[5, :3].tolist() == [2, 2, 1] and after.macros.lengths.tolist()[4:] == [2, 3, 4, 1]
    assert after.macros.table.shape == before.macros.table.shape == (8, 8)


def test_no_exchange_changes_nothing(replaced):
    agent, before, _ = replaced
    nothing = Replacement(
        jnp.zeros(8, bool),
        agent.tables(),
        jnp.arange(8, dtype=jnp.int32) % 4,
        jnp.zeros_like(before.learner.similarity),
    )
    same = jax.jit(replace_macros)(before, nothing)
    jax.tree.map(np.testing.assert_array_equal, before.learner, same.learner)
    jax.tree.map(np.testing.assert_array_equal, before.memory, same.memory)


def test_factors_are_replaced_by_rows(agent_and_state):
    from masp.training.adaptive import _restarted

    factors = jnp.arange(24.0).reshape(8, 3)
    change = Replacement(jnp.arange(8) == 5, None, None, jnp.full((8, 3), 0.1))
    new = np.asarray(_restarted(factors, change))
    np.testing.assert_allclose(new[5], 0.1)
    np.testing.assert_array_equal(np.delete(new, 5, 0), np.delete(np.asarray(factors), 5, 0))


def test_without_macros_there_is_nothing_to_replace(agent_and_state):
    agent, _ = agent_and_state
    with pytest.raises(UserError, match="played without any"):
        require_macros(Agent(agent.config, agent.info, ACTIONS.without_macros()))
    with pytest.raises(UserError, match="300 primitives; at most 255"):
        require_macros(Agent(agent.config, agent.info, ActionSet(300, [(1, 2)])))
