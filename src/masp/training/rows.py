"""Columns of the metrics, from the report of a loop; masp/report/metric_texts.py says how to read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from masp.agent.agent import Report
from masp.environments.base import EnvInfo
from masp.macros.actions import ActionSet
from masp.similarity import effects
from masp.similarity.matrix import group_auc
from masp.training.evaluation import Played


def training_row(report: Report, info: EnvInfo) -> dict[str, Any]:
    """How the episodes since the last row went, and means over their updates; blanks where no episode ended."""
    tally = report.tally
    episodes, updates = int(tally.episodes), max(int(tally.updates), 1)
    row: dict[str, Any] = {"episodes": episodes, "return": None, "success": None, "episode_steps": None}
    if episodes:
        row["return"] = float(tally.score) / episodes
        unknown = info.success_above is None and not int(tally.judged)
        row["success"] = None if unknown else int(tally.successes) / episodes
        row["episode_steps"] = int(tally.episode_steps) / episodes
    row["decision_steps"] = float(report.steps) / max(float(report.usage.sum()), 1.0)
    return row | {name: float(value) / updates for name, value in tally.metrics._asdict().items()}


def similarity_row(similarity: np.ndarray, groups: np.ndarray | None) -> dict[str, Any]:
    """What the similarity [A, A] looks like, and how well it tells the true groups [A] apart where they are known."""
    off = similarity[~np.eye(len(similarity), dtype=bool)]
    return {
        "similarity_mean": float(off.mean()) if off.size else 0.0,
        "similarity_std": float(off.std()) if off.size else 0.0,
        "similarity_auc": None if groups is None else group_auc(similarity, groups),
    }


def true_groups(info: EnvInfo, actions: ActionSet) -> np.ndarray | None:
    """[A] the group of every action, where the task was made with some and is played with its own macros."""
    groups = info.groups
    if groups is None or actions != info.actions:
        return None
    # With one group, or one group per action, there is nothing to find.
    return None if len(np.unique(groups)) in (1, len(groups)) else groups


def effects_row(
    values: np.ndarray,
    decisions: np.ndarray,
    similarity: np.ndarray,
    first_macro: int,
    groups: np.ndarray | None,
    active: bool,
) -> dict[str, Any]:
    """What the penalty does, see `effects`.

    Args:
      values: [B, A] action values of states from the replay.
      decisions: [A] decisions since the last row.
      similarity: [A, A].
      first_macro: number of the first action that is a macro.
      groups: [A] true groups, where they are known.
      active: whether this run has a penalty; runs that train together may differ in it.
    """
    if groups is None and active:
        groups = effects.clusters(similarity)
    within, between = (None, None) if groups is None else effects.spread(values, groups)
    return {
        "q_spread_within": within,
        "q_spread_between": between,
        "clusters": None if groups is None else len(np.unique(groups)),
        "macro_share": float(decisions[first_macro:].sum() / max(decisions.sum(), 1)),
        "macro_lead": effects.macro_lead(values, first_macro),
        "effective_actions": float(effects.effective_number(decisions.astype(float))),
        "effective_neighbours": float(effects.effective_number(similarity).mean()) if active else None,
        "decisions": decisions.tolist(),
        "advantage": [float(f"{advantage:.5g}") for advantage in effects.advantages(values)],
    }


EVALUATION = (
    "eval_return",
    "eval_success",
    "eval_episode_steps",
    "predicted_return",
    "discounted_return",
    "overestimation",
)


def evaluation_row(info: EnvInfo, played: Played | None, seed: int) -> dict[str, Any]:
    """How the episodes of an evaluation went, and whether the agent got what it expected; blanks without one."""
    if played is None:
        return dict.fromkeys(EVALUATION)
    one = Played(*(part[seed] for part in played))
    score, steps, predicted, obtained, *_ = one
    successes = one.successes(info.success_above)
    success = None if successes is None else float(np.mean(successes))
    expected, real = float(predicted.mean()), float(obtained.mean())
    figures = (float(score.mean()), success, float(steps.mean()), expected, real, expected - real)
    return dict(zip(EVALUATION, figures, strict=True))
