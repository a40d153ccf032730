"""Emulators in processes: saved and restored, with scripts, and without a word."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("stable_retro")

from vectors import assert_equal, play, stack

from masp.environments import make_env
from masp.environments.retro_games import find_game

SCRIPT = """
frames = 0
function paid ()
  frames = frames + 1
  return frames
end
"""


def test_resumed_equals_uninterrupted(tmp_path):
    options = ["buttons=LEFT,RIGHT,B", "size=36", "noops=9", "max_steps=150"]
    env = make_env("retro-Airstriker", options, 2)
    _, actions, steps = play(env, 200, seed=5)
    assert steps.reward.any()
    assert steps.truncated.any()
    env.reset(5)
    stack(env, actions[:40])
    np.savez(tmp_path / "snapshot.npz", **env.snapshot())
    env.close()
    env = make_env("retro-Airstriker", options, 2)
    with np.load(tmp_path / "snapshot.npz") as snapshot:
        assert snapshot["state"].dtype == np.uint8
        assert snapshot["lengths"].sum() == len(snapshot["state"]) < 100_000  # packed: a state has a million bytes
        env.restore(5, snapshot)
    resumed = stack(env, actions[40:])
    env.close()
    assert_equal(resumed, type(steps)(*[part[40:] for part in steps]))


def test_what_a_script_remembers_is_restored_too(tmp_path):
    """It is in no state of the emulator: the episode is played again."""
    folder = tmp_path / "Scripted-Genesis-v0"
    folder.mkdir()
    for name in ("rom.md", "data.json", "metadata.json", "Level1.state"):
        shutil.copy(find_game("retro-Airstriker").file(name), folder)
    scenario = {
        "done": {"variables": {"lives": {"op": "zero"}}},
        "reward": {"script": "lua:paid"},
        "scripts": ["s.lua"],
    }
    (folder / "scenario.json").write_text(json.dumps(scenario))
    (folder / "s.lua").write_text(SCRIPT)
    options = [f"integrations={tmp_path}", "buttons=LEFT,B", "size=36", "noops=0", "max_steps=9", "repeat=1"]
    env = make_env("Scripted-Genesis-v0", options)
    env.reset(0)
    moves = np.ones((4, 1), int)
    rewards = stack(env, moves).reward[:, 0]
    np.testing.assert_array_equal(np.diff(rewards), 1.0)
    snapshot = env.snapshot()
    later = stack(env, moves)
    env.restore(0, snapshot)
    assert_equal(stack(env, moves), later)
    assert later.reward[0, 0] == rewards[-1] + 1
    env.close()


def test_nothing_is_said_and_no_jax_is_loaded():
    code = (
        "import sys; from masp.environments import make_env; env = make_env('retro-Airstriker', ['size=36']);"
        "env.reset(0); env.close(); assert 'jax' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
