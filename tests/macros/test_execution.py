"""Batched execution of macros against a reference that plays one environment at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import naive_play as naive
from masp.macros import execution

TICKS, ENVS = 24, 3
TABLE, LENGTHS = jnp.array([s + s[-1:] * (5 - len(s)) for s in naive.SEQUENCES]), jnp.array(naive.LENGTHS)


@jax.jit
def play(script):
    """Execute a script [T, N]; returns primitives, positions, resets and decisions per tick."""

    def tick(carry, now):
        state, resetting, mask = carry
        allowed = execution.allowed_actions(mask, TABLE)
        is_allowed = jnp.take_along_axis(allowed, now.choice[:, None], axis=1)[:, 0]
        state = execution.begin(state, jnp.where(is_allowed, now.choice, jnp.argmax(allowed, axis=1)))
        primitives = execution.primitives(state, TABLE)
        lost = now.terminated | now.life_lost
        position = state.position
        forbidden = False if now.mask is None else execution.next_is_forbidden(state, now.mask, TABLE)
        ends = (lost, now.truncated, resetting)
        state, decision = execution.advance(state, now.reward, *ends, LENGTHS, naive.GAMMA, forbidden)
        ended = (now.terminated | now.truncated) & ~resetting
        mask = mask if now.mask is None else now.mask
        return (state, ended, mask), (primitives, position, resetting, decision)

    carry = (execution.init(ENVS), jnp.zeros(ENVS, bool), jnp.ones((ENVS, 3), bool))
    return jax.lax.scan(tick, carry, script)[1]


@st.composite
def scripts(draw, masked=False):
    """Choices, rewards and ends of a few environments; ends are rare enough for most macros to complete.

    Masks forbid one primitive at most.
    """
    shape = (TICKS, ENVS)
    events = draw(hnp.arrays(np.int8, shape, elements=st.integers(0, 15)))
    rewards = hnp.arrays(np.float32, shape, elements=st.floats(-4, 4, width=16))
    return naive.Tick(
        choice=draw(hnp.arrays(np.int32, shape, elements=st.integers(0, 3))),
        reward=draw(rewards),
        terminated=events <= 1,
        truncated=(events == 1) | (events == 2),  # 1: both at once
        life_lost=events == 3,
        mask=np.arange(3) != draw(hnp.arrays(np.int8, (*shape, 1), elements=st.integers(0, 8))) if masked else None,
    )


@settings(max_examples=150)
@given(scripts())
def test_agrees_with_naive_play(script):
    """Compare each decision: end, action, steps, reward, discount, and whether the return ends there."""
    assert_as_naive_play(script)


@settings(max_examples=150)
@given(scripts(masked=True))
def test_agrees_with_naive_play_under_masks(script):
    """All macros end before a forbidden primitive, and none begins with one."""
    assert_as_naive_play(script)


def assert_as_naive_play(script):
    primitives, _, _, decision = jax.tree.map(np.asarray, play(script))
    for env in range(ENVS):
        ticks = naive.unzip(script, env)
        expected, expected_primitives = naive.play(ticks)
        ends = np.flatnonzero(decision.done[:, env])
        assert ends.tolist() == [d.last_tick for d in expected]
        for now, reference in zip(ends, expected, strict=True):
            assert decision.action[now, env] == reference.action
            assert decision.steps[now, env] == reference.steps
            assert decision.last[now, env] == reference.last
            assert decision.reward[now, env] == pytest.approx(reference.reward, rel=1e-5, abs=1e-5)
            assert decision.discount[now, env] == pytest.approx(reference.discount, rel=1e-5)
        for now, primitive in enumerate(expected_primitives):
            assert primitive is None or primitives[now, env] == primitive


@settings(max_examples=150)
@given(scripts())
def test_discount_is_gamma_to_the_steps_and_no_macro_crosses_an_episode(script):
    _, position, resetting, decision = jax.tree.map(np.asarray, play(script))
    lost = script.terminated | script.life_lost
    for now, env in zip(*np.nonzero(decision.done), strict=True):
        steps = decision.steps[now, env]
        discount = 0.0 if lost[now, env] else naive.GAMMA**steps
        assert decision.discount[now, env] == pytest.approx(discount, rel=1e-5)
        before = slice(now - steps + 1, now)  # all steps of the decision but the last
        assert not (lost | script.truncated)[before, env].any()
        assert not resetting[now - steps + 1 : now + 1, env].any()
    after_end = (lost | script.truncated)[:-1] & ~resetting[:-1]
    assert (position[1:][after_end] == 0).all()
    assert (position[resetting] == 0).all()


def test_macro_by_hand():
    """1 + 0.5 * 2 + 0.25 * 4 with gamma 1/2, then gamma^3; a choice in the middle of a macro is ignored."""
    lengths, table = jnp.array([1, 3]), jnp.array([[0, 0, 0], [0, 1, 0]])
    state, no = execution.init(1), jnp.array([False])
    sequence = []
    for choice, reward in ((1, 1.0), (0, 2.0), (0, 4.0)):
        state = execution.begin(state, jnp.array([choice]))
        sequence.append(execution.primitives(state, table)[0].item())
        state, decision = execution.advance(state, jnp.array([reward]), no, no, no, lengths, 0.5)
    assert sequence == [0, 1, 0]
    assert decision.done[0] and decision.action[0] == 1 and decision.steps[0] == 3 and not decision.last[0]
    assert decision.reward[0] == 3.0 and decision.discount[0] == 0.125
    assert state.position[0] == 0
