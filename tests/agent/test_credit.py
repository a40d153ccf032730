"""Credit inside macros against the play retold with Python lists, over several turns of the ring."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_replay as ring
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import naive_play as naive
from masp.agent import credit, replay
from masp.agent.acting import Actor
from masp.environments.base import Step

STACK, LONGEST, COUNT = 2, 5, 7
EVERY_ROW = jnp.arange(ring.RING * ring.ENVS)


def tables_of(sequences):
    table = [tuple(s) + tuple(s[-1:]) * (LONGEST - len(s)) for s in sequences]
    return jnp.array(table, jnp.int32), jnp.array([len(s) for s in sequences], jnp.int32)


write = jax.jit(credit.write)


@jax.jit
def told_everywhere(steps, tick, table, lengths):
    """All rows of the ring at once."""
    rows, envs = EVERY_ROW // ring.ENVS, EVERY_ROW % ring.ENVS
    return credit.continuations(steps, tick, rows, envs, table, lengths, naive.GAMMA)


def assert_as_retold(steps, newest, script, primitives, sequences):
    """Every row of the ring in which something was played says what the reference says."""
    told = jax.tree.map(np.asarray, told_everywhere(steps, newest, *tables_of(sequences)))
    for env in range(ring.ENVS):
        ticks, played = naive.unzip(script, env)[:newest], primitives[env][:newest]
        for row in range(max(newest - ring.RING + 1, 0), newest):
            if played[row] is None:
                continue
            expected = naive.consistent(ticks, played, row, sequences)
            at = row % ring.RING * ring.ENVS + env
            assert set(np.flatnonzero(told.consistent[at])) == expected.keys()
            assert played[row] in expected  # the primitive itself is known at once
            for action, (reward, discount, count) in expected.items():
                assert told.steps[at, action] == count
                assert told.reward[at, action] == pytest.approx(reward, rel=1e-5, abs=1e-5)
                assert told.discount[at, action] == pytest.approx(discount, rel=1e-5)


macros = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=LONGEST), min_size=COUNT - 3, max_size=COUNT - 3)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), others=macros)
def test_consistent_actions_of_every_row(seed, others):
    """The macros that judge need not be those that were played: they may have come later."""
    script = ring.make_script(seed)
    primitives = [naive.play(naive.unzip(script, env))[1] for env in range(ring.ENVS)]
    steps = credit.init(ring.RING, ring.ENVS)
    sequences = [[0], [1], [2], *others]
    for now in range(ring.TICKS):
        played = np.array([99 if primitives[env][now] is None else primitives[env][now] for env in range(ring.ENVS)])
        steps = write(steps, now, played, script.reward[now], ring.step_of(script, now))
        if now % 13 == 5 or now < 3:
            assert_as_retold(steps, now + 1, script, primitives, sequences)


def test_by_hand():
    """Play 1, 1, 0 with rewards 1, 2, 4, where the third step ends the episode; macros 1-1, 1-1-1, 1-1-0-2 and 1-0."""
    table, lengths = tables_of([[0], [1], [2], [1, 1], [1, 1, 1], [1, 1, 0, 2], [1, 0]])
    never, always = np.zeros(ring.ENVS, bool), np.ones(ring.ENVS, bool)
    g = naive.GAMMA
    for ends, value in ((credit.TERMINATED, 0.0), (credit.TRUNCATED, 1.0)):
        steps = credit.init(ring.RING, ring.ENVS)
        for now, (primitive, reward) in enumerate([(1, 1.0), (1, 2.0), (0, 4.0)]):
            terminated, truncated = (
                always if now == 2 and ends == kind else never for kind in (credit.TERMINATED, credit.TRUNCATED)
            )
            step = Step(None, None, terminated, truncated, never)
            steps = write(steps, now, np.full(ring.ENVS, primitive), np.full(ring.ENVS, reward), step)
        told = told_everywhere(steps, 3, table, lengths)
        consistent, rewards, discounts = (np.asarray(part)[:: ring.ENVS][:3] for part in told[:3])
        # 1-1-1 differs at the third step; 1-1-0-2 was stopped by the end and would have been stopped, too.
        assert np.flatnonzero(consistent[0]).tolist() == [1, 3, 5]
        np.testing.assert_allclose(rewards[0][[1, 3, 5]], [1, 1 + 2 * g, 1 + 2 * g + 4 * g * g], rtol=1e-6)
        np.testing.assert_allclose(discounts[0][[1, 3, 5]], [g, g**2, value * g**3], rtol=1e-6)
        assert np.flatnonzero(consistent[1]).tolist() == [1, 6]
        assert np.flatnonzero(consistent[2]).tolist() == [0]
        np.testing.assert_allclose(discounts[2][0], value * g, rtol=1e-6)
        # Before the third step was played, nobody can say whether 1-1-0-2 fits.
        early = told_everywhere(steps, 2, table, lengths)
        assert np.flatnonzero(early.consistent[0]).tolist() == [1, 3]


@pytest.fixture(scope="module")
def played():
    """A full ring, filled by the actor: the script, the memory, the newest row."""
    actor = Actor(ring.TABLE, ring.LENGTHS, naive.GAMMA, ring.N_STEP, STACK, clip_rewards=True, choosable=(True,) * 4)

    @jax.jit
    def tick(state, memory, now, choice, step):
        values = jax.nn.one_hot(choice, len(naive.SEQUENCES))
        state, primitives = actor.decide(state, values, 0.0, now, jax.random.PRNGKey(0))
        steps = credit.write(memory.steps, now, primitives, actor.learned_reward(step), step)
        state, closed, _ = actor.advance(state, step)
        return state, actor.remember(memory._replace(steps=steps), state, closed, now)

    script = ring.make_script(seed=3)
    state, memory = ring.begin(actor)
    memory = memory._replace(steps=credit.init(ring.RING, ring.ENVS))
    newest = 83  # three turns and a bit
    for now in range(newest):
        state, memory = tick(state, memory, now, script.choice[now], ring.step_of(script, now))
    return script._replace(reward=np.clip(script.reward, -1, 1)), memory, newest


@partial(jax.jit, static_argnums=2)
def draw(memory, tick, count):
    windows = replay.sample(memory, jax.random.PRNGKey(1), count, ring.SHAPE, STACK, 0.0)
    windows = windows._replace(weight=jnp.arange(count, dtype=jnp.float32))
    key = jax.random.PRNGKey(2)
    return windows, credit.draw(memory, windows, key, tick, ring.TABLE, ring.LENGTHS, naive.GAMMA, ring.SHAPE, STACK)


def test_drawn_transitions_are_real_and_every_row_and_action_comes_up(played):
    script, memory, newest = played
    count = 20_000
    windows, batch = jax.tree.map(np.asarray, draw(memory, newest, count))
    np.testing.assert_array_equal(windows.leaf, batch.leaf)
    assert batch.num_windows == count
    # The windows come first, unchanged; each row behind them has the weight of its window.
    first, inside = (
        jax.tree.map(lambda column: column[part], batch.transition) for part in (slice(count), slice(count, None))
    )
    jax.tree.map(np.testing.assert_array_equal, windows.transition, first)
    np.testing.assert_array_equal(batch.weight, np.concatenate([windows.weight, windows.weight]))
    expected, shares = {}, {}
    for env in range(ring.ENVS):
        ticks = naive.unzip(script, env)[:newest]
        decisions, primitives = naive.play(ticks)
        starts = ring.first_rows(script, env)
        known = [w for w in naive.windows(decisions, ring.N_STEP) if w.first_tick - STACK + 1 >= newest - ring.RING + 1]
        for window in known:
            rows = range(window.first_tick, window.last_tick + 1)
            for row in rows:
                found = naive.consistent(ticks, primitives, row)
                for action, (reward, discount, steps) in found.items():
                    s_tm1, s_t = (ring.stacked(r, env, starts, STACK) for r in (row, row + steps))
                    expected[row, env, action] = (s_tm1, reward, discount, s_t)
                    share = 1 / len(rows) / len(found)
                    shares[row, env, action] = shares.get((row, env, action), 0.0) + share
    # The observations count rows and environments: see `ring.observations`.
    number = (inside.s_tm1[:, 0, -1] - 1) // 2
    counts = dict.fromkeys(expected, 0)
    for i, (action, at) in enumerate(zip(inside.a_tm1.tolist(), number.tolist(), strict=True)):
        key = (*divmod(at, ring.ENVS), action)
        s_tm1, reward, discount, s_t = expected[key]
        counts[key] += 1
        if counts[key] > 3:
            continue
        np.testing.assert_array_equal(inside.s_tm1[i], s_tm1)
        np.testing.assert_array_equal(inside.s_t[i], s_t)
        assert inside.r_t[i] == pytest.approx(reward, rel=1e-5, abs=1e-5)
        assert inside.discount_t[i] == pytest.approx(discount, rel=1e-5)
    assert min(counts.values()) > 0
    wanted = np.array(list(shares.values()))
    assert stats.chisquare(list(counts.values()), wanted / wanted.sum() * 20_000).pvalue > 1e-3


def test_script_shows_what_it_should(played):
    """Rows inside macros, macros cut by ends, and macros that nobody decided on must be among what is drawn."""
    script, _, newest = played
    cut = other = 0
    for env in range(ring.ENVS):
        ticks = naive.unzip(script, env)[:newest]
        decisions, primitives = naive.play(ticks)
        starts = {d.first_tick: d.action for d in decisions}
        for row in range(newest - ring.RING + STACK, newest - 5):
            if primitives[row] is None:
                continue
            found = naive.consistent(ticks, primitives, row)
            other += any(action > 1 and starts.get(row) != action for action in found)
            cut += any(steps < naive.LENGTHS[action] for action, (_, _, steps) in found.items())
    assert cut >= 3 and other >= 3
