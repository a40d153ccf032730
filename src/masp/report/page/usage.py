"""Decisions of a run over training time, and the rewards that they earned."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from masp.report.page.groups import Group
from masp.report.page.maps import action_texts
from masp.report.page.runs import ReportRun

MOST_ACTIONS = 24
MOST_BINS = 60
MOST_RUNS = 60
"""Runs of a page whose usage is shown."""


def usages(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The usage of every run that has macros."""
    runs = [(group, run) for group in groups for run in group.runs if run.actions.macros]
    entries = [
        usage_data(f"{group.label}, seed {run.config.seed}: {group.task}", run) for group, run in runs[:MOST_RUNS]
    ]
    return [usage for usage in entries if usage is not None]


def usage_data(label: str, run: ReportRun) -> dict[str, Any] | None:
    """Shares of decisions of the most used actions, binned over time, and a table of the whole run; None: no rows."""
    frames, decisions = run.per_action("decisions")
    if not len(frames) or decisions.sum() == 0:
        return None
    starts = np.unique(np.linspace(0, len(frames), min(MOST_BINS, len(frames)) + 1).astype(int))[:-1]
    binned = np.add.reduceat(decisions, starts)  # [bins, A]
    ends = frames[np.append(starts[1:], len(frames)) - 1]
    totals = decisions.sum(axis=0)
    top = np.argsort(-totals, kind="stable")[:MOST_ACTIONS]
    shares = (binned / np.maximum(binned.sum(axis=1, keepdims=True), 1))[:, top].T  # [top, bins]
    scale = max(float(shares.max()), 1e-9)
    macros = np.arange(len(run.actions)) >= run.actions.num_primitives
    return {
        "label": label,
        **action_texts(run.actions, top.tolist()),
        "frames": [int(frame) for frame in ends],
        "scale": scale,
        "shares": base64.b64encode(np.round(shares * (255 / scale)).astype(np.uint8).tobytes()).decode(),
        "table": _table(run, totals, top),
        "left_out": len(run.actions) - len(top),
        "macros": _share(totals * macros, totals),
        "macro_steps": _share(totals * macros * run.actions.lengths, totals * run.actions.lengths),
        "macro_rewards": _reward_share(run, macros),
    }


def _table(run: ReportRun, totals: np.ndarray, top: np.ndarray) -> list[dict[str, Any]]:
    """Per action: share of decisions, of steps and of reward, and its value against the mean of all actions."""
    steps = totals * run.actions.lengths
    rewards = run.per_action("rewards")[1].sum(axis=0) if _has(run, "rewards") else None
    credit = run.per_action("advantage")[1]
    rows = []
    for action in top.tolist():
        row: dict[str, Any] = {"decisions": totals[action] / totals.sum(), "steps": steps[action] / steps.sum()}
        if rewards is not None:
            row["rewards"] = float(rewards[action])
        if len(credit):
            row["advantage"] = float(credit[-1, action])
        rows.append({name: float(f"{value:.4g}") for name, value in row.items() if np.isfinite(value)})
    return rows


def _reward_share(run: ReportRun, macros: np.ndarray) -> float | None:
    """Share of the reward that came while macros were played; None: not measured, or there are negative rewards."""
    if not _has(run, "rewards"):
        return None
    rewards = run.per_action("rewards")[1].sum(axis=0)
    return _share(rewards * macros, rewards) if rewards.min() >= 0 and rewards.sum() > 0 else None


def _has(run: ReportRun, name: str) -> bool:
    return len(run.per_action(name)[0]) == len(run.rows)


def _share(part: np.ndarray, whole: np.ndarray) -> float:
    return float(f"{part.sum() / max(whole.sum(), 1e-9):.4g}")
