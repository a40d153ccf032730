"""Games of stable-retro, on Airstriker, which it ships: one emulator, a vector of processes, a training run."""

import gzip
import json
import multiprocessing
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("stable_retro")

import stable_retro as retro
from vectors import assert_equal, play, stack

from masp.cli.main import main
from masp.environments import make_env
from masp.environments.retro import ButtonChoices, IntegrationRules, RetroGame, Setting, View
from masp.environments.retro_games import button_choices, find_game, find_states

GAME = find_game("retro-Airstriker")
CHOICES = button_choices(GAME, ["LEFT", "RIGHT", "B"])


def make(states=None, repeat=4, noops=0, max_steps=1000, record=False, view=None):
    states = find_states(GAME, "") if states is None else states
    setting = Setting(GAME, states, view or View(84, True), repeat, noops, max_steps)
    return RetroGame(setting, ButtonChoices(CHOICES), IntegrationRules(), record)


@pytest.fixture
def game():
    env = make()
    yield env
    env.close()


def random_actions(count, seed=0):
    return np.random.default_rng(seed).integers(len(CHOICES), size=count).tolist()


def test_equals_stable_retro_frame_by_frame(game):
    actions = random_actions(400)
    game.reset(seed=0)
    steps = [game.step(action) for action in actions]
    game.close()
    plain = retro.make(GAME.id, use_restricted_actions=retro.Actions.ALL, render_mode="rgb_array")
    plain.reset()
    total = 0.0
    for action, (observation, reward, terminated, truncated, info) in zip(actions, steps, strict=True):
        mask = np.array([button in CHOICES[action] for button in plain.buttons], np.uint8)
        expected_reward = 0.0
        for _ in range(4):
            picture, frame_reward, done, _, variables = plain.step(mask)
            expected_reward += frame_reward
            if done:
                break
        np.testing.assert_array_equal(observation, View(84, True).of(picture))
        assert (reward, terminated, truncated, info) == (expected_reward, done, False, variables)
        total += reward
        if done:
            break
    plain.close()
    assert done  # the last ship is lost
    assert total > 0


@pytest.mark.parametrize(("size", "grey", "shape"), [(7, True, (10, 16)), (12, False, (25, 31)), (5, False, (5, 30))])
def test_view_equals_naive_area_means(size, grey, shape):
    picture = np.random.default_rng(0).integers(256, size=(*shape, 3), dtype=np.uint8)
    fine = np.repeat(np.repeat(picture.astype(float), size, axis=0), size, axis=1)  # size x size copies of a pixel
    naive = fine.reshape(size, shape[0], size, shape[1], 3).mean(axis=(1, 3))
    naive = (naive @ [0.299, 0.587, 0.114])[..., None] if grey else naive
    observation = View(size, grey).of(picture)
    assert (observation.shape, observation.dtype) == (View(size, grey).shape, np.uint8)
    np.testing.assert_allclose(observation, naive, atol=0.5001)


def test_the_seed_draws_the_number_of_noops():
    env = make(repeat=2, noops=3)
    env.reset(seed=0)
    starts = []
    for noops in range(4):
        env.retro.reset()
        for _ in range(2 * noops):
            env.retro.step(np.zeros(12, np.uint8))
        starts.append(View(84, True).of(env.render()).tobytes())
    assert len(set(starts)) == 4
    first_observations = [env.reset(seed=seed)[0].tobytes() for seed in range(30)]
    assert set(first_observations) == set(starts)
    assert env.reset(seed=5)[0].tobytes() == first_observations[5]
    env.close()


def test_the_seed_draws_the_start_state(game, tmp_path):
    game.reset(seed=0)
    for action in random_actions(30):
        game.step(action)
    (tmp_path / "later.state").write_bytes(gzip.compress(game.retro.em.get_state(), 1))
    game.close()
    env = make(states=[*find_states(GAME, ""), tmp_path / "later.state"])
    starts = [env.reset(seed=seed)[0].tobytes() for seed in range(10)]
    assert len(set(starts)) == 2
    env.close()


def test_without_a_state_episodes_start_at_power_on():
    env = make(states=[], repeat=8)
    first, _ = env.reset(seed=0)
    pictures = [env.step(0)[0] for _ in range(20)]
    again, _ = env.reset(seed=0)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(pictures, [env.step(0)[0] for _ in range(20)])
    assert len({picture.tobytes() for picture in pictures}) > 1
    env.close()


