"""Runs that train together in one program do what each would do alone."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

import masp
from masp.cli.main import main
from masp.config import replace
from masp.environments import make_env
from masp.errors import UserError
from masp.training.lanes import shared_config, start_of
from masp.training.train import train, train_lanes


def test_lanes_equal_runs_alone(tiny_config, tmp_path):
    """Other weights, learning rates, starts, frozen or not: beside each other as by themselves."""
    settings = [
        {"penalty_weight": 0.3, "meta_learning_rate": 0.01},
        {"penalty_weight": 0.1, "meta_learning_rate": 0.03, "similarity_start_value": 0.1, "seed": 1},
        {"penalty_weight": 0.3, "learn_similarity": False, "similarity_start": "overlap", "seed": 2},
    ]
    lanes = [replace(tiny_config, **changes, out=str(tmp_path / f"lane-{i}")) for i, changes in enumerate(settings)]
    train_lanes(lanes)
    for i, lane in enumerate(lanes):
        alone = masp.load_run(train(replace(lane, out=str(tmp_path / f"alone-{i}"))).run_dir)
        beside = masp.load_run(lane.out)
        assert beside.config == replace(alone.config, out=lane.out)
        # All lanes go on until the slowest has its frames, so later rows may be of different updates.
        same = [
            rows for rows in zip(beside.metrics, alone.metrics, strict=True) if rows[0]["frames"] == rows[1]["frames"]
        ]
        assert len(same) >= 2 and same[-1][0]["updates"] > 10
        for ours, theirs in same:
            for name in ("updates", "episodes", "return", "td_loss", "penalty", "q_mean", "gradient_norm"):
                assert ours[name] == pytest.approx(theirs[name], rel=1e-3), name
            if lane.similarity.learn_similarity:
                assert ours["meta_gradient_norm"] == pytest.approx(theirs["meta_gradient_norm"], rel=1e-3)
        if len(same) == len(alone.metrics):
            np.testing.assert_allclose(beside.similarity, alone.similarity, atol=1e-3)
    moved = [masp.load_run(lane.out).similarity for lane in lanes]
    assert not np.allclose(moved[0], moved[1], atol=1e-3)
    assert set(np.unique(moved[2])) == {0.0, np.float32(0.03), 1.0}  # overlap of copies, frozen at its start


def test_what_needs_another_program_is_refused(tiny_config):
    with pytest.raises(UserError, match="hidden 8 and 16 cannot train in one program"):
        shared_config([tiny_config, replace(tiny_config, hidden=16)])


def test_the_program_has_what_any_lane_needs(tiny_config):
    frozen, plain = replace(tiny_config, learn_similarity=False), replace(tiny_config, penalty_weight=0.0)
    assert not shared_config([frozen]).similarity.learns
    assert not shared_config([plain]).similarity.active
    assert shared_config([frozen, plain, tiny_config]).similarity.learns


SMALL = ["planted-grid", "--env-options", "size=4", "copies=2", "max_steps=6", "--frames", "120", "--hidden", "8"]
SMALL += ["--log-every-frames", "60", "--eval-every-frames", "0", "--eval-episodes", "4", "--min-replay-steps", "60"]
SMALL += ["--replay-steps", "300", "--num-envs", "3", "--steps-per-update", "6"]


def test_sweep_command(tmp_path, capsys):
    out = tmp_path / "sweep"
    vary = ["--vary", "penalty_weight=0,0.1", "--vary", "learn_similarity=true,false"]
    assert main(["sweep", *SMALL, *vary, "--seeds", "2", "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(p["penalty_weight"], p["learn_similarity"]) for p in found["points"]] == [
        (0.0, True),
        (0.0, False),
        (0.1, True),
        (0.1, False),
    ]
    assert len(list(out.glob("*/seed-*/summary.json"))) == 8
    run = masp.load_run(out / "penalty_weight=0.1,learn_similarity=False" / "seed-1")
    assert run.config.similarity.penalty_weight == 0.1 and run.config.seed == 1
    files = (out / "penalty_weight=0.1,learn_similarity=False").glob("seed-*/summary.json")
    successes = [json.loads(file.read_text())["eval_success"] for file in files]
    point = found["points"][-1]
    assert point["eval_success"] == pytest.approx(np.mean(successes))
    low, high = point["eval_success_interval"]
    assert min(successes) <= low <= point["eval_success"] <= high <= max(successes)


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ("penalty=1", "no such setting"),
        ("penalty_weight", "should look like"),
        ("penalty_weight=0.1,x", "must be a number"),
        ("penalty_weight=-1", "at least 0"),
        ("held_out=now", "must be one of separate, next"),
        ("seed=1,2", "cannot be swept"),
        ("env_options=a", "no values that can be listed"),
    ],
)
def test_bad_sweeps_get_one_line(vary, message, tmp_path, capsys):
    assert main(["sweep", *SMALL, "--vary", vary, "--out", str(tmp_path / "s")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(("start", "left"), [("constant", 0.5), ("random", 0.5), ("overlap", 1.0)])
def test_many_actions_share_weight_and_start(tiny_config, start, left):
    """Eight actions where four have the full weight: half of it; an overlap is what it is."""
    info = make_env(tiny_config.env, tiny_config.env_options).info
    key = jax.random.PRNGKey(0)
    settings = {"penalty_weight": 0.2, "similarity_start": start, "similarity_start_value": 0.1}
    full, shared = (
        start_of(replace(tiny_config, **settings, full_weight_actions=n), info, info.actions, key) for n in (8, 4)
    )
    assert len(info.actions) == 8
    assert float(full.hyper.penalty_weight) == pytest.approx(0.2)
    assert float(shared.hyper.penalty_weight) == pytest.approx(0.1)
    away = ~np.eye(8, dtype=bool)
    np.testing.assert_allclose(shared.similarity[away], left * full.similarity[away], rtol=1e-6)
    never = start_of(replace(tiny_config, **settings), info, info.actions, key)
    np.testing.assert_array_equal(never.similarity, full.similarity)
