"""What the paper says of its MiniGrid experiments: macros of two to four steps, and a table of settings."""

import pytest
from minigrid_solver import solve

from masp.cli.main import main
from masp.config import to_flat
from masp.environments import make_env
from masp.environments.gymnasium_env import maker
from masp.environments.minigrid import ACTION_NAMES, FORWARD, LEFT, MACROS, RIGHT, full_id
from masp.macros.actions import ActionSet
from masp.macros.recording import RecordedEpisode, RecordingHeader, RecordingWriter
from masp.presets import SWEEPS, from_preset
from masp.training.train import resolve_actions

PAPER_TABLE = {
    "replay_steps": 50_000,
    "batch_size": 64,
    "learning_rate": 1e-4,
    "gamma": 0.99,
    "target_period_steps": 1_000,
    "epsilon_start": 0.2,
    "epsilon_end": 0.01,
    "epsilon_decay_steps": 50_000,
    "n_step": 1,
    "noisy": False,
    "dueling": False,
    "meta_learning_rate": 0.001,
    "embedding": 8,
    "stack": 1,
    "frames": 500_000,
    # of the table for Atari, which holds for what the table for MiniGrid leaves out
    "max_gradient_norm": 10.0,
    "num_atoms": 51,
    "v_min": -10.0,
    "v_max": 10.0,
    "priority_exponent": 0.5,
    "importance_start": 0.4,
    "importance_end": 1.0,
}


def test_the_papers_preset_is_its_table():
    config = from_preset("paper-minigrid", "DoorKey-8x8")
    flat = to_flat(config)
    assert {name: flat[name] for name in PAPER_TABLE} == PAPER_TABLE
    assert SWEEPS["paper-minigrid"] == {"penalty_weight": (0.05, 0.1, 0.3), "meta_learning_rate": (0.001,)}
    assert flat["penalty_weight"] in SWEEPS["paper-minigrid"]["penalty_weight"]


@pytest.mark.parametrize(("name", "limit"), [("DoorKey-8x8", 640), ("ObstructedMaze-Full-v1", 2_000)])
def test_no_episode_of_the_papers_is_longer_than_2000(name, limit):
    info = make_env(name, from_preset("paper-minigrid", name).env_options).info
    assert (info.max_episode_steps, info.frames_per_step) == (limit, 1)


def test_built_in_macros_are_of_the_papers_kind():
    """Eight, of two to four steps, and the one that it names: forward, forward, turn."""
    assert len(set(MACROS)) == 8
    assert {len(macro) for macro in MACROS} == {2, 3, 4}
    assert {(FORWARD, FORWARD, LEFT), (FORWARD, FORWARD, RIGHT)} <= set(MACROS)


def record_won_episodes(path, name, episodes):
    """Play a task to its end, over and over, and record it."""
    env = maker(full_id(name), {})()
    with RecordingWriter(path, RecordingHeader(full_id(name), 7, ACTION_NAMES)) as writer:
        for seed in range(episodes):
            env.reset(seed=seed)
            actions, reward = [], 0.0
            for action in solve(env.unwrapped):
                actions.append(action)
                _, reward, *_ = env.step(action)
            writer.add(RecordedEpisode(actions, float(reward), reward > 0, len(actions)))


def test_macros_mined_from_won_episodes(tmp_path):
    recording, out = tmp_path / "doorkey.jsonl", tmp_path / "macros.json"
    record_won_episodes(recording, "DoorKey-8x8", 40)
    lengths = "--k 8 --min-length 2 --max-length 4"
    assert main(["mine", str(recording), *lengths.split(), "--only-successful", "--out", str(out)]) == 0
    mined = ActionSet.load(out)
    macros = mined.sequences()[7:]
    assert len(set(macros)) == 8
    assert all(2 <= len(macro) <= 4 for macro in macros)
    assert any(ACTION_NAMES.index("pickup") in macro or ACTION_NAMES.index("toggle") in macro for macro in macros)
    config = from_preset("minigrid", "DoorKey-8x8")
    info = make_env("DoorKey-8x8").info
    from_file, _ = resolve_actions(type(config)(env="DoorKey-8x8", variant="macros", macros=str(out)), info)
    assert from_file.sequences() == mined.sequences()
    assert from_file.primitive_names == info.actions.primitive_names
