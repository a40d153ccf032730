"""Numbers that are not finite are found within one row of the metrics, and named."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np

from masp.agent.agent import Report
from masp.errors import TrainingError
from masp.training.evaluation import FLAWS, Played


def require_finite(report: Report, env: str, run: Path, frames: int) -> None:
    """Raise `TrainingError` if an observation, reward, loss, gradient, similarity or parameter is not finite.

    The environments are looked at first: what they return is the cause of all that follows.
    """
    problem = _problem(report, env)
    if problem:
        raise TrainingError(
            f"{problem} (at {frames:,} frames of {run}); checkpoints from before stay, --resume goes on from the last"
        )


def require_finite_evaluation(played: Played, env: str, hint: str = "") -> None:
    """Raise `TrainingError` if episodes have a number that is not finite, or an action mask that allows nothing.

    Args:
      hint: end of the message.
    """
    flawed = np.argwhere(np.asarray(played.flaw) > 0)
    if len(flawed):
        flaw = FLAWS[int(np.asarray(played.flaw)[tuple(flawed[0])])]
        raise TrainingError(f"{env}: {flaw} (evaluation episode {int(flawed[0, -1])}){hint}")
    for name, values in played._asdict().items():
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            raise TrainingError(f"{env}: the {name} of evaluation episode {int(bad[0, -1])} is not finite{hint}")


def _problem(report: Report, env: str) -> str:
    tally = report.tally
    if int(tally.bad_tick) >= 0:
        where = f"environment {int(tally.bad_env)}, tick {int(tally.bad_tick)}"
        return f"{env}: an observation or reward is not a finite number ({where})"
    if int(tally.empty_mask_tick) >= 0:
        where = f"environment {int(tally.empty_mask_env)}, after tick {int(tally.empty_mask_tick)}"
        return f"{env}: the action mask allows no action ({where})"
    for name, value in tally.metrics._asdict().items():
        if not np.isfinite(value):
            return f"{name.replace('_', ' ')} is not finite; a smaller --learning-rate or --penalty-weight may help"
    if not np.isfinite(report.similarity).all():
        return "the similarity is not finite"
    for path, leaf in jax.tree_util.tree_leaves_with_path(report.params):
        if not np.isfinite(leaf).all():
            return f"parameter {jax.tree_util.keystr(path)} is not finite"
    return ""
