"""Windows that open at every step, against Python lists."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import naive_play as naive
from masp.agent.acting import Actor
from masp.environments.base import Step

TICKS, ENVS = 40, 3
SEQUENCES = ((0,), (1,), (2,), (2, 0), (1, 1, 2, 0, 1))
TABLE = jnp.array([s + s[-1:] * (5 - len(s)) for s in SEQUENCES])
LENGTHS = jnp.array([len(s) for s in SEQUENCES])


def script(seed):
    """Choices, rewards and ends of a few environments; ends are rare enough for macros to finish."""
    rng = np.random.default_rng(seed)
    luck = rng.integers(16, size=(TICKS, ENVS))
    return naive.Tick(
        choice=rng.integers(len(SEQUENCES), size=(TICKS, ENVS)),
        reward=rng.normal(size=(TICKS, ENVS)).astype(np.float32),
        terminated=luck == 0,
        truncated=luck == 1,
        life_lost=luck == 2,
    )


def actor_over_time(n):
    """Compiled: an actor that plays a script; per tick what was closed."""
    actor = Actor(TABLE, LENGTHS, naive.GAMMA, n, 1, False, over="steps")

    @jax.jit
    def run(ticks):
        def tick(state, now):
            number, now = now
            wishes = jax.nn.one_hot(now.choice, len(SEQUENCES))
            state, _ = actor.decide(state, wishes, 0.0, number, jax.random.PRNGKey(0))
            step = Step(jnp.zeros((ENVS, 1)), now.reward, now.terminated, now.truncated, now.life_lost)
            state, closed, _ = actor.advance(state, step)
            return state, closed

        return jax.lax.scan(tick, actor.init(jnp.zeros((ENVS, 1))), (jnp.arange(TICKS), ticks))[1]

    return run


RUN = {n: actor_over_time(n) for n in (1, 3)}


def windows_by_hand(ticks, n):
    """{(first tick, last tick): (action, return, discount)}, one for every step that was played and has its end."""
    decisions, primitives = naive.play(ticks, SEQUENCES)
    decided = {decision.first_tick: decision.action for decision in decisions}
    under_way = max((decision.last_tick for decision in decisions), default=-1) + 1
    found = {}
    for first, primitive in enumerate(primitives):
        if primitive is None or first >= under_way:  # a reset, or a last decision that did not end
            continue
        action = decided.get(first, primitive)
        total, discount = 0.0, 1.0
        for count, tick in enumerate(ticks[first:], start=1):
            total += discount * tick.reward
            discount *= naive.GAMMA
            lost = tick.terminated or tick.life_lost
            if lost or tick.truncated or count == len(SEQUENCES[action]) + n - 1:
                found[first, first + count - 1] = (action, total, 0.0 if lost else discount)
                break
    return found


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("seed", range(30))
def test_every_step_opens_a_window(n, seed):
    ticks = script(seed)
    closed = jax.tree.map(np.asarray, RUN[n](ticks))
    for env in range(ENVS):
        expected = windows_by_hand(naive.unzip(ticks, env), n)
        found = {}
        for now, slot in zip(*np.nonzero(closed.closed[:, env]), strict=True):
            at = (now, env, slot)
            assert (closed.start[at], now) not in found, "a window closed twice"
            found[closed.start[at], now] = (closed.action[at], closed.reward[at], closed.discount[at])
        # The last decision of the script may still be under way; what it would have opened is not compared.
        assert expected.keys() <= found.keys()
        assert len(found) - len(expected) <= 5
        for window, (action, total, discount) in expected.items():
            assert found[window][0] == action
            assert found[window][1] == pytest.approx(total, rel=1e-4, abs=1e-5)
            assert found[window][2] == pytest.approx(discount, rel=1e-5)


def test_a_macro_by_hand():
    """gamma 1/2, n = 1: the macro 2, 0 brings 4 + 8/2, then 1/4; inside it the primitive 0 brings 8, then 1/2."""
    actor = Actor(TABLE, LENGTHS, 0.5, 1, 1, False, over="steps")
    state, no = actor.init(jnp.zeros((1, 1))), jnp.array([False])
    found = []
    for tick, reward in enumerate((4.0, 8.0)):
        state, _ = actor.decide(state, jax.nn.one_hot(jnp.array([3]), 5), 0.0, tick, jax.random.PRNGKey(0))
        state, closed, _ = actor.advance(state, Step(jnp.zeros((1, 1)), jnp.array([reward]), no, no, no))
        for slot in np.flatnonzero(closed.closed[0]):
            found.append(tuple(float(part[0, slot]) for part in closed[1:]))
    assert sorted(found) == [(0.0, 3.0, 8.0, 0.25), (1.0, 0.0, 8.0, 0.5)]
