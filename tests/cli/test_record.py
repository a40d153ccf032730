"""The command `masp record`: its files can be mined and loaded by Minari, also after it was killed."""

import json
import os
import signal
import subprocess
import sys
import time

import gymnasium
import jax
import numpy as np
import pytest

from masp.agent.agent import Agent
from masp.cli.main import main
from masp.config import TrainConfig, replace
from masp.environments import make_env
from masp.environments.base import episode_seed
from masp.macros.actions import ActionSet
from masp.macros.recording import RecordingHeader, read_header, read_recording
from masp.training import array_file
from masp.training.run_dir import RunDir, write_json

MACROS = [(1, 1, 2), (3, 0)]
GRID = ["--env-options", "size=4", "copies=2", "max_steps=8"]


def record(*argv, **expect):
    assert main(["record", *map(str, argv)]) == expect.get("code", 0)


def episodes(path):
    return list(read_recording(path))


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """An untrained run on a small grid that values macro 1-1-2 most in every state."""
    path = tmp_path_factory.mktemp("runs") / "grid"
    config = replace(TrainConfig(env="planted-grid"), hidden=8, num_atoms=1, noisy=False, embedding=4, num_envs=2)
    config = replace(config, env_options=("size=4", "copies=2", "max_steps=8"), out=str(path))
    info = make_env(config.env, config.env_options).info
    actions = ActionSet(4, MACROS, info.actions.primitive_names, info.env_id)
    policy = jax.jit(Agent(config, info, actions).policy_template)()
    bias = policy["params"]["advantage_out"]["bias"]
    policy["params"]["advantage_out"]["bias"] = bias.at[4].set(100.0)
    run = RunDir(path)
    run.open(config, actions, resume=False)
    run.close()
    array_file.save(run.policy_file, array_file.named_arrays(policy), {"format": "masp-policy", "version": 2})
    write_json(run.summary_file, {})
    return path


def test_random_play_of_a_host_environment(tmp_path, capsys):
    out = tmp_path / "play.jsonl"
    record("CartPole-v1", "--policy", "random", "--episodes", 6, "--num-envs", 1, "--seed", 3, "--out", out)
    assert "6 episodes of CartPole-v1" in capsys.readouterr().out
    header, played = read_header(out), episodes(out)
    assert (header.env_id, header.num_primitives) == ("CartPole-v1", 2)
    env = gymnasium.make("CartPole-v1")
    for number, episode in enumerate(played):  # replaying the actions gives the same score
        env.reset(seed=episode_seed(3, 0, number))
        results = [env.step(action) for action in episode.actions]
        assert episode.score == sum(result[1] for result in results)
        assert [bool(result[2] or result[3]) for result in results] == [False] * (len(results) - 1) + [True]
        assert episode.frames == len(episode.actions) and episode.success is None
    assert len(played) == 6


def test_random_play_of_a_jax_environment_is_reproducible(tmp_path, capsys):
    files = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for file, seed in zip(files, (1, 1, 2), strict=True):
        record("planted-grid", *GRID, "--policy", "random", "--episodes", 50, "--seed", seed, "--out", file, "--json")
    summary = json.loads(capsys.readouterr().out.splitlines()[0])
    played = episodes(files[0])
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()
    assert summary["episodes"] == len(played) == 50
    assert summary["steps"] == sum(len(episode.actions) for episode in played)
    assert summary["success"] == np.mean([episode.success for episode in played])
    assert all(len(e.actions) == 8 or e.success for e in played) and all(e.success == (e.score == 1.0) for e in played)
    assert {action for episode in played for action in episode.actions} == {0, 1, 2, 3}
    assert main(["mine", str(files[0]), "--k", "3", "--out", str(tmp_path / "macros.json")]) == 0
    assert len(ActionSet.load(tmp_path / "macros.json").macros) == 3


def test_run_plays_macros_and_primitives_are_recorded(run_dir, tmp_path):
    out = tmp_path / "play.jsonl"
    record(
        "planted-grid", "--policy", run_dir, "--episodes", 5, "--out", out
    )  # with the environment options of the run
    for episode in episodes(out):
        steps = len(episode.actions)
        assert list(episode.actions) == ([1, 1, 2] * 3)[:steps]  # a new episode begins with a new decision
        assert steps == 8 or episode.success
    record("planted-grid", "--policy", run_dir, "--episodes", 40, "--epsilon", 1, "--out", tmp_path / "random.jsonl")
    played = [action for episode in episodes(tmp_path / "random.jsonl") for action in episode.actions]
    assert {0, 1, 2, 3} == set(played)


