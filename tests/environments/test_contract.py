"""The contract of environments, checked on every family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vectors import ENVS, assert_equal, make_vector, play, stack, stacked

import naive_play
from masp.agent.acting import Actor
from masp.macros.actions import ActionSet

N = 4
every = pytest.mark.parametrize("name", ENVS)


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
    np.testing.assert_array_equal(first, env.reset(3))  # a used environment equals a new one
    assert_equal(steps, stack(env, actions))
    _, _, other = play(env, 60, seed=4)
    assert not np.array_equal(steps.observation, other.observation)
    assert any(not np.array_equal(steps.observation[:, 0], steps.observation[:, i]) for i in range(1, N))


@every
def test_the_tick_after_the_end_of_an_episode_only_resets(name):
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
def test_only_the_limit_truncates_an_episode(name):
    env = make_vector(name, N)
    _, _, steps = play(env, 80)
    assert not (steps.terminated & steps.truncated).any()
    limited = any(option.startswith("max") for option in ENVS[name])
    assert steps.truncated.any() == limited or name == "tape"
    length = np.zeros(N, int)
    for ended, truncated in zip(steps.terminated | steps.truncated, steps.truncated, strict=True):
        length += 1  # a reset tick brings it from -1 to 0
        if name != "tape":
            assert (length <= env.info.max_episode_steps).all()
            assert (length[truncated] == env.info.max_episode_steps).all()
        length[ended] = -1


@pytest.mark.parametrize("name", [name for name in ENVS if any(option.startswith("max") for option in ENVS[name])])
def test_a_truncated_episode_has_its_real_final_observation(name):
    """With a later limit, the same episode has the same observation at that step."""
    _, _, short = play(make_vector(name, N), 40, seed=2)
    _, _, longer = play(make_vector(name, N, later=3), 40, seed=2)
    truncated_first = 0
    for i in range(N):
        last = int(np.argmax((short.terminated | short.truncated)[:, i]))  # of the first episode
        for one, other in zip(short[:3], longer[:3], strict=True):  # observation, reward, terminated
            np.testing.assert_array_equal(one[: last + 1, i], other[: last + 1, i])
        assert not longer.truncated[: last + 1, i].any()
        truncated_first += bool(short.truncated[last, i])
    assert truncated_first


def play_macros(env, actions, choices, seed):
    """Play decisions `choices` [ticks, N] with the batched execution of macros: its state, primitives and steps."""
    actor = Actor(jnp.asarray(actions.table), jnp.asarray(actions.lengths), 0.9, 1, 1, False, (True,) * len(actions))
    decide, advance = jax.jit(actor.decide), jax.jit(actor.advance)
    state, primitives_sent, steps = actor.init(jnp.asarray(env.reset(seed))), [], []
    for tick, chosen in enumerate(choices):
        values = jax.nn.one_hot(chosen, len(actions))  # makes `chosen` the greedy action
        state, primitives = decide(state, values, 0.0, jnp.asarray(tick), jax.random.PRNGKey(tick))
        primitives_sent.append(np.asarray(primitives))
        steps.append(env.step(primitives_sent[-1]))
        state, _, _ = advance(state, steps[-1])
    return state, np.array(primitives_sent), stacked(steps)


@every
def test_macros_are_played_exactly_and_frames_counted(name):
    """Random macros of length 1 to 8 arrive as their primitives; only the end of an episode cuts them short."""
    env, rng = make_vector(name, N, later=3), np.random.default_rng(5)
    primitives = env.info.actions.num_primitives
    actions = ActionSet(primitives, [rng.integers(primitives, size=length).tolist() for length in range(1, 9)])
    choices = rng.integers(len(actions), size=(200, N))
    state, sent, steps = play_macros(env, actions, choices, seed=6)
    num_decisions, num_steps, complete_lengths = 0, 0, set()
    for i in range(N):
        script = naive_play.unzip(naive_play.Tick(choices, *steps[1:5]), i)
        decisions, flat = naive_play.play(script, actions.sequences())
        expected = [(tick, primitive) for tick, primitive in enumerate(flat) if primitive is not None]
        assert [(tick, sent[tick, i]) for tick, _ in expected] == expected
        num_decisions, num_steps = num_decisions + len(decisions), num_steps + len(expected)
        complete_lengths |= {d.steps for d in decisions if d.steps == len(actions.sequence(d.action))}
    assert complete_lengths == set(range(1, min(8, env.info.max_episode_steps) + 1))
    assert int(state.steps) == num_steps  # a reset tick is no step; frames are steps x frames_per_step
    assert 0 <= int(state.usage.sum()) - num_decisions <= N  # decisions not finished at the end
    env.reset(6)
    assert_equal(stack(env, sent), steps)
