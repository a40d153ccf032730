"""Training with environments in processes gives the same run as without."""

from __future__ import annotations

import multiprocessing

import faulty_env  # noqa: F401 - registers Faulty-v0
import numpy as np
import pytest

from masp.config import TrainConfig, replace
from masp.errors import UserCodeError, UserError
from masp.training import array_file
from masp.training.train import train


@pytest.fixture
def config(tiny_config, tmp_path):
    settings = {"env": "CartPole-v1", "env_options": (), "num_envs": 4, "variant": "macros"}
    settings |= {"importance": (0.4, 0.4)}  # else an extended run has another schedule
    return replace(tiny_config, **settings, out=str(tmp_path / "serial"))


def policy(config):
    return array_file.read(f"{config.out}/policy.safetensors")[0]


def test_the_same_run_and_a_resumed_one(config, tmp_path):
    """The second run begins in processes and goes on without them."""
    before = set(multiprocessing.active_children())
    train(config)
    other = replace(config, out=str(tmp_path / "processes"))
    train(replace(other, frames=120, env_workers=2))
    train(other, resume=True)
    assert set(multiprocessing.active_children()) == before
    expected, found = policy(config), policy(other)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(array, found[name], err_msg=name)


def test_an_environment_that_raises_in_its_process_is_named(config):
    before = set(multiprocessing.active_children())
    fault = ("fault=raise", "good_steps=12")
    faulty = replace(config, env="Faulty-v0", env_options=fault, env_workers=2)
    with pytest.raises(
        UserCodeError, match=r"environment 0 \(Faulty-v0\) failed: RuntimeError: the simulator is on fire"
    ):
        train(faulty)
    assert set(multiprocessing.active_children()) == before


def test_a_script_that_a_new_process_imports_must_not_train(config, monkeypatch):
    """`_inheriting` is what multiprocessing sets while a spawned process runs the script of its parent."""
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(UserError, match=r"it trains when it is imported; put that part .* `if __name__ == \"__main__"):
        train(config)


def test_there_are_no_more_processes_than_environments():
    with pytest.raises(UserError, match="env_workers must be at most num_envs, 8, got 9"):
        TrainConfig(env="CartPole-v1", env_workers=9)
