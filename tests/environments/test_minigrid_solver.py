"""The solver of MiniGrid: it solves what it knows, and its recordings can be learned from."""

import gymnasium
import numpy as np
import pytest

from masp.cli.main import main
from masp.config import TrainConfig, replace
from masp.environments import make_env
from masp.environments.minigrid import full_id
from masp.environments.minigrid_solver import SolverPolicy, solve
from masp.errors import UserError
from masp.macros.recording import read_header, read_recording
from masp.training.demonstrations import load_demonstrations

KNOWN = ["DoorKey-8x8", "FourRooms", "LockedRoom", "ObstructedMaze-1Dlhb", "KeyCorridorS3R2", "MultiRoom-N4-S5",
         "BlockedUnlockPickup", "LavaCrossingS9N2"]  # fmt: skip


def steps_to_solve(name, seed):
    env = gymnasium.make(full_id(name))
    env.reset(seed=seed)
    for number, action in enumerate(solve(env.unwrapped), 1):
        _, reward, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            assert reward > 0
            return number
    raise AssertionError(f"{name}, seed {seed}: the solution does not end the episode")


@pytest.mark.parametrize("name", KNOWN)
def test_solves_tasks_with_a_goal_or_an_object(name):
    assert all(steps_to_solve(name, seed) < 120 for seed in range(3))


@pytest.mark.parametrize("seed", [1, 218, 599, 1002, 1423])  # layouts in which what is put down may block the way
def test_solves_mazes_in_which_things_must_be_moved_twice(seed):
    assert steps_to_solve("ObstructedMaze-Full", seed) < 80


def test_tasks_and_backends_that_it_does_not_know():
    for name in ("Fetch-5x5-N2", "Dynamic-Obstacles-5x5"):
        with pytest.raises(UserError, match="the solver knows tasks with a goal to reach or an object to pick up"):
            SolverPolicy(make_env(name))
    with pytest.raises(UserError, match=r"--policy solver plays MiniGrid with backend=minigrid, got CartPole-v1"):
        SolverPolicy(make_env("CartPole-v1"))


def test_its_recording_serves_any_view_and_backend(tmp_path, capsys):
    file = tmp_path / "solved.jsonl"
    command = ["record", "DoorKey-5x5", "--policy", "solver", "--episodes", "5", "--num-envs", "2", "--out", str(file)]
    assert main(command) == 0
    assert "success 1.000" in capsys.readouterr().out
    assert read_header(file).env_options == ("backend=minigrid",)
    episodes = list(read_recording(file))
    assert len({episode.seed for episode in episodes}) == 5
    steps = sum(len(episode.actions) for episode in episodes)
    config = replace(TrainConfig(env="DoorKey-5x5"), demonstrations=str(file))
    for options, size in (((), 7 * 7 * 4), (("view=whole",), 11 * 11)):
        loaded = load_demonstrations(replace(config, env_options=options), make_env("DoorKey-5x5", options).info)
        assert (loaded.steps, loaded.memory.observations.shape) == (steps, (steps + 5, 1, size))
        assert np.count_nonzero(loaded.memory.steps.reward) == 5
    pytest.importorskip("envpool")
    fast = replace(config, env_options=("backend=envpool", "view=whole"))
    assert load_demonstrations(fast, make_env("DoorKey-5x5", fast.env_options).info).digest == loaded.digest
