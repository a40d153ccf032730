"""What every environment promises, on every environment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vectors import MADE, assert_equal, make_vector, play, stack

import naive_play
from masp.agent.acting import Actor
from masp.environments import make_env
from masp.environments.base import Step
from masp.macros.actions import ActionSet

N = 4
every = pytest.mark.parametrize("name", MADE)


@every
def test_shapes_and_types(name):
    env = make_vector(name, N)
    first, _, steps = play(env, 20)
    assert first.shape == (N, *env.info.observation_shape)
    assert first.dtype == env.info.observation_dtype
    assert steps.observation.shape == (20, *first.shape)
    assert steps.observation.dtype == env.info.observation_dtype
    assert steps.reward.shape == (20, N)
    assert steps.reward.dtype == np.float32
    for flag in (steps.terminated, steps.truncated, steps.life_lost):
        assert flag.shape == (20, N)
        assert flag.dtype == bool


@every
def test_a_seed_repeats_and_another_differs(name):
    env = make_vector(name, N)
    first, actions, steps = play(env, 60, seed=3)
    again_first, _, again = play(make_vector(name, N), 60, seed=3)
    np.testing.assert_array_equal(first, again_first)
    assert_equal(steps, again)
    np.testing.assert_array_equal(first, env.reset(3))  # a used environment is as good as a new one
    assert_equal(steps, stack(env, actions))
    _, _, other = play(env, 60, seed=4)
    assert not np.array_equal(steps.observation, other.observation)
    assert any(not np.array_equal(steps.observation[:, 0], steps.observation[:, i]) for i in range(1, N))


@every
def test_the_tick_after_an_end_only_resets(name):
    _, actions, steps = play(make_vector(name, N), 80, seed=1)
    ended = steps.terminated | steps.truncated
    assert ended.sum() > 3
    resetting = np.concatenate([np.zeros((1, N), bool), ended[:-1]])
    assert not steps.reward[resetting].any()
    assert not ended[resetting].any()
    other_actions = np.where(resetting, 0, actions)
    assert not np.array_equal(actions, other_actions)
    env = make_vector(name, N)
    env.reset(1)
    assert_equal(steps, stack(env, other_actions))  # the action of a reset is ignored


@every
def test_only_the_limit_cuts_an_episode(name):
    env = make_vector(name, N)
    _, _, steps = play(env, 80)
    assert not (steps.terminated & steps.truncated).any()
    limited = any(option.startswith("max") for option in MADE[name])
    assert steps.truncated.any() == limited or name == "tape"
    length = np.zeros(N, int)
    for ended, truncated in zip(steps.terminated | steps.truncated, steps.truncated, strict=True):
        length += 1  # a reset tick brings it from -1 to 0
        if name != "tape":
            assert (length <= env.info.max_episode_steps).all()
            assert (length[truncated] == env.info.max_episode_steps).all()
        length[ended] = -1


@pytest.mark.parametrize("name", [name for name in MADE if any(option.startswith("max") for option in MADE[name])])
def test_a_cut_episode_shows_what_it_would_have_shown(name):
    """The observation of the cut is the real one: an episode that is cut later has the same at that step."""
    _, _, cut = play(make_vector(name, N), 40, seed=2)
    _, _, longer = play(make_vector(name, N, later=3), 40, seed=2)
    cut_first = 0
    for i in range(N):
        last = int(np.argmax((cut.terminated | cut.truncated)[:, i]))  # of the first episode
        for one, other in zip(cut[:3], longer[:3], strict=True):  # observation, reward, terminated
            np.testing.assert_array_equal(one[: last + 1, i], other[: last + 1, i])
        assert not longer.truncated[: last + 1, i].any()
        cut_first += bool(cut.truncated[last, i])
    assert cut_first


def play_macros(env, actions, choices, seed):
    """Decisions `choices` [ticks, N] played by the batched macro machine: what the environments were sent and said."""
    actor = Actor(jnp.asarray(actions.table), jnp.asarray(actions.lengths), 0.9, 1, 1, clip_rewards=False)
    decide, advance = jax.jit(actor.decide), jax.jit(actor.advance)
    state, sent, said = actor.init(jnp.asarray(env.reset(seed))), [], []
    for tick, chosen in enumerate(choices):
        values = jax.nn.one_hot(chosen, len(actions))  # the greedy action is the one we want
        state, primitives = decide(state, values, 0.0, jnp.asarray(tick), jax.random.PRNGKey(tick))
        sent.append(np.asarray(primitives))
        said.append(env.step(sent[-1]))
        state, _, _ = advance(state, said[-1])
    return state, np.array(sent), Step(*[np.stack(part) for part in zip(*said, strict=True)])


@every
def test_macros_are_played_exactly_and_frames_counted(name):
    """Macros of length 1 to 8, chosen at random: the environments see them flattened, cut off only by an end."""
    env, rng = make_vector(name, N, later=3), np.random.default_rng(5)
    primitives = env.info.actions.num_primitives
    actions = ActionSet(primitives, [rng.integers(primitives, size=length).tolist() for length in range(1, 9)])
    choices = rng.integers(len(actions), size=(200, N))
    state, sent, said = play_macros(env, actions, choices, seed=6)
    decisions, steps, whole = 0, 0, set()
    for i in range(N):
        script = naive_play.unzip(naive_play.Tick(choices, *said[1:]), i)
        played, flat = naive_play.play(script, actions.sequences())
        expected = [(tick, primitive) for tick, primitive in enumerate(flat) if primitive is not None]
        assert [(tick, sent[tick, i]) for tick, _ in expected] == expected
        decisions, steps = decisions + len(played), steps + len(expected)
        whole |= {d.steps for d in played if d.steps == len(actions.sequence(d.action))}
    assert whole == set(range(1, min(8, env.info.max_episode_steps) + 1))
    assert int(state.steps) == steps  # reset ticks cost none; frames are steps x frames_per_step
    assert 0 <= int(state.usage.sum()) - decisions <= N  # those under way at the end
    env.reset(6)
    assert_equal(stack(env, sent), said)


def test_cartpole_shows_its_final_observation():
    env = make_env("CartPole-v1", ["max_episode_steps=14"], 4)
    first, _, steps = play(env, 60)
    fallen = (np.abs(steps.observation[..., 0]) > 2.4) | (np.abs(steps.observation[..., 2]) > np.deg2rad(12))
    assert steps.terminated.any()
    assert steps.truncated.any()
    np.testing.assert_array_equal(fallen, steps.terminated)
    assert np.abs(first).max() <= 0.05
    assert np.abs(steps.observation[1:][(steps.terminated | steps.truncated)[:-1]]).max() <= 0.05


def test_planted_grid_tells_arrival_from_the_cut():
    _, _, steps = play(make_vector("planted-grid", 64), 100)
    agent, goal = np.split(steps.observation, 2, axis=-1)
    arrived = (agent == goal).all(axis=-1)
    assert steps.terminated.any()
    assert steps.truncated.any()
    np.testing.assert_array_equal(arrived, steps.terminated)  # the final observation is the one at the goal
    np.testing.assert_array_equal(steps.reward, steps.terminated.astype(np.float32))


def test_planted_bandit_pays_the_good_group_of_each_context():
    env = make_env("planted-bandit", ["contexts=4", "groups=2", "pay_good=1", "pay_bad=0"])
    assert env.info.observation_shape == (4,)
    assert env.info.actions.num_primitives == 2
    np.testing.assert_array_equal(np.bincount(env.info.groups), [8, 8])


def test_minatar_shows_the_lost_ball():
    _, _, steps = play(make_vector("minatar-breakout", N), 200)
    assert steps.terminated.any() and steps.truncated.any()
    ball, bottom = 1, 9
    np.testing.assert_array_equal(steps.observation[:, :, bottom, :, ball].any(axis=-1), steps.terminated)
    after_end = steps.observation[1:][(steps.terminated | steps.truncated)[:-1]]
    assert after_end[:, 3, (0, 9), ball].any(axis=-1).all()  # the ball starts on one of two cells
