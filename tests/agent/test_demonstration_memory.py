"""Demonstrated transitions and the margin loss, against hand-computed values and a naive enumeration."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.agent import demonstrations, losses
from masp.agent.replay import Batch, Transition
from masp.macros.actions import ActionSet
from masp.macros.recording import Seen

GAMMA = 0.5
ACTIONS = ActionSet(3, [(0, 1), (1, 2, 2), (2, 2)])
TABLE, LENGTHS = jnp.asarray(ACTIONS.table), jnp.asarray(ACTIONS.lengths)


def episode(actions, rewards, terminated, lost=(), first=0):
    """Observations count up from `first`."""
    length = len(actions)
    observations = np.arange(first, first + length + 1, dtype=np.uint8)[:, None]
    life_lost = np.isin(np.arange(length), lost)
    return list(actions), Seen(observations, np.array(rewards, np.float32), life_lost, terminated)


EPISODES = [
    episode([0, 1, 2, 2], [1.0, 2.0, 4.0, 8.0], True, first=0),
    episode([0, 1, 2], [0.0, 3.0, 1.0], False, first=100),
    episode([2, 2, 0], [1.0, 1.0, 1.0], True, lost=[1], first=200),
]


def naive(actions, seen, start, action, n_step):
    """(return, discount, last observation) of `action` and n - 1 more steps, or None if it was not demonstrated."""
    sequence, played, total = ACTIONS.sequence(action), 0, 0.0
    for offset in range(len(sequence) + n_step - 1):
        at = start + offset
        if offset < len(sequence) and sequence[offset] != actions[at]:
            return None
        total += GAMMA**offset * seen.rewards[at]
        played += 1
        if at == len(actions) - 1 or seen.life_lost[at]:
            over = seen.terminated or seen.life_lost[at]
            return total, 0.0 if over else GAMMA**played, int(seen.observations[at + 1, 0])
    return total, GAMMA**played, int(seen.observations[start + played, 0])


@pytest.mark.parametrize("n_step", [1, 2, 5])
def test_draws_exactly_what_was_demonstrated(n_step):
    memory = demonstrations.init(EPISODES, clip_rewards=False)
    batch = demonstrations.draw(memory, jax.random.PRNGKey(0), 600, TABLE, LENGTHS, GAMMA, n_step, (1,), 1)
    expected = {
        (int(seen.observations[start, 0]), action): result
        for actions, seen in EPISODES
        for start in range(len(actions))
        for action in range(len(ACTIONS))
        if (result := naive(actions, seen, start, action, n_step)) is not None
    }
    seen_pairs = set()
    t = batch.transition
    for i in range(600):
        pair = int(t.s_tm1[i, 0]), int(t.a_tm1[i])
        seen_pairs.add(pair)
        assert (float(t.r_t[i]), float(t.discount_t[i]), int(t.s_t[i, 0])) == pytest.approx(expected[pair])
        consistent = {a for s, a in expected if s == pair[0]}
        assert set(np.flatnonzero(batch.demonstrated[i])) == consistent
    assert seen_pairs == set(expected)


def test_rewards_are_clipped_where_learning_clips_them():
    memory = demonstrations.init(EPISODES, clip_rewards=True)
    assert float(memory.steps.reward.max()) == 1.0


def test_frames_before_an_episode_are_zero():
    memory = demonstrations.init(EPISODES, clip_rewards=False)
    batch = demonstrations.draw(memory, jax.random.PRNGKey(1), 200, TABLE, LENGTHS, GAMMA, 1, (1,), 2)
    stacks = {tuple(map(int, row)) for row in batch.transition.s_tm1}
    assert {(0, 0), (0, 100), (0, 200), (0, 1), (100, 101)} <= stacks
    assert (104, 200) not in stacks


def test_margin_loss_by_hand():
    q = jnp.array([1.0, 2.0, 0.5, 3.0])
    everything = jnp.ones(4, bool)

    def loss(action, demonstrated, choosable=everything, margin=0.25):
        return float(losses.margin_loss(q, action, jnp.isin(jnp.arange(4), jnp.array(demonstrated)), choosable, margin))

    assert loss(1, [1]) == 3.0 + 0.25 - 2.0
    assert loss(1, [1, 3]) == 0.0  # 1.25 - 2 < 0: action 3 plays the same, so it is no rival
    assert loss(0, [0, 3]) == 2.0 + 0.25 - 1.0
    assert loss(1, [1], choosable=jnp.array([True, True, True, False])) == 0.0
    assert loss(0, [0, 1, 2, 3]) == 0.0  # nothing else could be chosen


def test_margin_loss_pulls_only_the_action_and_its_best_rival():
    demonstrated, everything = jnp.array([True, False, False]), jnp.ones(3, bool)
    gradient = jax.grad(losses.margin_loss)(jnp.array([0.0, 1.0, 0.5]), 0, demonstrated, everything, 0.1)
    assert gradient.tolist() == [-1.0, 1.0, 0.0]
    none = jax.grad(losses.margin_loss)(jnp.array([0.0, 1.0, 0.5]), 0, everything, everything, 0.1)
    assert none.tolist() == [0.0, 0.0, 0.0]


def test_mixed_batches_keep_the_windows_in_front():
    def batch(size, leaf, demonstrated=()):
        column = jnp.full(size, float(len(leaf)))
        return Batch(Transition(*[column] * 5), column, jnp.array(leaf, jnp.int32), demonstrated)

    both = demonstrations.mixed(batch(3, [4, 5, 6]), batch(2, [], jnp.ones((2, 6), bool)))
    assert both.leaf.tolist() == [4, 5, 6] and both.num_windows == 5
    assert both.weight.tolist() == [3, 3, 3, 0, 0]
