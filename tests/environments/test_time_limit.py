"""Environments in processes that hang or die are started anew, or stop the run, in one line."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hanging_env import CalmEnv, HangingEnv

from masp.config import TrainConfig, replace
from masp.environments.gymnasium_vector import GymVector, describe_env
from masp.environments.processes import ProcessVector
from masp.errors import RestartWarning, TrainingError, UserError
from masp.training.checked_env import CheckedEnv
from masp.training.loop import make_loop

LIMIT = 3.0
ACTIONS = np.random.default_rng(0).integers(0, 3, (25, 4))


def vector(make, restarts):
    """Four environments in two processes."""
    env = ProcessVector(make, 4, describe_env(CalmEnv()), 2)
    env.set_time_limit(LIMIT, restarts)
    return env


def played(env):
    """Observations and rewards of 25 ticks, with ends of episodes among them."""
    first = env.reset(5)
    steps = [env.step(actions) for actions in ACTIONS]
    env.close()
    return [first, *(step.observation for step in steps)], [step.reward for step in steps]


@pytest.mark.parametrize("dies", [False, True], ids=["hangs", "dies"])
def test_restart_changes_no_result(dies, tmp_path):
    env = vector(partial(HangingEnv, str(tmp_path / "marker"), dies), restarts=3)
    with pytest.warns(RestartWarning, match="environments . to .*; started anew, . restarts are left"):
        observations, rewards = played(env)
    expected_observations, expected_rewards = played(GymVector(CalmEnv, 4))
    assert np.array_equal(observations, expected_observations)
    assert np.array_equal(rewards, expected_rewards)


def test_without_restarts_the_run_stops_in_one_line():
    env = CheckedEnv(vector(HangingEnv, restarts=0), "training")
    env.reset(5)
    with pytest.raises(TrainingError, match=r"step, tick 7 .*took more than 3 seconds") as caught:
        for actions in ACTIONS:
            env.step(actions)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 1
    env.close()


def test_fault_that_comes_again_uses_up_the_restarts():
    env = vector(partial(HangingEnv, dies=True), restarts=2)
    env.reset(5)
    with pytest.warns(RestartWarning), pytest.raises(RuntimeError, match="its process died with exit code 3"):
        for actions in ACTIONS:
            env.step(actions)
    env.close()


@pytest.mark.parametrize("env", ["CartPole-v1", "planted-grid"])
def test_limit_needs_processes(env):
    with pytest.raises(UserError, match="cannot end them; add --env-workers N"):
        make_loop(replace(TrainConfig(env=env), env_timeout=5.0, num_atoms=1, hidden=8))
