"""One picture of what the penalty does to a run, from its metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from masp.report.figures import plt, save_figure

Row = Mapping[str, Any]

BLUE, RED, GREY = "#1f3b73", "#cc2936", "#8c8c8c"

LINES: dict[str, dict[str, tuple[str, str]]] = {
    "does it get what it expects?": {
        "predicted_return": ("expected at the start", RED),
        "discounted_return": ("obtained", BLUE),
    },
    "how values spread over actions": {
        "q_spread": ("all actions, in batches", GREY),
        "q_spread_within": ("within groups", RED),
        "q_spread_between": ("between groups", BLUE),
    },
    "best macro above best primitive": {"macro_lead": ("", RED)},
    "effective number of actions": {
        "effective_actions": ("decided on", BLUE),
        "effective_neighbours": ("averaged over by the similarity", RED),
    },
}
"""Panel to column to its label and colour."""


def effects_picture(
    rows: Sequence[Row], names: Sequence[str], path: str | os.PathLike[str], title: str, most: int = 40
) -> None:
    """Lines over frames, and of each action how often it was decided on and what it is valued.

    Args:
      rows: metrics with their lists, `decisions` and `advantage`.
      names: [A] of the actions.
      most: actions to show; those decided on most.
    """
    decisions = np.array([row["decisions"] for row in rows], float)  # [rows, A]
    shown = np.argsort(-decisions.sum(axis=0), kind="stable")[:most]
    height = 6.4 + max(2.4, 0.16 * len(shown))
    figure = plt.figure(figsize=(11, height), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[6.0, height - 6.0])
    upper, lower = parts
    for axis, (name, columns) in zip(upper.subplots(2, 2).flat, LINES.items(), strict=True):
        _lines(axis, rows, name, columns)
    left, right = lower.subplots(1, 2)
    shares = decisions / np.maximum(decisions.sum(axis=1, keepdims=True), 1)
    labels = [names[action] for action in shown]
    few = "" if len(shown) == len(names) else f" ({len(shown)} of {len(names)})"
    _by_action(left, rows, shares[:, shown], labels, f"share of decisions{few}", "viridis", False)
    advantage = np.array([row["advantage"] for row in rows])[:, shown]
    _by_action(right, rows, advantage, labels, "value above the mean of all actions", "RdBu_r", True)
    figure.suptitle(title, fontsize=11)
    save_figure(figure, path)


def _lines(axis: Any, rows: Sequence[Row], name: str, columns: Mapping[str, tuple[str, str]]) -> None:
    drawn = 0
    for column, (label, colour) in columns.items():
        points = [(row["frames"], row[column]) for row in rows if row[column] is not None]
        if points:
            axis.plot(*zip(*points, strict=True), label=label, color=colour, marker=".", linewidth=1.5)
            drawn += 1
    axis.set_title(name, fontsize=10)
    axis.set_xlabel("environment frames", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3)
    if drawn and any(label for label, _ in columns.values()):
        axis.legend(frameon=False, fontsize=8)
    if not drawn:
        axis.text(0.5, 0.5, "not measured in this run", ha="center", va="center", transform=axis.transAxes)
    if name.startswith("best macro"):
        axis.axhline(0, color="black", linewidth=0.8)


def _by_action(
    axis: Any, rows: Sequence[Row], values: np.ndarray, labels: Sequence[str], name: str, colours: str, signed: bool
) -> None:
    """Values [rows, A] as a map, one line per action."""
    high = max(float(np.quantile(np.abs(values), 0.98)), 1e-9)  # a few outliers at the start must not hide the rest
    edges = [0, *[row["frames"] for row in rows]]
    image = axis.pcolormesh(
        edges, np.arange(len(labels) + 1), values.T, cmap=colours, vmin=-high if signed else 0, vmax=high
    )
    axis.set_yticks(np.arange(len(labels)) + 0.5, labels, fontsize=7 if len(labels) <= 32 else 6)
    axis.invert_yaxis()
    axis.set_xlabel("environment frames", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    axis.set_title(name, fontsize=10)
    axis.figure.colorbar(image, ax=axis, shrink=0.9)
