"""The similarity that comes from predicted outcomes finds the true groups, and the agent learns under it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_runs import BANDIT, separation, small_config

from masp.training.train import Result, train_seeds

SEEDS = (0, 1)
OUTCOMES: dict[str, Any] = {
    "variant": "outcomes",
    "intra_option": True,
    "penalty_weight": 0.16,
}


# Measured with seeds 0-4: return 0.887-0.945, AUC 1.000 in all, within / between 1.82-1.87.


def learn(folder: Path, seeds=SEEDS) -> list[Result]:
    return train_seeds(small_config(BANDIT, **OUTCOMES, frames=8_000, out=str(folder / "outcomes")), seeds)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Result]:
    return learn(tmp_path_factory.mktemp("bandit"))


def test_the_good_group_is_chosen(runs):
    assert np.mean([run.summary["eval_return"] for run in runs]) > 0.8


def test_the_groups_are_separated(runs):
    separations = [separation(run) for run in runs]
    assert np.mean([run.auc for run in separations]) > 0.85
    assert min(run.within / run.between for run in separations) > 1.3
