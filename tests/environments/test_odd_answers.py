"""What an environment returns and masp cannot use is named; before, some of it was taken for something else."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from masp.environments.gymnasium_vector import GymVector
from masp.errors import LineWarning, TrainingError, UserCodeError
from masp.training.checked_env import CheckedEnv

PARTS = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 1, (2,))})
IMAGE = spaces.Box(0, 255, (40, 40), np.uint8)
MATRIX = spaces.Box(0, 1, (3, 4))


class Answers(gymnasium.Env):
    """Begins as its space says; then steps return what they are told, or raise it."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: spaces.Space, answer):
        self.observation_space, self._answer = space, answer

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer

    def close(self):
        raise RuntimeError("no way to close")


def play_one(space, answer):
    """The first step of an environment that answers so."""
    env = CheckedEnv(GymVector(lambda: Answers(space, answer)), "training")
    env.reset(0)
    return env.step(np.zeros(1, np.int64))


def whole(reward=0.0, terminated=False, truncated=False, info=None):
    return np.zeros((3, 4), np.float32), reward, terminated, truncated, {} if info is None else info


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(whole(reward="1.0"), r"reward '1.0' \(str\), expected a number", id="text-as-reward"),
        pytest.param(whole(reward=np.ones(2)), r"reward array\(\[1., 1.\]\) \(ndarray\)", id="two-rewards"),
        pytest.param(whole(reward=None), r"reward None \(NoneType\), expected a number", id="no-reward"),
        pytest.param(whole(terminated="False"), r"terminated 'False' \(str\), expected a truth", id="text-as-end"),
        pytest.param(whole(truncated=None), r"truncated None \(NoneType\), expected a truth", id="no-truncation"),
        pytest.param(whole(info={"success": "no"}), r"success 'no' \(str\), expected a truth", id="text-as-success"),
        pytest.param((*whole()[:4], None), r"info None \(NoneType\), expected a dictionary", id="no-info"),
    ],
)
def test_what_is_no_number_or_truth_value_is_named(answer, message):
    with pytest.raises(TrainingError, match=message):
        play_one(MATRIX, answer)


@pytest.mark.parametrize("value", [np.True_, 1, np.int64(1), np.array(True)], ids=lambda value: type(value).__name__)
def test_other_ways_to_say_true_are_understood(value):
    step = play_one(MATRIX, whole(np.float32(2.5), value, info={"success": value, "life_lost": None}))
    assert (step.reward[0], step.terminated[0], step.success[0], step.life_lost[0]) == (2.5, True, 1, False)


@pytest.mark.parametrize(
    ("space", "observation", "message"),
    [
        pytest.param(MATRIX, np.zeros((4, 3), np.float32), r"\(4, 3\), expected \(3, 4\)", id="transposed"),
        pytest.param(MATRIX, [[0.0], [1.0, 2.0]], r"expected an array of \(3, 4\)", id="ragged"),
        pytest.param(MATRIX, np.full((3, 4), None), "observation of object, expected float32", id="objects"),
        pytest.param(IMAGE, np.full((40, 40), 0.5), "observation of float64, expected uint8", id="fractions-as-image"),
        pytest.param(IMAGE, np.full((40, 40), 300), r"values 300..300, which uint8 cannot hold", id="too-bright"),
        pytest.param(spaces.Discrete(3), -1, r"observation -1 \(int\), expected one of Discrete\(3\)", id="negative"),
        pytest.param(spaces.MultiDiscrete([2, 3]), np.array([2, 0]), "expected one of MultiDiscrete", id="next-part"),
        pytest.param(PARTS, {"a": 1}, "expected one of Dict", id="part-missing"),
        pytest.param(PARTS, {"a": 3, "b": np.zeros(2)}, "expected one of Dict", id="part-out-of-range"),
        pytest.param(PARTS, {"a": 1, "b": np.zeros((1, 2))}, "expected one of Dict", id="part-of-other-shape"),
    ],
)
def test_observations_outside_the_space_are_named(space, observation, message):
    with pytest.raises(TrainingError, match=message) as caught:
        play_one(space, (observation, 0.0, False, False, {}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("space", "observation", "expected"),
    [
        pytest.param(IMAGE, np.full((40, 40), 7), 7, id="image-of-int64"),
        pytest.param(MATRIX, np.full((3, 4), 0.5), 0.5, id="float64"),
        pytest.param(MATRIX, np.ones((3, 4), bool).tolist(), 1, id="list-of-bool"),
        pytest.param(MATRIX, np.full((3, 4), 1e300), np.inf, id="too-large-for-float32"),
    ],
)
def test_observations_that_fit_after_a_cast(space, observation, expected):
    assert (play_one(space, (observation, 0.0, False, False, {})).observation == expected).all()


@pytest.mark.parametrize(
    "error", [SystemExit(0), GeneratorExit(), RuntimeError("fire")], ids=lambda e: type(e).__name__
)
def test_environment_that_ends_the_process_is_named(error):
    with pytest.raises(UserCodeError, match=f"the environment raised {type(error).__name__}"):
        play_one(MATRIX, error)


def test_environment_that_cannot_be_closed_is_told():
    env = CheckedEnv(GymVector(lambda: Answers(MATRIX, None)), "training")
    with pytest.warns(LineWarning, match=r"Answers \(training, close\): the environment raised .*no way to close"):
        env.close()
