"""MiniGrid equals the package step by step, and has the macros and settings of the paper."""

import sys

import gymnasium
import numpy as np
import pytest
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX
from minigrid.core.world_object import Key
from vectors import play

from masp.cli.main import main
from masp.config import to_flat
from masp.environments import make_env
from masp.environments.base import episode_seed
from masp.environments.gymnasium_env import maker
from masp.environments.minigrid import ACTION_NAMES, FORWARD, LEFT, MACROS, RIGHT, CellsWithDirection, full_id
from masp.environments.minigrid_cells import MINIGRID_CARDINALITIES
from masp.environments.minigrid_mission import mission_plane
from masp.environments.minigrid_solver import solve
from masp.environments.registry import stated_options
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.macros.recording import RecordedEpisode, RecordingHeader, RecordingWriter
from masp.presets import SWEEPS, from_preset
from masp.training.lanes import resolve_actions


@pytest.mark.parametrize("name", ["DoorKey-5x5", "FourRooms", "LockedRoom", "ObstructedMaze-Full", "KeyCorridorS3R1"])
def test_equals_the_package_step_by_step(name):
    vector = make_env(name, ["max_steps=40"], 2)
    first, actions, steps = play(vector, 100, seed=2)
    for i in range(2):
        env, episode, resetting = gymnasium.make(vector.info.env_id, max_steps=40), 0, True
        ours = [(first[i], 0.0, False, False)]
        ours += [(steps.observation[t, i], steps.reward[t, i], steps.terminated[t, i], steps.truncated[t, i])
                  for t in range(100)]  # fmt: skip
        for t, (observation, reward, terminated, truncated) in enumerate(ours):
            if resetting:
                expected, _ = env.reset(seed=episode_seed(2, i, episode))
                expected_reward, over, limit = 0.0, False, False
                episode += 1
            else:
                expected, expected_reward, over, limit, _ = env.step(actions[t - 1, i])
            np.testing.assert_array_equal(observation[..., :3], expected["image"])
            assert (observation[..., 3] == expected["direction"]).all()
            if vector.info.observation_kind == "minigrid-mission":
                np.testing.assert_array_equal(observation[..., 4], mission_plane(expected["mission"], 7, 7))
            assert (reward, terminated, truncated) == (np.float32(expected_reward), over, limit and not over)
            resetting = over or limit
        assert episode >= 3


def test_the_network_has_an_embedding_for_every_code():
    objects, colours, states, directions = MINIGRID_CARDINALITIES
    assert max(OBJECT_TO_IDX.values()) < objects
    assert max(COLOR_TO_IDX.values()) < colours
    assert max(STATE_TO_IDX.values()) < states
    assert directions == 4


@pytest.mark.parametrize(
    "name", ["LavaCrossingS9N1", "Dynamic-Obstacles-6x6", "UnlockPickup", "RedBlueDoors-6x6", "Playground"]
)
def test_codes_of_random_play_are_in_range(name):
    _, _, steps = play(make_env(name, (), 4), 100)
    assert (steps.observation[..., :4] < np.array(MINIGRID_CARDINALITIES)).all()


def test_a_carried_object_is_shown_in_the_agents_cell():
    env = CellsWithDirection(gymnasium.make("MiniGrid-DoorKey-5x5-v0"))
    observation, _ = env.reset(seed=0)
    direction = env.unwrapped.agent_dir
    np.testing.assert_array_equal(observation[3, 6], [OBJECT_TO_IDX["empty"], 0, 0, direction])
    env.unwrapped.carrying = Key("yellow")
    observation, *_ = env.step(ACTION_NAMES.index("done"))
    np.testing.assert_array_equal(observation[3, 6], [OBJECT_TO_IDX["key"], COLOR_TO_IDX["yellow"], 0, direction])
    assert env.observation_space.contains(observation)


def test_a_run_records_its_backend():
    assert stated_options("DoorKey-5x5", ()) == ("backend=minigrid",)
    assert stated_options("DoorKey-5x5", ("size=6",)) == ("size=6", "backend=minigrid")
    assert stated_options("DoorKey-5x5", ("backend=envpool",)) == ("backend=envpool",)
    assert type(make_env("DoorKey-5x5", ["backend=minigrid"])) is type(make_env("DoorKey-5x5"))
    with pytest.raises(UserError, match="backend must be minigrid or envpool, got 'jax'"):
        make_env("DoorKey-5x5", ["backend=jax"])


def test_missing_envpool_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(UserError, match=r"needs the package envpool: pip install 'masp-rl\[envpool\]'"):
        make_env("DoorKey-5x5", ["backend=envpool"])


