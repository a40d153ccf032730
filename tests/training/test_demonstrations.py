"""Demonstrations in both loops: files, refusals, the share of a batch, counting, and resuming."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.agent.agent import Agent
from masp.cli.main import main
from masp.config import TrainConfig, replace
from masp.environments import make_env
from masp.errors import UserError
from masp.macros.recording import read_header, read_recording
from masp.training import array_file, session
from masp.training.demonstrations import load_demonstrations
from masp.training.lanes import start_of
from masp.training.train import train, train_runs

GRID = ("size=4", "copies=2", "max_steps=6")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Random play: of a grid with what was seen, of CartPole to be played again."""
    folder = tmp_path_factory.mktemp("play")
    grid, pole = folder / "grid.jsonl", folder / "pole.jsonl"
    command = ["record", "planted-grid", "--env-options", *GRID, "--policy", "random", "--episodes", "30"]
    assert main([*command, "--observations", "--out", str(grid)]) == 0
    command = ["record", "CartPole-v1", "--policy", "random", "--episodes", "4", "--num-envs", "2"]
    assert main([*command, "--out", str(pole)]) == 0
    assert main([*command, "--out", str(folder / "seen.jsonl"), "--observations"]) == 0
    return folder


@pytest.fixture
def config(tiny_config, recordings, tmp_path):
    changes = {"frames": 120, "demonstration_updates": 5, "demonstration_n_step": 2, "intra_option": True}
    return replace(tiny_config, demonstrations=str(recordings / "grid.jsonl"), out=str(tmp_path / "run"), **changes)


def pole(recordings, file="pole.jsonl", **changes):
    return replace(TrainConfig(env="CartPole-v1"), demonstrations=str(recordings / file), **changes)


def test_seeds_repeat_what_observations_hold(recordings):
    """Both recordings are of the same play, one with what was seen and one to be played again."""
    info = make_env("CartPole-v1").info
    seen, replayed = (load_demonstrations(pole(recordings, file), info) for file in ("seen.jsonl", "pole.jsonl"))
    assert seen.steps == replayed.steps == sum(len(e.actions) for e in read_recording(recordings / "pole.jsonl"))
    assert seen.digest == replayed.digest
    for one, other in zip(jax.tree.leaves(seen.memory), jax.tree.leaves(replayed.memory), strict=True):
        np.testing.assert_array_equal(one, other)
    assert read_header(recordings / "seen.jsonl").observation_shape == (4,)


def test_demonstrations_of_another_environment_are_refused(recordings, config):
    info = make_env("CartPole-v1").info
    other = replace(pole(recordings), demonstrations=config.demonstration.demonstrations)
    with pytest.raises(UserError, match="recorded in planted-grid with 4 actions, but CartPole-v1 has 2"):
        load_demonstrations(other, info)
    larger = replace(config, env_options=("size=5", "copies=2"))
    with pytest.raises(UserError, match=r"with observations \w+\[.*\], but planted-grid has \w+\[.*\]; record it"):
        load_demonstrations(larger, make_env("planted-grid", larger.env_options).info)
    with pytest.raises(UserError, match=r"nowhere\.jsonl: no such recording; 'masp record' writes one"):
        load_demonstrations(replace(other, demonstrations="nowhere.jsonl"), info)
    with pytest.raises(UserError, match="not the header of a masp recording"):
        load_demonstrations(replace(pole(recordings), demonstrations=__file__), info)


def test_play_that_goes_another_way_is_refused(recordings, tmp_path):
    lines = (recordings / "pole.jsonl").read_text().splitlines()
    episode = json.loads(lines[1])
    episode["seed"] += 1
    episode["actions"] = episode["actions"][:3]
    file = tmp_path / "other.jsonl"
    file.write_text("\n".join([lines[0], json.dumps(episode)]) + "\n")
    with pytest.raises(UserError, match="episode 0 goes another way when it is played again in CartPole-v1"):
        load_demonstrations(replace(pole(recordings), demonstrations=str(file)), make_env("CartPole-v1").info)


def test_a_recording_without_seeds_asks_for_observations(config, recordings, tmp_path):
    file = tmp_path / "plain.jsonl"
    command = ["record", "planted-grid", "--env-options", *GRID, "--policy", "random", "--episodes", "2"]
    assert main([*command, "--out", str(file)]) == 0
    with pytest.raises(UserError, match="cannot repeat an episode from its seed; record it with --observations"):
        load_demonstrations(replace(config, demonstrations=str(file)), make_env("planted-grid", GRID).info)


