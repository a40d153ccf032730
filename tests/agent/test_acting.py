"""Decisions and what a tick brings, for a batch of environments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from masp.agent.acting import Actor
from masp.environments.base import Step
from masp.macros.actions import ActionSet

ACTIONS = ActionSet(2, [(1, 0, 1)])  # action 2 is a macro of three steps
NEVER = np.zeros(2, bool)
PRIMITIVES = (True, True, False)
KEY = jax.random.PRNGKey(0)


def make_actor(stack=1, clip_rewards=False, n_step=1, choosable=(True, True, True)):
    table, lengths = jnp.asarray(ACTIONS.table), jnp.asarray(ACTIONS.lengths)
    return Actor(table, lengths, 0.5, n_step, stack, clip_rewards, choosable)


def compiled(actor):
    """Both halves of a tick."""
    decide = jax.jit(lambda state, values, epsilon, tick, key: actor.decide(state, values, epsilon, tick, key))
    return decide, jax.jit(actor.advance)


DECIDE, ADVANCE = compiled(make_actor())


def start(actor=None):
    return (actor or make_actor()).init(jnp.array([[10.0], [20.0]]))


def preferring(*actions):
    """[N, 3] values with one best action per environment."""
    return jax.nn.one_hot(jnp.array(actions), 3)


def step(number, rewards=(0.0, 0.0), terminated=NEVER, truncated=NEVER, life_lost=NEVER):
    observation = jnp.array([[10.0 + number], [20.0 + number]])
    return Step(observation, jnp.array(rewards), jnp.array(terminated), jnp.array(truncated), jnp.array(life_lost))


def test_greedy_decisions_are_made_only_when_due():
    """Environment 0 plays its macro to the end whatever is preferred meanwhile; environment 1 decides every tick."""
    state, played = start(), []
    for tick, wish in enumerate([(2, 0), (0, 1), (0, 0), (0, 1)]):
        state, primitives = DECIDE(state, preferring(*wish), 0.0, tick, KEY)
        played.append(primitives.tolist())
        state, _, _ = ADVANCE(state, step(tick + 1))
    assert played == [[1, 0], [0, 1], [1, 0], [0, 1]]
    assert state.usage.tolist() == [3, 2, 1]  # environment 0: the macro, then 0; environment 1: 0, 1, 0, 1
    assert state.steps == 8


def test_where_macros_are_for_exploring_the_best_primitive_is_chosen():
    """The macro has the highest value, and the second primitive the next."""
    decide, advance = compiled(make_actor(choosable=PRIMITIVES))
    state, played = start(), []
    for tick in range(2):
        state, primitives = decide(state, jnp.array([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0]]), 0.0, tick, KEY)
        played.append(primitives.tolist())
        state, closed, _ = advance(state, step(tick + 1))
        assert closed.closed.all()
    assert played == [[1, 0], [1, 0]]
    assert state.usage.tolist() == [2, 2, 0]


def test_a_random_macro_is_played_to_its_end():
    decide, advance = compiled(make_actor(choosable=PRIMITIVES))
    state = make_actor().init(jnp.zeros((200, 1)))
    liking_0 = jnp.zeros((200, 3)).at[:, 0].set(1.0)
    played, begun = [], []
    for tick, epsilon in enumerate((1.0, 0.0, 0.0)):
        state, primitives = decide(state, liking_0, epsilon, tick, jax.random.PRNGKey(3))
        begun.append(np.asarray(state.macro.action))
        played.append(np.asarray(primitives))
        nothing = jnp.zeros(200, bool)
        state, _, _ = advance(state, Step(jnp.zeros((200, 1)), jnp.zeros(200), nothing, nothing, nothing))
    macros = begun[0] == 2
    assert 30 < macros.sum() < 110
    assert np.array(played)[:, macros].T.tolist() == [[1, 0, 1]] * int(macros.sum())
    assert (np.array(played)[1:, ~macros] == 0).all()


def test_where_macros_are_for_exploring_epsilon_is_a_share_of_steps():
    """A third of all steps are random although random decisions take (1 + 1 + 3) / 3 steps; the greedy action is 0."""
    decide, advance = compiled(make_actor(choosable=PRIMITIVES))
    count, nothing = 500, jnp.zeros(500, bool)
    state, random_steps = make_actor().init(jnp.zeros((count, 1))), 0
    for tick in range(60):
        state, _ = decide(state, jnp.zeros((count, 3)).at[:, 0].set(1.0), 1 / 3, tick, jax.random.PRNGKey(tick))
        # Random decisions for 1 and 2 are seen as such, those for 0 are not: a step of 4 in 5 is seen.
        random_steps += int((state.macro.action > 0).sum()) if tick >= 10 else 0
        state, _, _ = advance(state, Step(jnp.zeros((count, 1)), jnp.zeros(count), nothing, nothing, nothing))
    assert random_steps / (50 * count) == pytest.approx(0.8 / 3, abs=0.01)


def test_random_decisions_are_uniform_and_independent():
    actor = make_actor()
    observation = jnp.zeros((3000, 1))
    state, _ = DECIDE(actor.init(observation), jnp.zeros((3000, 3)).at[:, 1].set(1.0), 1.0, 0, jax.random.PRNGKey(1))
    counts = np.bincount(state.macro.action, minlength=3)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert state.usage.tolist() == counts.tolist()
    first, second = np.asarray(state.macro.action).reshape(2, -1)
    table = np.histogram2d(first, second, bins=3)[0]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_epsilon_is_the_share_of_random_decisions():
    """At 0.3 with three actions the greedy one comes up in 0.7 + 0.1."""
    actor = make_actor()
    state, _ = DECIDE(
        actor.init(jnp.zeros((3000, 1))), jnp.zeros((3000, 3)).at[:, 1].set(1.0), 0.3, 0, jax.random.PRNGKey(2)
    )
    greedy = int((state.macro.action == 1).sum())
    assert stats.binomtest(greedy, 3000, 0.8).pvalue > 1e-3


def test_episode_end_reset_and_new_episode():
    """The tick after an end only resets: it is no step, no decision, no reward; the macro was cut."""
    state = start()
    state, _ = DECIDE(state, preferring(2, 2), 0.0, 0, KEY)
    state, closed, episodes = ADVANCE(state, step(1, rewards=(3.0, 4.0), truncated=[True, False]))
    assert episodes.ended.tolist() == [True, False]
    assert episodes.score[0] == 3.0 and episodes.steps[0] == 1
    assert closed.closed[:, 0].tolist() == [True, False]
    assert (closed.action[0, 0], closed.reward[0, 0], closed.discount[0, 0]) == (2, 3.0, 0.5)
    assert state.resetting.tolist() == [True, False]

    state, primitives = DECIDE(state, preferring(0, 0), 0.0, 1, KEY)
    assert primitives[1] == 0  # the macro of environment 1 goes on
    assert state.usage.tolist() == [0, 0, 2]
    state, closed, episodes = ADVANCE(state, step(2, rewards=(99.0, 1.0)))
    assert not closed.closed.any() and not episodes.ended.any()
    assert state.resetting.tolist() == [False, False]
    assert state.age.tolist() == [0, 2]
    assert state.steps == 3

    state, primitives = DECIDE(state, preferring(0, 0), 0.0, 2, KEY)
    assert primitives.tolist() == [0, 1]
    state, closed, episodes = ADVANCE(state, step(3, rewards=(5.0, 2.0), terminated=[True, True]))
    assert closed.start[:, 0].tolist() == [2, 0]
    assert closed.discount[:, 0].tolist() == [0.0, 0.0]
    assert closed.reward[:, 0].tolist() == [5.0, 4.0 + 0.5 * 1.0 + 0.25 * 2.0]
    assert episodes.score.tolist() == [5.0, 7.0] and episodes.steps.tolist() == [1, 3]


def test_lost_life_ends_returns_but_not_the_episode():
    state, _ = DECIDE(start(), preferring(2, 0), 0.0, 0, KEY)
    state, closed, episodes = ADVANCE(state, step(1, rewards=(1.0, 1.0), life_lost=[True, False]))
    assert closed.closed[:, 0].tolist() == [True, True]
    assert closed.discount[:, 0].tolist() == [0.0, 0.5]
    assert not episodes.ended.any() and not state.resetting.any()
    state, primitives = DECIDE(state, preferring(1, 1), 0.0, 1, KEY)
    assert primitives.tolist() == [1, 1] and state.usage.tolist() == [1, 2, 1]  # a new decision at once
    assert state.episode_return.tolist() == [1.0, 1.0] and state.age.tolist() == [1, 1]


def test_rewards_are_clipped_for_learning_but_not_in_scores():
    decide, advance = compiled(make_actor(clip_rewards=True))
    state, _ = decide(start(), preferring(0, 0), 0.0, 0, KEY)
    _, closed, episodes = advance(state, step(1, rewards=(7.0, -0.25), terminated=[True, True]))
    assert closed.reward[:, 0].tolist() == [1.0, -0.25]
    assert episodes.score.tolist() == [7.0, -0.25]


def test_inputs_stack_the_newest_frames_of_the_episode():
    actor = make_actor(stack=3)
    decide, advance = compiled(actor)
    state = start(actor)
    assert actor.inputs(state).tolist() == [[0, 0, 10], [0, 0, 20]]
    seen = []
    for tick, ends in enumerate([(False, False), (True, False), (False, False), (False, False)]):
        state, _ = decide(state, preferring(0, 0), 0.0, tick, KEY)
        state, _, _ = advance(state, step(tick + 1, terminated=ends))
        seen.append(actor.inputs(state).tolist())
    assert [first for first, _ in seen] == [[0, 10, 11], [10, 11, 12], [0, 0, 13], [0, 13, 14]]
    assert seen[-1][1] == [22, 23, 24]


@pytest.mark.parametrize("n_step", [1, 2])
def test_windows_open_with_decisions(n_step):
    """With two decisions per return, the first window closes with the second decision: 1 + 2/2, then 1/4."""
    actor = make_actor(n_step=n_step)
    decide, advance = compiled(actor)
    state = start(actor)
    for tick, reward in enumerate((1.0, 2.0)):
        state, _ = decide(state, preferring(0, 0), 0.0, tick, KEY)
        state, closed, _ = advance(state, step(tick + 1, rewards=(reward, 0.0)))
    (slot,) = np.flatnonzero(closed.closed[0])
    found = (closed.start[0, slot].item(), closed.reward[0, slot].item(), closed.discount[0, slot].item())
    assert found == ((1, 2.0, 0.5) if n_step == 1 else (0, 2.0, 0.25))