def test_minari_loads_the_data_set(tmp_path, run_dir):
    minari = pytest.importorskip("minari")
    pytest.importorskip("pyarrow")
    out, folder = tmp_path / "play.jsonl", tmp_path / "tiny-v2"
    record("planted-grid", "--policy", run_dir, "--epsilon", 0.5, "--episodes", 30, "--out", out, "--minari", folder)
    data = minari.MinariDataset(folder / "data")
    played = episodes(out)
    assert data.total_episodes == 30 and data.total_steps == sum(len(e.actions) for e in played)
    assert data.id == "tiny-v2" and data.action_space.n == 4 and data.observation_space.shape == (16,)
    for ours, theirs in zip(played, data.iterate_episodes(), strict=True):
        assert theirs.actions.tolist() == list(ours.actions)
        assert theirs.rewards.sum() == ours.score
        assert theirs.terminations[-1] == ours.success and theirs.truncations[-1] != ours.success
        assert not theirs.terminations[:-1].any() and not theirs.truncations[:-1].any()
        assert theirs.observations.shape == (len(ours.actions) + 1, 16)
        # One-hot row and column of agent and goal: the goal stays, and is where the agent ends if it succeeds.
        agent, goal = np.split(theirs.observations, 2, axis=1)
        assert (goal == goal[0]).all() and (agent[-1] == goal[-1]).all() == ours.success
    macros = []
    for source in (out, folder):
        macro_file = tmp_path / f"{source.name}.macros.json"
        assert main(["mine", str(source), "--only-successful", "--out", str(macro_file)]) == 0
        macros.append(macro_file.read_text())
    assert macros[0] == macros[1]


@pytest.mark.parametrize(("dtype", "stored"), [("uint8", "uint8"), ("bool", "uint8"), ("float32", "float32")])
def test_observations_are_stored_losslessly(tmp_path, dtype, stored):
    minari = pytest.importorskip("minari")
    pytest.importorskip("pyarrow")
    from masp.macros.minari import MinariWriter

    header = RecordingHeader("Picture-v0", 2)
    frames = np.random.default_rng(0).integers(0, 256, (3, 40, 40, 1)).astype(dtype)
    writer = MinariWriter(tmp_path / "pictures", header, (40, 40, 1), np.dtype(dtype), "random")
    writer.add(list(frames), [1, 0], [0.5, 1.0], True, None)
    (episode,) = minari.MinariDataset(tmp_path / "pictures" / "data").iterate_episodes()
    np.testing.assert_array_equal(episode.observations, frames)
    assert episode.observations.dtype == stored and episode.terminations.tolist() == [False, True]


def test_killed_recording_keeps_all_finished_episodes(tmp_path):
    minari = pytest.importorskip("minari")
    pytest.importorskip("pyarrow")
    out, folder = tmp_path / "play.jsonl", tmp_path / "play-v0"
    argv = ["record", "planted-grid", *GRID, "--policy", "random", "--episodes", "10000000"]
    code = "import sys; from masp.cli.main import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *argv, "--out", str(out), "--minari", str(folder)], env=os.environ
    )
    try:
        deadline = time.monotonic() + 300
        seen = []
        while len(seen) < 60 and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
            if out.exists() and out.stat().st_size:
                seen = episodes(out)  # read while it grows
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    left = episodes(out)
    assert left[: len(seen)] == seen and len(left) >= 60
    assert main(["mine", str(out), "--out", str(tmp_path / "macros.json")]) == 0
    loaded = list(minari.MinariDataset(folder / "data").iterate_episodes())
    assert len(left) - 1 <= len(loaded) <= len(left)  # an episode is written to the file first
    for ours, theirs in zip(left, loaded, strict=False):
        assert theirs.actions.tolist() == list(ours.actions) and theirs.rewards.sum() == ours.score
    assert main(["mine", str(folder), "--out", str(tmp_path / "minari-macros.json")]) == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("planted-grid --policy random --episodes 0 --out new", "--episodes must be at least 1"),
        ("planted-grid --policy random --episodes 1 --num-envs 0 --out new", "--num-envs must be at least 1"),
        ("planted-grid --policy random --episodes 1 --seed -1 --out new", "--seed must not be negative"),
        (
            "planted-grid --policy random --episodes 1 --epsilon 0.5 --out new",
            "--epsilon applies to the policy of a run",
        ),
        ("planted-grid --policy RUN --episodes 1 --epsilon 1.5 --out new", "between 0 and 1, got 1.5"),
        ("planted-grid --policy random --episodes 1 --out there", "there: exists already; choose another file"),
        ("planted-grid --policy random --episodes 1 --out no/where", "cannot be written"),
        ("planted-grid --policy random --episodes 1 --out new --minari there", "there: exists already"),
        ("planted-grid --policy random --episodes 1 --out new --minari no/where", "existing parent folder"),
        ("planted-grid --policy nowhere --episodes 1 --out new", "nowhere is not a run directory"),
        ("planted-grid --policy random --episodes 1 --out new --env-options colour=red", "has no option 'colour'"),
        ("NoSuchGame-v9 --policy random --episodes 1 --out new", "NoSuchGame-v9"),
        ("Pendulum-v1 --policy random --episodes 1 --out new", "continuous"),
        ("CartPole-v1 --policy RUN --episodes 1 --out new", "macro 0 uses action 2, but CartPole-v1 has actions 0..1"),
        (
            "planted-grid --policy RUN --episodes 1 --out new --env-options size=5",
            "does not fit the observations (20,)",
        ),
    ],
)
def test_invalid_input_exits_with_2_and_one_line(argv, message, run_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("my notes")
    code = main(["record", *argv.replace("RUN", str(run_dir)).split()])
    captured = capsys.readouterr()
    assert code == 2 and captured.out == ""
    assert message in captured.err and captured.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there"] and (tmp_path / "there").read_text() == "my notes"


def test_missing_minari_package_exits_with_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "minari", None)
    argv = f"planted-grid --policy random --episodes 1 --out {tmp_path}/new --minari {tmp_path}/data".split()
    assert main(["record", *argv]) == 2
    assert "pip install 'masp-rl[minari]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
