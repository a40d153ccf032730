"""What every environment promises, on every environment."""

import numpy as np
import pytest
from vectors import MADE, assert_equal, make_vector, play, stack

from masp.environments import make_env

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
    for flag in (steps.terminated, steps.truncated):
        assert flag.shape == (20, N)
        assert flag.dtype == bool
    assert not steps.life_lost.any()


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
def test_no_episode_is_longer_than_promised(name):
    env = make_vector(name, N)
    _, _, steps = play(env, 80)
    assert not (steps.terminated & steps.truncated).any()
    length = np.zeros(N, int)
    for ended, truncated in zip(steps.terminated | steps.truncated, steps.truncated, strict=True):
        length += 1  # a reset tick brings it from -1 to 0
        if name != "tape":
            assert (length <= env.info.max_episode_steps).all()
            assert (length[truncated] == env.info.max_episode_steps).all()
        length[ended] = -1


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
