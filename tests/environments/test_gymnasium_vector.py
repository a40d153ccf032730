"""Gymnasium environments as a vector that can be stopped and resumed."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from vectors import assert_equal, play, stack

from masp.environments import make_env
from masp.environments.base import episode_seed
from masp.environments.gymnasium_vector import GymVector
from masp.errors import UserError
from tape_env import TapeEnv


def with_spaces(observation_space, action_space=None):
    """A `TapeEnv` with other spaces, whose observations are samples."""

    class OtherSpaces(TapeEnv):
        def _observe(self, action):
            observation_space.seed(int(self._steps))
            return observation_space.sample()

    env = OtherSpaces()
    env.observation_space = observation_space
    env.action_space = action_space or env.action_space
    return env


def test_seed_and_actions_determine_an_episode():
    vector = GymVector(TapeEnv, 2)
    first, actions, steps = play(vector, 30, seed=7)
    for i in range(2):
        env, episode, resetting = TapeEnv(), 0, False
        np.testing.assert_array_equal(env.reset(seed=episode_seed(7, i, 0))[0], first[i])
        for t in range(30):
            if resetting:
                episode += 1
                expected = (env.reset(seed=episode_seed(7, i, episode))[0], 0.0, False, False)
            else:
                expected = env.step(actions[t, i])[:4]
            np.testing.assert_array_equal(steps.observation[t, i], expected[0])
            outcome = (steps.reward[t, i], steps.terminated[t, i], steps.truncated[t, i])
            assert outcome == (np.float32(expected[1]), *expected[2:])
            resetting = expected[2] or expected[3]
        assert episode >= 2


@pytest.mark.parametrize("ticks", [0, 1, 2, 5, 13, 40])
@pytest.mark.parametrize("name", ["tape", "DoorKey-5x5", "CartPole-v1", "FrozenLake-v1"])
def test_resumed_equals_uninterrupted(name, ticks, tmp_path):
    def make():
        return GymVector(TapeEnv, 3) if name == "tape" else make_env(name, ["max_episode_steps=12"], 3)

    vector = make()
    vector.reset(5)
    rng = np.random.default_rng(1)
    for _ in range(ticks):
        vector.step(rng.integers(vector.info.actions.num_primitives, size=3))
    np.savez(tmp_path / "snapshot.npz", **vector.snapshot())
    later = rng.integers(vector.info.actions.num_primitives, size=(30, 3))
    uninterrupted = stack(vector, later)

    resumed = make()
    with np.load(tmp_path / "snapshot.npz") as snapshot:
        resumed.restore(5, snapshot)
        for key, value in resumed.snapshot().items():
            np.testing.assert_array_equal(value, snapshot[key])
    assert_equal(stack(resumed, later), uninterrupted)


def test_a_snapshot_before_a_reset_tick_is_restored():
    vector = GymVector(lambda: TapeEnv([1.0, 2.0]), 1)
    vector.reset(0)
    vector.step(np.array([0]))
    assert vector.step(np.array([0])).terminated == [True]
    snapshot = vector.snapshot()
    assert snapshot["resetting"] == [True]
    resumed = GymVector(lambda: TapeEnv([1.0, 2.0]), 1)
    resumed.restore(0, snapshot)
    step = resumed.step(np.array([2]))
    assert (step.reward[0], step.terminated[0], step.observation[0, 0]) == (0.0, False, 0.0)


def test_restoring_another_episode_is_refused():
    vector = GymVector(TapeEnv, 2)
    play(vector, 5)
    snapshot = vector.snapshot()
    with pytest.raises(UserError, match="holds 2 environments, but the run has 3"):
        GymVector(TapeEnv, 3).restore(0, snapshot)
    with pytest.raises(UserError, match="TapeEnv does not repeat an episode"):
        GymVector(lambda: TapeEnv([0.0] * 20), 2).restore(0, snapshot)
    with pytest.raises(UserError, match="TapeEnv does not repeat an episode"):
        vector.restore(1, snapshot)


def test_observations_are_copies():
    vector = GymVector(TapeEnv, 1)
    first = vector.reset(0)
    copy = first.copy()
    vector.step(np.array([1]))
    np.testing.assert_array_equal(first, copy)


def test_step_before_reset_raises():
    with pytest.raises(RuntimeError, match="comes first"):
        GymVector(TapeEnv).step(np.array([0]))


@pytest.mark.parametrize(
    ("space", "kind", "shape"),
    [
        (spaces.Box(-1, 1, (2, 3), np.float64), "vector", (6,)),
        (spaces.Discrete(5), "vector", (5,)),
        (spaces.MultiDiscrete([2, 3]), "vector", (5,)),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (3,))]), "vector", (5,)),
        (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.MultiBinary(3)}), "vector", (5,)),
        (spaces.Box(0, 255, (40, 50, 3), np.uint8), "image", (40, 50, 3)),
        (spaces.Box(0, 255, (40, 50), np.uint8), "image", (40, 50, 1)),
    ],
)
def test_observation_spaces(space, kind, shape):
    vector = GymVector(lambda: with_spaces(space), 2)
    assert (vector.info.observation_kind, vector.info.observation_shape) == (kind, shape)
    observation = vector.reset(0)
    assert observation.dtype == (np.uint8 if kind == "image" else np.float32)
    space.seed(0)
    np.testing.assert_allclose(observation[0].ravel(), spaces.flatten(space, space.sample()).ravel(), rtol=1e-6)


def test_discrete_observations_are_one_hot():
    first = make_env("FrozenLake-v1").reset(0)
    np.testing.assert_array_equal(first, np.eye(16, dtype=np.float32)[:1])


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: gymnasium.make("Pendulum-v1"), r"Pendulum-v1 has continuous actions \(Box\); masp needs Discrete"),
        (
            lambda: with_spaces(spaces.Discrete(2), spaces.MultiBinary(3)),
            "has MultiBinary actions; masp needs Discrete",
        ),
        (lambda: with_spaces(spaces.Discrete(2), spaces.Discrete(3, start=1)), "numbers its actions from 1"),
        (lambda: with_spaces(spaces.Text(5)), r"cannot read \(Text\)"),
        (lambda: with_spaces(spaces.Dict({"a": spaces.Text(5)})), r"cannot read \(Dict of a: Text\)"),
        (lambda: with_spaces(spaces.Tuple([spaces.Box(0, 255, (84, 84, 3), np.uint8)])), "cannot read"),
        (lambda: with_spaces(spaces.Box(0, 255, (8, 8, 3), np.uint8)), "at least 36"),
    ],
)
def test_unsupported_spaces_are_named(env, message):
    with pytest.raises(UserError, match=message):
        GymVector(env)


def test_description_of_a_plain_environment():
    info = make_env("CartPole-v1").info
    assert (info.env_id, info.max_episode_steps, info.success_above) == ("CartPole-v1", 500, None)
    assert info.actions.sequences()[2:] == [(0, 0), (1, 1), (0, 0, 0, 0), (1, 1, 1, 1)]
    with pytest.raises(UserError, match="num_envs must be at least 1"):
        make_env("CartPole-v1", (), 0)


def test_final_observations_are_shown():
    env = make_env("CartPole-v1", ["max_episode_steps=14"], 4)
    first, _, steps = play(env, 60)
    fallen = (np.abs(steps.observation[..., 0]) > 2.4) | (np.abs(steps.observation[..., 2]) > np.deg2rad(12))
    assert steps.terminated.any()
    assert steps.truncated.any()
    np.testing.assert_array_equal(fallen, steps.terminated)
    assert np.abs(first).max() <= 0.05
    assert np.abs(steps.observation[1:][(steps.terminated | steps.truncated)[:-1]]).max() <= 0.05
