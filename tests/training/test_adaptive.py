"""Runs that find macros while they train: what they write, that seeds have their own, that resuming is exact."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import masp
from masp.config import TrainConfig, replace
from masp.errors import UserError
from masp.similarity.bundle import load_bundle
from masp.training.history import read_history
from masp.training.train import train, train_seeds


class Interrupted(Exception):
    pass


def interrupt_after(frames: int):
    def progress(done, total, row):
        if done >= frames:
            raise Interrupted

    return progress


def assert_same(one, other) -> None:
    first, second = load_file(one / "checkpoint.safetensors"), load_file(other / "checkpoint.safetensors")
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    assert read_history(one / "macros.jsonl") == read_history(other / "macros.jsonl")


@pytest.fixture
def adaptive(tiny_config) -> TrainConfig:
    mining = {
        "mine_every_frames": 60,
        "mine_replace_share": 0.5,
        "mine_top_share": 1.0,
        "replay_steps": 600,
        "intra_option": True,
    }
    mining |= {"env_options": ("size=4", "copies=2", "max_steps=20")}
    periods = {"frames": 300, "eval_every_frames": 0, "checkpoint_every_frames": 150}
    return replace(tiny_config, **mining, **periods)


def test_seeds_of_the_compiled_loop(adaptive, tmp_path):
    adaptive = replace(adaptive, variant="macros")
    whole = [result.run_dir for result in train_seeds(replace(adaptive, out=str(tmp_path / "whole")), [0, 1])]
    with pytest.raises(Interrupted):
        train_seeds(replace(adaptive, out=str(tmp_path / "cut")), [0, 1], progress=interrupt_after(240))
    # The round after the checkpoint is there, and must be taken back.
    assert [row["frames"] > 150 for row in read_history(tmp_path / "cut" / "seed-0" / "macros.jsonl")][-1]
    again = train_seeds(replace(adaptive, out=str(tmp_path / "cut")), [0, 1], resume=True)
    for one, other in zip(whole, again, strict=True):
        assert_same(one, other.run_dir)
    histories = [read_history(path / "macros.jsonl") for path in whole]
    assert histories[0][-1]["actions"] != histories[1][-1]["actions"]
    for path, history in zip(whole, histories, strict=True):
        check_run_directory(path, history)


def check_run_directory(path, history) -> None:
    assert [row["frames"] >= 60 * i for i, row in enumerate(history)] == [True] * 5  # none in the last row
    assert "replaced" not in history[0] and any(row["replaced"] for row in history[1:])
    for before, row in itertools.pairwise(history):
        macros = [macro["actions"] for macro in before["actions"]["macros"]]
        for exchange in row["replaced"]:
            assert macros[exchange["action"] - 4] == exchange["old"] != exchange["new"]
            macros[exchange["action"] - 4] = exchange["new"]
        assert [macro["actions"] for macro in row["actions"]["macros"]] == macros
        assert len(row["replaced"]) <= 2 and row["good_episodes"] <= row["episodes"]
    run = masp.load_run(path)
    last = masp.ActionSet.from_json(history[-1]["actions"])
    assert run.actions == last == load_bundle(path / "similarity.safetensors").actions
    saved = load_file(path / "checkpoint.safetensors")
    assert saved[".agent.macros.table"].tolist() == np.asarray(run_tables(run).table).tolist()
    usage = json.loads((path / "usage.json").read_text())
    assert usage["actions"] == last.names
    decisions = saved[".agent.actor.usage"] - saved[".agent.discovery.usage_at_birth"]
    assert usage["decisions"] == decisions.tolist() and min(usage["decisions"]) >= 0
    assert len(usage["decisions"]) == 8
    score, _ = run.evaluate(8, seed=1)
    assert score.shape == (8,)


def run_tables(run):
    from masp.training.train import make_loop

    return make_loop(run.config, run.actions).agent.tables()


def test_host_loop_and_control(adaptive, tmp_path):
    config = replace(adaptive, env="CartPole-v1", env_options=(), mine_from="random")
    whole = train(replace(config, out=str(tmp_path / "whole"))).run_dir
    with pytest.raises(Interrupted):
        train(replace(config, out=str(tmp_path / "cut")), progress=interrupt_after(240))
    assert_same(whole, train(replace(config, out=str(tmp_path / "cut")), resume=True).run_dir)
    history = read_history(whole / "macros.jsonl")
    assert any(row["replaced"] for row in history[1:])
    assert len(masp.load_run(whole).actions) == len(masp.ActionSet.from_json(history[0]["actions"]))


def test_nothing_to_replace_is_said_before_anything_is_written(adaptive, tmp_path):
    with pytest.raises(UserError, match="mine_every_frames replaces macros, but planted-grid is played without any"):
        train(replace(adaptive, variant="rainbow", out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_flag_has_a_short_name():
    import argparse

    from masp.cli import train as command
    from masp.cli.flags import with_flags
    from masp.presets import from_preset

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    for flag in ("--mine-every", "--mine-every-frames"):
        args = parser.parse_args(["planted-grid", flag, "2e4", "--mine-from", "random"])
        config = with_flags(from_preset("auto", "planted-grid"), args)
        assert config.mine_every_frames == 20_000 and config.mine_from == "random"
