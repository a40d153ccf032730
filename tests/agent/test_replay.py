"""Replay against a dictionary of whole transitions, filled by the actor over several turns of the ring."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import naive_play as naive
from masp import ops
from masp.agent import replay
from masp.agent.acting import Actor
from masp.agent.nstep import Windows
from masp.environments.base import Step

RING, ENVS, TICKS, N_STEP = 27, 3, 110, 2  # 27 * 3 rows: not a multiple of the tree's branching
SHAPE = (2, 1)
DRAWS = 3 * RING * ENVS  # with equal priorities one draw per third of a row: every row comes up
LENGTHS = jnp.array(naive.LENGTHS)
TABLE = jnp.array([s + s[-1:] * (5 - len(s)) for s in naive.SEQUENCES])


def make_script(seed):
    """Choices, rewards and ends [TICKS, ENVS]."""
    rng = np.random.default_rng(seed)
    luck = rng.integers(0, 24, (TICKS, ENVS))
    return naive.Tick(
        choice=rng.integers(0, 4, (TICKS, ENVS)),
        reward=rng.normal(size=(TICKS, ENVS)).astype(np.float32),
        terminated=luck == 0,
        truncated=luck == 1,
        life_lost=luck == 2,
    )


def observations(row):
    """[N, 2, 1] whole numbers that occur nowhere else, none of them 0."""
    first = 1 + 2 * (row * ENVS + np.arange(ENVS))
    return np.stack([first, first + 1], axis=1).reshape(ENVS, *SHAPE).astype(np.int32)


@cache
def functions_of(stack):
    """Compiled: one tick of acting and remembering, and a draw that hits every row."""
    actor = Actor(TABLE, LENGTHS, naive.GAMMA, N_STEP, stack, clip_rewards=False, choosable=(True,) * 4)

    @jax.jit
    def tick(state, memory, now, choice, step):
        values = jax.nn.one_hot(choice, len(naive.SEQUENCES))
        state, primitives = actor.decide(state, values, 0.0, now, jax.random.PRNGKey(0))
        state, closed, _ = actor.advance(state, step)
        return state, actor.remember(memory, state, closed, now), primitives

    @jax.jit
    def draw(memory):
        return replay.sample(memory, jax.random.PRNGKey(1), DRAWS, SHAPE, stack, 0.0)

    return actor, tick, draw


def begin(actor):
    first = jnp.asarray(observations(0))
    state = actor.init(first)
    memory = replay.init(RING, ENVS, SHAPE, jnp.int32)
    return state, replay.write_row(memory, jnp.array(0), first, state.age)


def step_of(script, now):
    return Step(observations(now + 1), *(field[now] for field in script[1:5]))


def first_rows(script, env):
    """The rows at which episodes begin: row 0 and the row that each reset brings."""
    _, primitives = naive.play(naive.unzip(script, env))
    return [0] + [now + 1 for now, primitive in enumerate(primitives) if primitive is None]


def stacked(row, env, starts, stack):
    """The newest `stack` observations, zeros before the episode."""
    begun = max(start for start in starts if start <= row)
    frames = [
        observations(r)[env] if r >= begun else np.zeros(SHAPE, np.int32) for r in range(row - stack + 1, row + 1)
    ]
    return np.concatenate(frames, axis=-1)


def expected_transitions(script, newest, stack):
    """{(row, env): transition} of all windows that are closed, and whose stack is still in the ring."""
    found = {}
    oldest = newest - RING + 1
    for env in range(ENVS):
        decisions, _ = naive.play(naive.unzip(script, env)[:newest])
        starts = first_rows(script, env)
        for w in naive.windows(decisions, N_STEP):
            if w.first_tick - stack + 1 >= oldest:
                s_tm1 = stacked(w.first_tick, env, starts, stack)
                s_t = stacked(w.last_tick + 1, env, starts, stack)
                found[w.first_tick, env] = (s_tm1, w.action, w.reward, w.discount, s_t)
    return found


@pytest.mark.parametrize("stack", [1, 4])
def test_agrees_with_a_dictionary_of_transitions(stack):
    actor, tick, draw = functions_of(stack)
    script = make_script(seed=stack)
    expected_primitives = [naive.play(naive.unzip(script, env))[1] for env in range(ENVS)]
    state, memory = begin(actor)
    for now in range(TICKS):
        state, memory, primitives = tick(state, memory, now, script.choice[now], step_of(script, now))
        for env in range(ENVS):
            want = expected_primitives[env][now]
            assert want is None or primitives[env] == want
        newest = now + 1
        expected = expected_transitions(script, newest, stack)
        leaves = {(row % RING) * ENVS + env: (row, env) for row, env in expected}
        assert set(np.flatnonzero(memory.tree[0])) == leaves.keys()
        if not expected or now % 3:
            continue
        sample = jax.tree.map(np.asarray, draw(memory))
        assert set(sample.leaf.tolist()) == leaves.keys()
        assert (sample.weight == 1).all()
        for i, leaf in enumerate(sample.leaf.tolist()):
            s_tm1, action, reward, discount, s_t = expected[leaves[leaf]]
            batch = sample.transition
            np.testing.assert_array_equal(batch.s_tm1[i], s_tm1)
            np.testing.assert_array_equal(batch.s_t[i], s_t)
            assert batch.a_tm1[i] == action
            assert batch.r_t[i] == pytest.approx(reward, rel=1e-5, abs=1e-5)
            assert batch.discount_t[i] == pytest.approx(discount, rel=1e-5)


def test_script_shows_what_it_should():
    """The comparison above means something only if resets, lost lives, truncations and cut macros occur in it."""
    for stack in (1, 4):
        script = make_script(seed=stack)
        for env in range(ENVS):
            decisions, primitives = naive.play(naive.unzip(script, env))
            assert primitives.count(None) >= 3
            assert any(d.steps < len(naive.SEQUENCES[d.action]) for d in decisions)
            assert any(d.last and d.discount for d in decisions) and any(d.last and not d.discount for d in decisions)
            assert any(len(naive.SEQUENCES[d.action]) == d.steps == 5 for d in decisions)


def test_priorities_follow_losses_and_new_rows_get_the_largest():
    actor, tick, _ = functions_of(1)
    script = make_script(seed=5)
    state, memory = begin(actor)
    rng = np.random.default_rng(0)
    expected, largest = {}, 1.0
    for now in range(70):
        state, memory, _ = tick(state, memory, now, script.choice[now], step_of(script, now))
        present = expected_transitions(script, now + 1, 1).keys()
        expected = {key: expected.get(key, largest) for key in present}
        found = {leaf: memory.tree[0][leaf].item() for leaf in np.flatnonzero(memory.tree[0]).tolist()}
        assert found == pytest.approx({row % RING * ENVS + env: p for (row, env), p in expected.items()}, rel=1e-5)
        if len(expected) >= 4 and now % 4 == 0:
            chosen = [list(expected)[i] for i in rng.choice(len(expected), 4, replace=False)]
            losses = rng.uniform(-1, 9, 4).astype(np.float32)
            leaves = jnp.array([row % RING * ENVS + env for row, env in chosen])
            memory = reprioritise(memory, leaves, losses, 0.5)
            expected |= {key: (abs(float(loss)) + 1e-6) ** 0.5 for key, loss in zip(chosen, losses, strict=True)}
            largest = max(largest, max(expected[key] for key in chosen))
    assert largest > 1.0


sample_of = jax.jit(replay.sample, static_argnums=(2, 3, 4))
reprioritise = jax.jit(replay.reprioritise, static_argnums=3)


@partial(jax.jit, static_argnums=0)
def one_row_each(num_envs):
    """A ring in which row 0 of every environment holds a window to row 1."""
    memory = replay.init(4, num_envs, (1,), jnp.float32)
    for row in range(2):
        observation = 10.0 * row + jnp.arange(num_envs)[:, None]
        memory = replay.write_row(memory, jnp.array(row), observation, jnp.full(num_envs, row))
    each = jnp.arange(num_envs)[:, None]
    windows = Windows(each >= 0, 0 * each, each, each * 1.0, jnp.full((num_envs, 1), 0.5))
    return replay.write_windows(memory, jnp.array(1), windows, 1)


def test_importance_weights_by_hand():
    """Priorities 1, 4, 16 under exponent 1/2: probabilities 1:4:16, weights (P_min / P)^1/2 = 1, 1/2, 1/4."""
    memory = reprioritise(one_row_each(3), jnp.arange(3), jnp.array([1.0, 16.0, 256.0]), 0.5)
    sample = sample_of(memory, jax.random.PRNGKey(0), 21, (1,), 1, 0.5)
    by_leaf = dict(zip(sample.leaf.tolist(), sample.weight.tolist(), strict=True))
    assert by_leaf == pytest.approx({0: 1.0, 1: 0.5, 2: 0.25}, rel=1e-5)
    plain = sample_of(memory, jax.random.PRNGKey(0), 21, (1,), 1, 0.0)
    assert (plain.weight == 1).all()
    np.testing.assert_array_equal(np.bincount(sample.leaf), [1, 4, 16])  # stratified: 21 draws hit the shares exactly
    np.testing.assert_array_equal(sample.transition.s_tm1[:, 0], sample.leaf)
    np.testing.assert_array_equal(sample.transition.s_t[:, 0], 10 + sample.leaf)


def test_long_episodes_do_not_forget_their_age():
    """The age of a row saturates; its stack stays full."""
    memory = replay.init(300, 1, (1,), jnp.int32)
    write = jax.jit(replay.write_row)
    for row in range(262):
        memory = write(memory, row, jnp.array([[row]]), jnp.array([row]))
    windows = Windows(*(jnp.array([[x]]) for x in (True, 260, 0, 1.0, 0.5)))
    memory = jax.jit(replay.write_windows, static_argnums=3)(memory, jnp.array(261), windows, 4)
    sample = sample_of(memory, jax.random.PRNGKey(0), 1, (1,), 4, 0.0)
    assert sample.transition.s_tm1.tolist() == [[257, 258, 259, 260]]
    assert sample.transition.s_t.tolist() == [[258, 259, 260, 261]]


def test_stack_becomes_channels_newest_last():
    frames = jnp.arange(12).reshape(1, 2, 3, 2)  # [B, stack, cells, C]
    joined = ops.frames_to_channels(frames)
    assert joined.shape == (1, 3, 4)
    assert joined[0, 0].tolist() == [0, 1, 6, 7]


def test_priority_exponent_zero_samples_uniformly():
    """Every priority becomes 1, whatever the loss, and so does every importance weight."""
    state = replay.init(8, 2, (3,), np.dtype(np.float32))
    leaves = jnp.arange(6)
    state = replay.reprioritise(state, leaves, jnp.array([0.0, 1e-9, 0.5, 2.0, 1e4, -3.0]), 0.0)
    np.testing.assert_array_equal(state.tree[0][:6], 1.0)
    assert state.largest == 1.0
    sample = replay.sample(state, jax.random.PRNGKey(0), 6, (3,), 1, jnp.asarray(0.4))
    np.testing.assert_array_equal(sample.weight, 1.0)
    assert sorted(sample.leaf.tolist()) == list(range(6))