def test_a_saved_episode_continues_exactly(game):
    actions = random_actions(400)
    game.reset(seed=0)
    saved, steps = {}, []
    for t, action in enumerate(actions):
        if t % 25 == 0:
            saved[t] = game.get_state()
        steps.append(game.step(action))
        if steps[-1][2]:
            break
    rewarded = [t for t, step in enumerate(steps) if step[1]]
    assert len(rewarded) > 3
    for begin, state in saved.items():
        game.reset(seed=1)
        game.step(1)
        game.set_state(state)
        for t in range(begin, min(begin + 30, len(steps))):
            observation, *rest = game.step(actions[t])
            np.testing.assert_array_equal(observation, steps[t][0])
            assert rest == list(steps[t][1:])
    game.close()
    resumed = make()
    resumed.reset(seed=0)
    resumed.set_state(saved[100])
    np.testing.assert_array_equal(resumed.step(actions[100])[0], steps[100][0])
    resumed.close()


def test_recordings_have_the_buttons_of_each_frame(tmp_path):
    env = make(repeat=2, record=str(tmp_path))
    env.reset(seed=0)
    actions = random_actions(40)
    for action in actions:
        env.step(action)
    env.retro.stop_record()
    env.close()
    (path,) = tmp_path.glob("*.bk2")
    movie = retro.Movie(str(path))
    frames = []
    while movie.step():
        frames.append({button for i, button in enumerate(env.retro.buttons) if movie.get_key(i, 0)})
    movie.close()
    assert frames[1:] == [set(CHOICES[action]) for action in actions for _ in range(2)]  # the first is the reset's


LUA_SCRIPT = """
frames = 0
function reward ()
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
        assert snapshot["lengths"].sum() == len(snapshot["state"]) < 100_000  # compressed: a state has a million bytes
        env.restore(5, snapshot)
    resumed = stack(env, actions[40:])
    env.close()
    later = [None if part is None else part[40:] for part in steps]
    assert_equal(resumed, type(steps)(*later))


def test_variables_of_a_script_are_restored(tmp_path):
    """They are not in the state of the emulator, so restoring replays the episode."""
    folder = tmp_path / "Scripted-Genesis-v0"
    folder.mkdir()
    for name in ("rom.md", "data.json", "metadata.json", "Level1.state"):
        shutil.copy(find_game("retro-Airstriker").file(name), folder)
    scenario = {
        "done": {"variables": {"lives": {"op": "zero"}}},
        "reward": {"script": "lua:reward"},
        "scripts": ["s.lua"],
    }
    (folder / "scenario.json").write_text(json.dumps(scenario))
    (folder / "s.lua").write_text(LUA_SCRIPT)
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


def test_making_a_game_prints_nothing_and_does_not_import_jax():
    code = (
        "import sys; from masp.environments import make_env; env = make_env('retro-Airstriker', ['size=36']);"
        "env.reset(0); env.close(); assert 'jax' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


TINY = "--variant macros --frames 400 --num-envs 2 --hidden 8 --batch-size 4 --stack 2 --num-atoms 1 --n-step 1"
TINY += " --no-noisy --no-dueling --priority-exponent 0 --replay-steps 400 --min-replay-steps 20 --eval-episodes 2"
TINY += " --log-every-frames 200 --eval-every-frames 0"
OPTIONS = ["--env-options", "buttons=LEFT,B", "size=36", "noops=5", "max_steps=20", "repeat=2"]


def test_train_and_evaluate(tmp_path, capsys):
    before = {child.pid for child in multiprocessing.active_children()}
    out = str(tmp_path / "run")
    assert main(["train", "retro-Airstriker", *TINY.split(), *OPTIONS, "--out", out]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["frames"] >= 400  # frames of the emulator: 200 steps of two
    assert rows[-1]["updates"] >= (200 - 20) // 4
    assert rows[-1]["eval_episode_steps"] == 20
    capsys.readouterr()
    assert main(["eval", out, "--episodes", "3", "--env-options", "max_steps=9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episode_steps"] == 9
    assert {child.pid for child in multiprocessing.active_children()} == before


def test_a_missing_rom_gives_one_line_and_exit_code_2(capsys):
    assert main(["train", "SuperMarioBros-Nes-v0"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("masp train: SuperMarioBros-Nes-v0: its ROM")
    assert not any("Traceback" in line for line in lines)
