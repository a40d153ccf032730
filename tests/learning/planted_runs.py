"""Small runs on planted tasks, and what the learned similarity says about the true groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import masp
from masp.config import TrainConfig, replace
from masp.environments import make_env
from masp.presets import from_preset
from masp.training.train import Result

BANDIT = ("planted-bandit", ("contexts=4", "groups=4", "copies=4"))
"""16 actions in 4 groups; chance pays 0.3, the best choice 0.9."""
GRID = ("planted-grid", ("size=4", "copies=3", "max_steps=10"))
"""12 actions in 4 groups."""


class Separation(NamedTuple):
    """How the similarity of a run differs between pairs of one group and pairs of two groups."""

    auc: float  # chance that a pair within a group has a higher similarity than a pair between groups
    within: float  # mean similarity of pairs within a group
    between: float  # mean similarity of pairs of different groups


def small_config(task: tuple[str, tuple[str, ...]], **settings: Any) -> TrainConfig:
    """The preset of a planted task with a smaller network and more updates per frame, evaluated once at the end."""
    env, options = task
    small = {
        "env_options": options,
        "hidden": 32,
        "batch_size": 32,
        "steps_per_update": 8,
        "eval_every_frames": 0,
        "eval_episodes": 256,
    }
    return replace(from_preset("auto", env), **small | settings)


def separation(result: Result) -> Separation:
    """Compare the final similarity of a run with the true groups of its task."""
    run = masp.load_run(result.run_dir)
    groups = make_env(run.config.env, run.config.env_options).info.groups
    above = np.triu_indices(len(groups), 1)
    same_group = (groups[:, None] == groups)[above]
    similarity = np.asarray(run.similarity)[above]
    within, between = similarity[same_group], similarity[~same_group]
    difference = within[:, None] - between
    return Separation(float(np.mean((difference > 0) + 0.5 * (difference == 0))), within.mean(), between.mean())


def training_success(result: Result) -> float:
    """Share of successful training episodes, averaged over the rows of the metrics: the area under the curve."""
    rows = masp.load_run(result.run_dir).metrics
    return float(np.mean([row["success"] for row in rows if row["success"] is not None]))
