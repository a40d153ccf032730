"""A tiny run that every part of training can afford."""

from __future__ import annotations

from typing import Any

import pytest

from masp.config import TrainConfig, replace


@pytest.fixture
def tiny_config() -> TrainConfig:
    """`masp` on a small grid; scalar values and plain layers, because they compile in half the time."""
    changes: dict[str, Any] = {
        "env_options": ("size=4", "copies=2", "max_steps=6"),
        "num_envs": 3,
        "frames": 240,
        "log_every_frames": 60,
        "eval_every_frames": 120,
        "eval_episodes": 8,
        "hidden": 8,
        "num_atoms": 1,
        "noisy": False,
        "batch_size": 8,
        "replay_steps": 300,
        "min_replay_steps": 40,
        "steps_per_update": 6,
        "target_period_steps": 60,
        "epsilon_decay_steps": 200,
        "embedding": 4,
        "learning_rate": 1e-2,
        "meta_learning_rate": 1e-2,
        "meta_period_updates": 1,
    }
    return replace(TrainConfig(env="planted-grid"), **changes)
