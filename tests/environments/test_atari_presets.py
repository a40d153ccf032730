"""The Atari presets against the paper's two tables, row by row."""

import pytest

from masp.config import to_flat
from masp.environments import make_env
from masp.presets import SWEEPS, from_preset

MAIN_TABLE = {
    "learning_rate": 6.25e-5,
    "batch_size": 32,
    "gamma": 0.99,
    "replay_steps": 10**6,
    "target_period_steps": 10_000,
    "max_gradient_norm": 10,
    "epsilon_start": 1.0,
    "epsilon_end": 0.01,
    "epsilon_decay_steps": 10**6,
    "n_step": 3,
    "noisy": True,
    "num_atoms": 51,
    "v_min": -10,
    "v_max": 10,
    "dueling": True,
    "priority_exponent": 0.5,
    "importance_start": 0.4,
    "importance_end": 1.0,
    "embedding": 32,
}


def test_paper_atari_holds_the_papers_tables():
    config = to_flat(from_preset("paper-atari", "Breakout"))
    assert {name: config[name] for name in MAIN_TABLE} == MAIN_TABLE
    assert (config["stack"], config["frames"]) == (1, 2 * 10**9)
    sweep = SWEEPS["paper-atari"]
    assert sweep["penalty_weight"] == (0.1, 0.3, 0.5, 0.7, 1.0)
    assert sweep["meta_learning_rate"] == (0.001, 0.005, 0.01)
    assert config["penalty_weight"] in sweep["penalty_weight"]
    assert config["meta_learning_rate"] in sweep["meta_learning_rate"]
    assert config["env_options"] == []  # the environment's own defaults are the paper's, next test


def test_the_environment_defaults_to_the_papers_preprocessing():
    atari = pytest.importorskip("masp.environments.atari")
    s = atari.AtariSettings()
    assert (s.max_frames, s.size, s.repeat, s.noops, s.full_actions, s.life_loss) == (108_000, 84, 4, 30, True, True)
    assert s.sticky == 0.25  # the paper says "sticky"; a quarter is what Machado et al. 2018 propose
    assert s.max_steps == 27_000
    assert make_env("Breakout").info.frames_per_step == 4


def test_the_tuned_preset_stacks_four_frames():
    config = from_preset("atari", "Breakout")
    assert config.agent.stack == 4
    assert config.agent.clip_rewards
