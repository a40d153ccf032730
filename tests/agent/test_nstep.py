"""n-step returns over decisions against Python lists."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_play as naive
from masp.agent import nstep
from masp.macros.execution import Decision

TICKS, ENVS = 24, 2


def over_time(n):
    """Compiled: open and extend windows over decisions [T, N]; what closed in each tick."""

    @jax.jit
    def run(due, decision):
        def tick(state, now):
            number, due, decision = now
            state = nstep.begin(state, due, decision.action, number)
            return nstep.extend(state, decision)

        return jax.lax.scan(tick, nstep.init(ENVS, n), (jnp.arange(TICKS), due, decision))[1]

    return run


RUN = {n: over_time(n) for n in (1, 3)}


@st.composite
def histories(draw):
    """Per environment, decisions of random length one after the other, with gaps (resets) after some ends."""
    environments = []
    for _ in range(ENVS):
        decisions, now = [], draw(st.integers(0, 2))
        while True:
            steps = draw(st.integers(1, 4))
            if now + steps > TICKS:
                break
            end = draw(st.sampled_from(["on"] * 6 + ["terminated", "truncated", "life lost"]))
            discount = naive.GAMMA**steps if end in ("on", "truncated") else 0.0
            reward = draw(st.floats(-4, 4, width=16))
            action = draw(st.integers(0, 5))
            decisions.append(naive.Played(now, now + steps - 1, action, reward, discount, steps, end != "on"))
            now += steps + (end in ("terminated", "truncated"))
        environments.append(decisions)
    return environments


def as_arrays(environments):
    """The arrays [T, N] that the macro machine would give; entries that mean nothing are filled with rubbish."""
    shape = (TICKS, ENVS)
    due, done, last = np.zeros(shape, bool), np.zeros(shape, bool), np.ones(shape, bool)
    action, steps = np.full(shape, 9, np.int32), np.full(shape, 99, np.int32)
    reward, discount = np.full(shape, 1e6, np.float32), np.full(shape, 1e6, np.float32)
    for env, decisions in enumerate(environments):
        for d in decisions:
            due[d.first_tick, env] = True
            action[d.first_tick : d.last_tick + 1, env] = d.action
            at = (d.last_tick, env)
            done[at], last[at], steps[at], reward[at], discount[at] = True, d.last, d.steps, d.reward, d.discount
    return due, Decision(done, action, reward, discount, steps, last)


@pytest.mark.parametrize("n", [1, 3])
@settings(max_examples=150)
@given(environments=histories())
def test_agrees_with_lists(n, environments):
    closed = jax.tree.map(np.asarray, RUN[n](*as_arrays(environments)))
    for env, decisions in enumerate(environments):
        found = {}
        for now, slot in zip(*np.nonzero(closed.closed[:, env]), strict=True):
            at = (now, env, slot)
            entry = (closed.action[at], closed.reward[at], closed.discount[at])
            assert found.setdefault((closed.start[at], now), entry) is entry, "a window closed twice"
        expected = {(w.first_tick, w.last_tick): w for w in naive.windows(decisions, n)}
        assert found.keys() == expected.keys()
        for key, (action, reward, discount) in found.items():
            assert action == expected[key].action
            assert reward == pytest.approx(expected[key].reward, rel=1e-5, abs=1e-5)
            assert discount == pytest.approx(expected[key].discount, rel=1e-5)


@settings(max_examples=150)
@given(histories())
def test_no_window_crosses_the_end_of_a_return(environments):
    closed = jax.tree.map(np.asarray, RUN[3](*as_arrays(environments)))
    for now, env, slot in zip(*np.nonzero(closed.closed), strict=True):
        start = closed.start[now, env, slot]
        inside = [d for d in environments[env] if start <= d.first_tick and d.last_tick <= now]
        assert 1 <= len(inside) <= 3
        assert not any(d.last for d in inside[:-1])
        assert len(inside) == 3 or inside[-1].last


def test_three_steps_by_hand():
    """Lengths 1, 2, 1 with gamma 1/2 and rewards 8, 4, 16: 8 + 4/2 + 16/8, then bootstrap with 1/16."""
    state = nstep.init(1, 3)
    yes, no = jnp.array([True]), jnp.array([False])
    for number, (reward, discount) in enumerate(((8.0, 0.5), (4.0, 0.25), (16.0, 0.5))):
        state = nstep.begin(state, yes, jnp.array([number + 5]), jnp.array(number))
        decision = Decision(yes, jnp.array([0]), jnp.array([reward]), jnp.array([discount]), jnp.array([1]), no)
        state, windows = nstep.extend(state, decision)
    assert windows.closed.sum() == 1
    (slot,) = np.flatnonzero(windows.closed[0])
    assert windows.start[0, slot] == 0 and windows.action[0, slot] == 5
    assert windows.reward[0, slot] == 12.0 and windows.discount[0, slot] == 1 / 16