def test_failed_episodes_are_left_out(recordings, tmp_path):
    lines = [json.loads(line) for line in (recordings / "seen.jsonl").read_text().splitlines()]
    for number, episode in enumerate(lines[1:]):
        episode["success"] = number == 0
    file = tmp_path / "mixed.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    loaded = load_demonstrations(pole(recordings, file), make_env("CartPole-v1").info)
    assert loaded.steps == len(lines[1]["actions"])
    assert "in 1 episodes, 3 that failed left out" in loaded.message


def test_a_batch_has_the_share_of_demonstrations(config):
    info = make_env("planted-grid", GRID).info
    agent = Agent(replace(config, batch_size=8), info, info.actions)
    keys, start = start_of(agent.config, agent, info.actions)
    state = agent.init(keys, jnp.zeros((config.num_envs, *info.observation_shape)), start)
    state = state._replace(demonstrations=load_demonstrations(config, info).memory)
    memory = state.memory._replace(tree=tuple(level.at[0].set(1.0) for level in state.memory.tree))
    batch = agent._batch(state._replace(memory=memory), jax.random.PRNGKey(0))
    assert (len(batch.leaf), len(batch.demonstrated), batch.num_windows) == (6, 2, 8)
    assert len(batch.weight) == 8 + 6  # one row from inside each window of the replay
    assert len(agent._demonstrated_batch(state, jax.random.PRNGKey(0)).demonstrated) == 8


def test_resuming_from_any_moment_gives_the_same_agent(config, monkeypatch, tmp_path):
    """Compiled loop; the first checkpoint is of a moment between two updates of the pre-training."""
    whole = train(config)
    arrays, _ = array_file.read(tmp_path / "run" / "policy.safetensors")
    assert whole.summary["demonstrated_steps"] > 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[0]["updates"] == 5 and rows[0]["eval_return"] is not None  # before the first step of learning
    for stop_after in (2, 6):
        interrupted = replace(config, out=str(tmp_path / f"stopped-{stop_after}"))
        monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
        calls = []
        between = session.Session._between_chunks

        def stop(self, between=between, calls=calls, stop_after=stop_after):
            between(self)
            calls.append(1)
            if len(calls) == stop_after:
                self._writer.wait()
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(session.Session, "_between_chunks", stop)
            with pytest.raises(KeyboardInterrupt):
                train(interrupted)
        train(interrupted, resume=True)
        resumed, _ = array_file.read(tmp_path / f"stopped-{stop_after}" / "policy.safetensors")
        for name, array in arrays.items():
            np.testing.assert_array_equal(resumed[name], array)


def test_a_run_cannot_go_on_with_other_demonstrations(config, recordings, tmp_path):
    file = tmp_path / "play.jsonl"
    lines = (recordings / "grid.jsonl").read_text().splitlines(keepends=True)
    file.write_text("".join(lines))
    config = replace(config, demonstrations=str(file))
    train(config)
    file.write_text("".join([lines[0], *reversed(lines[1:])]))
    with pytest.raises(UserError, match="holds other demonstrations than when the run began"):
        train(replace(config, frames=180), resume=True)


def test_the_host_loop_learns_from_them(recordings, tmp_path):
    changes = {"num_envs": 2, "frames": 120, "log_every_frames": 60, "eval_every_frames": 0, "eval_episodes": 2}
    changes |= {"hidden": 8, "batch_size": 8, "replay_steps": 300, "min_replay_steps": 40, "steps_per_update": 8}
    changes |= {"num_atoms": 1, "noisy": False, "embedding": 0, "demonstration_updates": 3, "variant": "macros"}
    result = train(pole(recordings, out=str(tmp_path / "run"), **changes))
    steps = sum(len(e.actions) for e in read_recording(recordings / "pole.jsonl"))
    assert result.summary["demonstrated_steps"] == steps
    settings = json.loads((tmp_path / "run" / "config.json").read_text())
    assert settings["demonstrations"] == str(recordings / "pole.jsonl")


def test_seeds_that_train_together_share_them(config, tmp_path):
    configs = [replace(config, seed=seed, out=str(tmp_path / str(seed))) for seed in (0, 1)]
    alone = train(replace(configs[0], out=str(tmp_path / "alone")))
    together = train_runs(configs)
    assert together[0].summary["demonstrated_steps"] == alone.summary["demonstrated_steps"]
    first, _ = array_file.read(tmp_path / "0" / "policy.safetensors")
    other, _ = array_file.read(tmp_path / "1" / "policy.safetensors")
    assert any((first[name] != other[name]).any() for name in first if "params" in name)
