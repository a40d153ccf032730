"""Action masks in decisions, in the replay and in targets, by hand and against play retold with Python lists."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_replay as ring
from scipy import stats

import naive_play as naive
import naive_update
from masp.agent import credit, replay
from masp.agent.acting import Actor
from masp.environments.base import Step
from masp.macros import execution
from masp.macros.actions import ActionSet

ACTIONS = ActionSet(3, [(1, 0, 1), (2, 2)])  # actions 3 and 4
KEY = jax.random.PRNGKey(0)


def make_actor(choosable=(True,) * 5):
    return Actor(jnp.asarray(ACTIONS.table), jnp.asarray(ACTIONS.lengths), 0.5, 1, 1, False, choosable)


def start(*masks, choosable=(True,) * 5):
    actor = make_actor(choosable)
    return actor, actor.init(jnp.zeros((len(masks), 1)), jnp.array(masks, bool))


def step(mask, reward=1.0, **ends):
    """One tick of one environment."""
    flags = [np.array([ends.get(name, False)]) for name in ("terminated", "truncated", "life_lost")]
    return Step(jnp.zeros((1, 1)), jnp.array([reward]), *flags, np.array([mask], bool))


def test_a_macro_ends_before_a_forbidden_primitive():
    """The macro 1-0-1 plays 1 and 0, with rewards 1 and 1; then 1 is forbidden: 1 + 0.5, gamma^2, no end of the return.

    The best of the actions that are allowed then, which begin with 0 or 2, is the other macro.
    """
    actor, state = start((0, 1, 0))
    values, played = jnp.array([[1.0, 2.0, 3.0, 9.0, 4.0]]), []
    for tick, mask in enumerate([(1, 0, 0), (1, 0, 1), (0, 0, 1), (1, 1, 1)]):
        state, primitives = actor.decide(state, values, 0.0, tick, KEY)
        played.append((int(state.macro.action[0]), int(primitives[0])))
        state, closed, _ = actor.advance(state, step(mask))
        if tick == 1:
            found = closed.closed, closed.action, closed.reward, closed.discount
            assert [part.item() for part in found] == [True, 3, 1.5, 0.25]
        else:
            assert closed.closed.item() == (tick == 3)
    assert played == [(3, 1), (3, 0), (4, 2), (4, 2)]


def test_the_last_step_and_resets_need_no_mask():
    """A mask that forbids all is no mistake where the episode has ended, and does not disturb the one after it."""
    actor, state = start((1, 1, 1))
    state, _ = actor.decide(state, jnp.eye(5)[3:4], 0.0, 0, KEY)
    state, closed, episodes = actor.advance(state, step((0, 0, 0), terminated=True))
    assert (closed.closed.item(), closed.discount.item(), episodes.ended.item()) == (True, 0.0, True)
    state, _ = actor.decide(state, jnp.eye(5)[3:4], 0.5, 1, KEY)
    state, closed, _ = actor.advance(state, step((0, 0, 1)))
    assert not closed.closed.item() and int(state.steps) == 1
    state, primitives = actor.decide(state, jnp.eye(5)[3:4], 0.0, 2, KEY)
    assert int(primitives[0]) == 2


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0])
def test_decisions_are_allowed_and_random_ones_uniform(epsilon):
    """Primitives 1 and 2 are allowed, hence actions 1 to 4; the best of all is action 0, of the allowed ones 2."""
    count = 4000
    actor, state = start(*[(0, 1, 1)] * count)
    values = jnp.tile(jnp.array([9.0, 1.0, 3.0, 0.0, 2.0]), (count, 1))
    state, primitives = actor.decide(state, values, epsilon, 0, jax.random.PRNGKey(4))
    assert set(np.asarray(primitives).tolist()) <= {1, 2}
    counts = np.bincount(np.asarray(state.macro.action), minlength=5)
    expected = count * (epsilon / 4 + (1 - epsilon) * np.array([0, 1, 0, 0]))
    assert counts[0] == 0
    if epsilon:
        assert stats.chisquare(counts[1:], expected).pvalue > 1e-3
    else:
        assert counts.tolist() == [0, 0, count, 0, 0]


def test_a_mask_that_allows_all_changes_nothing():
    rng = np.random.default_rng(0)
    values, actor = jnp.asarray(rng.normal(size=(500, 5))), make_actor((True,) * 3 + (False,) * 2)
    without = actor.init(jnp.zeros((500, 1)))
    allowed = actor.init(jnp.zeros((500, 1)), jnp.ones((500, 3), bool))
    for tick in range(20):
        one, other = (actor.decide(state, values, 0.5, tick, jax.random.PRNGKey(tick)) for state in (without, allowed))
        np.testing.assert_array_equal(one[0].macro.action, other[0].macro.action)


def test_where_macros_are_for_exploring_both_masks_hold():
    """Greedy decisions choose among allowed primitives; a random one may be the allowed macro, of two steps.

    Of the allowed actions, 2 and 4, a random one takes 1.5 steps on average: a third of the *steps* is random.
    """
    count = 3000
    actor, state = start(*[(0, 0, 1)] * count, choosable=(True, True, True, False, False))
    values = jnp.tile(jnp.array([9.0, 8.0, 1.0, 7.0, 6.0]), (count, 1))
    state, _ = actor.decide(state, values, 1 / 3, 0, jax.random.PRNGKey(2))
    counts = np.bincount(np.asarray(state.macro.action), minlength=5)
    per_decision = (1 / 3) / (1 / 3 + 1.5 * 2 / 3)
    assert counts[2] + counts[4] == count
    assert stats.binomtest(int(counts[4]), count, per_decision / 2).pvalue > 1e-3
    _, still = start((0, 1, 1), choosable=(True, True, True, False, False))
    assert actor.masked(still, values[:1]).tolist() == [[-np.inf, 8.0, 1.0, -np.inf, -np.inf]]


def masked_script(seed):
    """A script with masks that forbid one primitive of three after half of the ticks."""
    rng = np.random.default_rng(seed + 100)
    forbidden = rng.integers(0, 6, (ring.TICKS, ring.ENVS, 1))
    return ring.make_script(seed)._replace(mask=np.arange(3) != forbidden)


@cache
def played(seed):
    """The script, and for every env what the reference says was played; the memory after each third tick."""
    actor = Actor(ring.TABLE, ring.LENGTHS, naive.GAMMA, ring.N_STEP, 1, clip_rewards=False, choosable=(True,) * 4)

    @jax.jit
    def tick(state, memory, now, choice, step):
        values = jax.nn.one_hot(choice, len(naive.SEQUENCES))
        state, primitives = actor.decide(state, values, 0.0, now, KEY)
        steps = credit.write(memory.steps, now, primitives, step.reward, step)
        state, closed, _ = actor.advance(state, step)
        return state, actor.remember(memory._replace(steps=steps), state, closed, now), primitives

    script, first = masked_script(seed), jnp.ones((ring.ENVS, 3), bool)
    retold = [naive.play(naive.unzip(script, env), mask=(True,) * 3) for env in range(ring.ENVS)]
    state = actor.init(jnp.asarray(ring.observations(0)), first)
    memory = replay.init(ring.RING, ring.ENVS, ring.SHAPE, jnp.int32, credit.init(ring.RING, ring.ENVS), 3)
    memory = replay.write_row(memory, jnp.array(0), jnp.asarray(ring.observations(0)), state.age, first)
    memories = {}
    for now in range(ring.TICKS):
        observation, *rest = ring.step_of(script, now)[:5]
        step = Step(observation, *rest, script.mask[now])
        state, memory, primitives = tick(state, memory, now, script.choice[now], step)
        for env, (_, expected) in enumerate(retold):
            assert expected[now] is None or primitives[env] == expected[now]
        if now % 3 == 2:
            memories[now + 1] = memory
    return script, retold, memories


def mask_of_row(script, row, env):
    return np.ones(3, bool) if row == 0 else script.mask[row - 1, env]


@pytest.mark.parametrize("seed", [1, 2])
def test_windows_and_masks_agree_with_a_dictionary(seed):
    script, retold, memories = played(seed)
    cut = 0
    for newest, memory in memories.items():
        expected = {}
        for env, (_, _) in enumerate(retold):
            decisions, _ = naive.play(naive.unzip(script, env)[:newest], mask=(True,) * 3)
            cut += sum(not d.last and d.steps < naive.LENGTHS[d.action] for d in decisions)
            for window in naive.windows(decisions, ring.N_STEP):
                if window.first_tick >= newest - ring.RING + 1:
                    expected[window.first_tick % ring.RING * ring.ENVS + env] = (window, env)
        assert set(np.flatnonzero(memory.tree[0])) == expected.keys()
        leaves = np.array(sorted(expected))
        masks = np.asarray(replay.masks_after(memory, jnp.asarray(leaves)))
        for leaf, mask in zip(leaves.tolist(), masks, strict=True):
            window, env = expected[leaf]
            row = leaf // ring.ENVS
            assert memory.action[row, env] == window.action
            assert memory.reward[row, env] == pytest.approx(window.reward, rel=1e-5, abs=1e-5)
            assert memory.discount[row, env] == pytest.approx(window.discount, rel=1e-5)
            np.testing.assert_array_equal(mask, mask_of_row(script, window.last_tick + 1, env))
    assert cut > 20  # otherwise this would prove little


SEQUENCES = ([0], [1], [2], [1, 0], [1, 1, 2, 0], [0, 2, 2], [2, 1, 0, 1, 2])
JUDGES = tuple(
    jnp.array(part) for part in ([[*s, *s[-1:] * (5 - len(s))] for s in SEQUENCES], [len(s) for s in SEQUENCES])
)


@pytest.mark.parametrize("seed", [1, 2])
def test_consistent_actions_stop_where_masks_stop_them(seed):
    script, retold, memories = played(seed)
    everywhere = jnp.arange(ring.RING * ring.ENVS)
    where = everywhere // ring.ENVS, everywhere % ring.ENVS
    tell = jax.jit(
        lambda memory, newest: credit.continuations(memory.steps, newest, *where, *JUDGES, naive.GAMMA, memory.masks)
    )
    stopped = 0
    for newest, memory in list(memories.items())[::4]:
        told = jax.tree.map(np.asarray, tell(memory, newest))
        for env, (_, primitives) in enumerate(retold):
            ticks = naive.unzip(script, env)[:newest]
            for row in range(max(newest - ring.RING + 1, 0), newest):
                if primitives[row] is None:
                    continue
                expected = naive.consistent(ticks, primitives[:newest], row, SEQUENCES)
                at = row % ring.RING * ring.ENVS + env
                assert set(np.flatnonzero(told.consistent[at])) == expected.keys()
                for action, (reward, discount, count) in expected.items():
                    assert told.steps[at, action] == count
                    assert told.reward[at, action] == pytest.approx(reward, rel=1e-5, abs=1e-5)
                    assert told.discount[at, action] == pytest.approx(discount, rel=1e-5)
                    over = any(t.terminated or t.truncated or t.life_lost for t in ticks[row : row + count])
                    stopped += count < len(SEQUENCES[action]) and not over
    assert stopped > 20


def test_transitions_from_inside_macros_have_the_mask_of_their_own_end():
    script, _, memories = played(1)
    memory = memories[99]
    windows = replay.sample(memory, jax.random.PRNGKey(1), 600, ring.SHAPE, 1, 0.0)
    masks = execution.allowed_actions(replay.masks_after(memory, windows.leaf), ring.TABLE)
    windows = windows._replace(transition=windows.transition._replace(allowed_t=masks))
    batch = credit.draw(memory, windows, KEY, 99, ring.TABLE, ring.LENGTHS, naive.GAMMA, ring.SHAPE, 1)
    numbers = (np.asarray(batch.transition.s_t)[:, 0, -1] - 1) // 2  # see `ring.observations`
    first_primitives = [sequence[0] for sequence in naive.SEQUENCES]
    for number, allowed in zip(numbers.tolist(), np.asarray(batch.transition.allowed_t), strict=True):
        np.testing.assert_array_equal(allowed, mask_of_row(script, *divmod(number, ring.ENVS))[first_primitives])
    assert len(numbers) == 1200 and not np.asarray(batch.transition.allowed_t).all()


@pytest.mark.parametrize("double", [False, True])
def test_targets_choose_among_allowed_actions(double):
    """By hand: of each state only some actions are allowed, and of those only the choosable ones may be the next."""
    settings = {"dueling": False, "noisy": False, "double": double, "atoms": 1, "embedding": 0, "penalty_weight": 0.0}
    learner = naive_update.make_learner(**settings, choosable=(True, True, True, False))
    rng = np.random.default_rng(5)
    state = naive_update.make_state(learner, rng, dtype=np.float32)
    batch = naive_update.make_batch(rng, np.float32)
    allowed = np.array([[1, 0, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0]], bool)
    transition = batch.transition._replace(allowed_t=jnp.asarray(allowed))
    context = naive_update.matrix_of(state)
    online, target = (
        np.asarray(naive_update.forward(params, transition.s_t, context)[..., 0])
        for params in (state.params, state.target_params)
    )
    best = [
        max((a for a in range(3) if allowed[row, a]), key=lambda a: (online if double else target)[row, a])
        for row in range(4)
    ]
    expected = transition.r_t + transition.discount_t * target[np.arange(4), best]
    targets = learner.td_targets(state, batch._replace(transition=transition), [None, None])
    np.testing.assert_allclose(targets[:, 0], expected, rtol=1e-6)
    assert not np.allclose(targets, learner.td_targets(state, batch, [None, None]))
