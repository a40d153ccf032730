"""Whole runs: same seed same run, resume equals no interruption, the directory holds what it says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import masp
from masp.config import TrainConfig, replace
from masp.environments import make_env
from masp.errors import UserError
from masp.similarity.matrix import group_auc
from masp.training import session
from masp.training.callbacks import Callback
from masp.training.train import train, train_seeds

CLOCKS = ("seconds", "frames_per_second")


def rows(path) -> list[dict]:
    """The metrics without what a clock says."""
    read = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in CLOCKS} for row in read]


@pytest.fixture
def host_config(tiny_config) -> TrainConfig:
    return replace(tiny_config, env="CartPole-v1", env_options=(), macros="")


def assert_same(one, other) -> None:
    first, second = (load_file(max((run / "checkpoints").glob("checkpoint-*"))) for run in (one, other))
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    assert rows(one) == rows(other)


class Interrupted(BaseException):
    """Ends training like a kill: nothing is saved on the way out."""


class InterruptAfter(Callback):
    def __init__(self, frames: int):
        self._frames = frames

    def on_row(self, run, row):
        if row["frames"] >= self._frames:
            raise Interrupted


@pytest.fixture
def many_checkpoints(monkeypatch):
    """A checkpoint after every chunk, before the row that may follow."""
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)


@pytest.mark.parametrize("loop", ["compiled", "host"])
def test_seed_repeats_and_resume_is_exact(loop, tiny_config, host_config, many_checkpoints, tmp_path):
    config = tiny_config if loop == "compiled" else host_config
    whole = train(replace(config, out=str(tmp_path / "whole")))
    with pytest.raises(Interrupted):
        # Cut off in the row after the checkpoint, so that a row must be taken back.
        train(replace(config, out=str(tmp_path / "cut")), callbacks=[InterruptAfter(180)])
    assert len(rows(tmp_path / "cut")) == 3
    assert not (tmp_path / "cut" / "summary.json").exists()
    again = train(replace(config, out=str(tmp_path / "cut")), resume=True)
    assert_same(whole.run_dir, again.run_dir)
    check_effects(rows(whole.run_dir), config)
    other = train(replace(config, seed=1, out=str(tmp_path / "other")))
    assert rows(other.run_dir) != rows(whole.run_dir)


def check_effects(metrics, config) -> None:
    """Columns that say what the penalty does fit each other."""
    gamma, host = config.agent.gamma, config.env == "CartPole-v1"
    for row in metrics:
        assert 1 <= row["effective_actions"] <= len(row["decisions"]) == len(row["advantage"])
        assert 1 <= row["effective_neighbours"] <= len(row["decisions"])
        assert sum(row["advantage"]) == pytest.approx(0, abs=1e-3)
        first_macro = 2 if host else 4
        assert row["macro_share"] == pytest.approx(sum(row["decisions"][first_macro:]) / sum(row["decisions"]))
        if not host:
            assert row["clusters"] == 4 and row["q_spread_within"] > 0
        if row["eval_return"] is None:
            assert row["overestimation"] is row["predicted_return"] is None
            continue
        assert row["overestimation"] == pytest.approx(row["predicted_return"] - row["discounted_return"])
        if host:  # one per step: the sum is concave in the number of steps
            steps = row["eval_episode_steps"]
            assert 1 <= row["discounted_return"] <= (1 - gamma**steps) / (1 - gamma) + 1e-3
        else:  # one at the end, after at most 6 steps
            assert row["eval_success"] * gamma**5 - 1e-6 <= row["discounted_return"] <= row["eval_success"]


def test_run_directory(tiny_config, tmp_path):
    result = train(replace(tiny_config, out=str(tmp_path / "run")))
    run = masp.load_run(result.run_dir)
    assert run.config.frames == 240 and len(run.actions) == 8
    assert [row["frames"] >= 60 * (i + 1) for i, row in enumerate(run.metrics)] == [True] * 4
    assert [row["eval_return"] is not None for row in run.metrics] == [False, True, False, True]
    groups = make_env(run.config.env, run.config.env_options).info.groups
    assert run.metrics[-1]["similarity_auc"] == pytest.approx(group_auc(np.asarray(run.similarity), groups))
    usage = json.loads((result.run_dir / "usage.json").read_text())
    # Every action lasts one step here, so decisions are steps are frames.
    assert sum(usage["decisions"]) == run.metrics[-1]["frames"]
    # Decisions of the warm-up belong to the first row.
    assert np.sum([row["decisions"] for row in run.metrics], axis=0).tolist() == usage["decisions"]
    table = (result.run_dir / "metrics.csv").read_text()
    assert table.count("\n") == 5 and "overestimation" in table and "advantage" not in table
    assert "advantage" not in json.loads((result.run_dir / "summary.json").read_text())
    score, steps = run.evaluate(16, seed=3)
    assert score.shape == (16,) and set(score) <= {0.0, 1.0}
    assert steps.min() >= 1 and steps.max() == 6 and (steps[score == 0] == 6).all()
    assert np.array_equal(score, run.evaluate(16, seed=3)[0])
    observations = np.eye(2, 16, dtype=np.float32)
    own = [run.agent.values(observation) for observation in observations]
    np.testing.assert_allclose(run.values(observations), own, rtol=1e-4, atol=1e-6)
    assert not np.allclose(own[0], own[1])


def test_bundle_transfers_frozen(tiny_config, tmp_path):
    source = train(replace(tiny_config, out=str(tmp_path / "source")))
    bundle = str(source.run_dir / "similarity.safetensors")
    target = train(
        replace(tiny_config, seed=9, similarity_start=bundle, meta_learning_rate=0.0, out=str(tmp_path / "target"))
    )
    learned = masp.load_run(source.run_dir)
    frozen = masp.load_run(target.run_dir)
    np.testing.assert_array_equal(frozen.similarity, learned.similarity)
    assert frozen.actions == learned.actions
    moving = train(replace(tiny_config, seed=9, similarity_start=bundle, macros=bundle, out=str(tmp_path / "moving")))
    assert not np.array_equal(masp.load_run(moving.run_dir).similarity, learned.similarity)


def test_variants_see_the_right_actions(tiny_config, tmp_path):
    results = train_seeds(replace(tiny_config, variant="rainbow", out=str(tmp_path / "r")), [0, 1])
    run = masp.load_run(results[1].run_dir)
    assert run.path.name == "seed-1" and run.config.seed == 1
    assert len(run.actions) == 4 and run.config.similarity.penalty_weight == 0.0
    assert run.metrics[-1]["penalty"] == 0.0


def test_nothing_is_destroyed(tiny_config, tmp_path):
    config = replace(tiny_config, frames=60, out=str(tmp_path / "run"))
    train(config)
    before = (tmp_path / "run" / "metrics.jsonl").read_text()
    with pytest.raises(UserError, match="finished run"):
        train(config)
    with pytest.raises(UserError, match="finished run; --frames above 60 extends it"):
        train(config, resume=True)
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("all of it")
    with pytest.raises(UserError, match="not empty"):
        train(replace(config, out=str(tmp_path / "mine")))
    with pytest.raises(UserError, match="replay_steps is too small"):
        train(replace(config, replay_steps=6, out=str(tmp_path / "small")))
    assert not (tmp_path / "small").exists()


def test_resume_needs_the_same_settings(tiny_config, tmp_path):
    config = replace(tiny_config, out=str(tmp_path / "run"))
    with pytest.raises(Interrupted):
        train(config, callbacks=[InterruptAfter(180)])
    with pytest.raises(UserError, match="other settings"):
        train(replace(config, learning_rate=0.5), resume=True)


def test_macros_that_do_not_fit_are_refused(tiny_config, tmp_path):
    path = tmp_path / "macros.json"
    masp.ActionSet(18, [(17, 3)]).save(path)
    with pytest.raises(UserError, match=r"macro 0 uses action 17, but planted-grid has actions 0\.\.3"):
        train(replace(tiny_config, macros=str(path), out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_frames_that_are_all_warm_up_are_refused(tiny_config, tmp_path):
    with pytest.raises(UserError, match="all of 240 frames would be played before learning begins"):
        train(replace(tiny_config, min_replay_steps=300, out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_learning_waits_for_something_to_learn_from(tiny_config, tmp_path):
    """Three steps of each environment close no window of three decisions of up to four steps."""
    changes = {"env_options": ("size=4", "sequences=6", "max_steps=30"), "n_step": 3, "min_replay_steps": 0}
    out = tmp_path / "run"
    train(replace(tiny_config, frames=60, **changes, out=str(out)))
    for name, values in load_file(out / "policy.safetensors").items():
        assert np.isfinite(values).all(), name
