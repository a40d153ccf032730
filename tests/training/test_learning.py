"""It learns: on tiny tasks with a known answer, with a margin."""

from __future__ import annotations

import numpy as np
import pytest

from masp.config import replace
from masp.presets import from_preset
from masp.training.train import train_seeds


@pytest.fixture(scope="module")
def bandit(tmp_path_factory):
    """16 actions that hide 4 groups, two seeds, everything else as in the preset."""
    config = replace(
        from_preset("auto", "planted-bandit"),
        env_options=("contexts=4", "groups=4", "copies=4"),
        frames=24_000,
        eval_every_frames=0,
        eval_episodes=512,
        penalty_weight=0.16,
        out=str(tmp_path_factory.mktemp("bandit") / "masp"),
    )
    return [result.summary for result in train_seeds(config, [0, 1])]


def test_the_good_group_is_chosen(bandit):
    # Chance pays 0.3, the best choice 0.9.
    assert np.mean([row["eval_return"] for row in bandit]) > 0.8


def test_the_groups_are_found(bandit):
    assert np.mean([row["similarity_auc"] for row in bandit]) > 0.85
