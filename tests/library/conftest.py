"""Settings of runs that take seconds."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def tiny() -> dict[str, Any]:
    """Settings for `masp.train`, without `out`."""
    return {
        "num_envs": 2,
        "frames": 240,
        "log_every_frames": 80,
        "eval_every_frames": 80,
        "eval_episodes": 2,
        "hidden": 8,
        "batch_size": 8,
        "replay_steps": 300,
        "min_replay_steps": 40,
        "steps_per_update": 8,
        "embedding": 4,
    }