@pytest.mark.parametrize(
    ("name", "full", "limit"),
    [
        ("DoorKey-5x5", "MiniGrid-DoorKey-5x5-v0", 250),
        ("DoorKey-8x8", "MiniGrid-DoorKey-8x8-v0", 640),
        ("FourRooms", "MiniGrid-FourRooms-v0", 100),
        ("LockedRoom", "MiniGrid-LockedRoom-v0", 190),
        ("ObstructedMaze-Full", "MiniGrid-ObstructedMaze-Full-v1", 3600),
        ("MiniGrid-ObstructedMaze-Full-v0", "MiniGrid-ObstructedMaze-Full-v0", 3600),
    ],
)
def test_description(name, full, limit):
    info = make_env(name).info
    assert (info.env_id, info.max_episode_steps, info.success_above) == (full, limit, 0.0)
    has_mission = name in ("LockedRoom", "ObstructedMaze-Full", "MiniGrid-ObstructedMaze-Full-v0")
    expected = ((7, 7, 5), "minigrid-mission") if has_mission else ((7, 7, 4), "minigrid")
    assert (info.observation_shape, info.observation_kind) == expected
    assert info.actions.primitive_names == ("left", "right", "forward", "pickup", "drop", "toggle", "done")
    assert len(info.actions.macros) == 8
    assert all(2 <= len(macro) <= 4 for macro in MACROS)


def test_tasks_with_fewer_actions_keep_the_macros_that_fit():
    actions = make_env("Dynamic-Obstacles-5x5").info.actions
    assert actions.primitive_names == ("left", "right", "forward")
    assert len(actions.macros) == 6


def test_the_stricter_limit_holds():
    assert make_env("DoorKey-5x5", ["max_episode_steps=20"]).info.max_episode_steps == 20
    assert make_env("DoorKey-5x5", ["max_episode_steps=999"]).info.max_episode_steps == 250


PAPER_TABLE = {
    "replay_steps": 50_000,
    "batch_size": 64,
    "learning_rate": 1e-4,
    "gamma": 0.99,
    "target_period_steps": 1_000,
    "epsilon": [0.2, 0.01],
    "epsilon_decay_steps": 50_000,
    "n_step": 1,
    "noisy": False,
    "dueling": False,
    "meta_learning_rate": 0.001,
    "embedding": 8,
    "stack": 1,
    "frames": 500_000,
    # from the paper's table for Atari, for settings that its table for MiniGrid lacks
    "max_gradient_norm": 10.0,
    "num_atoms": 51,
    "value_range": [-10.0, 10.0],
    "priority_exponent": 0.5,
    "importance": [0.4, 1.0],
}


def test_paper_preset_equals_the_papers_table():
    config = from_preset("paper-minigrid", "DoorKey-8x8")
    flat = to_flat(config)
    assert {name: flat[name] for name in PAPER_TABLE} == PAPER_TABLE
    assert SWEEPS["paper-minigrid"] == {"penalty_weight": (0.05, 0.1, 0.3), "meta_learning_rate": (0.001,)}
    assert flat["penalty_weight"] in SWEEPS["paper-minigrid"]["penalty_weight"]


@pytest.mark.parametrize(("name", "limit"), [("DoorKey-8x8", 640), ("ObstructedMaze-Full-v1", 2_000)])
def test_episodes_of_the_paper_preset_have_at_most_2000_steps(name, limit):
    info = make_env(name, from_preset("paper-minigrid", name).env_options).info
    assert (info.max_episode_steps, info.frames_per_step) == (limit, 1)


def test_default_macros_fit_the_papers_description():
    """Eight macros of two to four steps, among them forward-forward-turn."""
    assert len(set(MACROS)) == 8
    assert {len(macro) for macro in MACROS} == {2, 3, 4}
    assert {(FORWARD, FORWARD, LEFT), (FORWARD, FORWARD, RIGHT)} <= set(MACROS)


def record_solutions(path, name, episodes):
    """Solve a task `episodes` times and record it."""
    env = maker(full_id(name), {})()
    with RecordingWriter(path, RecordingHeader(full_id(name), 7, ACTION_NAMES)) as writer:
        for seed in range(episodes):
            env.reset(seed=seed)
            actions, reward = [], 0.0
            for action in solve(env.unwrapped):
                actions.append(action)
                _, reward, *_ = env.step(action)
            writer.add(RecordedEpisode(actions, float(reward), reward > 0, len(actions)))


def test_macros_are_mined_from_solutions(tmp_path):
    recording, out = tmp_path / "doorkey.jsonl", tmp_path / "macros.json"
    record_solutions(recording, "DoorKey-8x8", 40)
    lengths = "--k 8 --min-length 2 --max-length 4"
    assert main(["mine", str(recording), *lengths.split(), "--only-successful", "--out", str(out)]) == 0
    mined = ActionSet.load(out)
    macros = mined.sequences()[7:]
    assert len(set(macros)) == 8
    assert all(2 <= len(macro) <= 4 for macro in macros)
    assert any(ACTION_NAMES.index("pickup") in macro or ACTION_NAMES.index("toggle") in macro for macro in macros)
    config = from_preset("minigrid", "DoorKey-8x8")
    info = make_env("DoorKey-8x8").info
    from_file = resolve_actions(type(config)(env="DoorKey-8x8", variant="macros", macros=str(out)), info)
    assert from_file.sequences() == mined.sequences()
    assert from_file.primitive_names == info.actions.primitive_names
