"""Figures of runs: learning curves, the similarity ordered by cluster, and the effects of the penalty."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from masp.errors import UserError
from masp.printable import figure_text
from masp.report.statistics import bootstrap_interval
from masp.whole_file import whole_file

Row = Mapping[str, Any]

_BLUE, _RED, _GREY = "#1f3b73", "#cc2936", "#8c8c8c"

EFFECTS: dict[str, dict[str, tuple[str, str]]] = {
    "predicted and obtained return": {
        "predicted_return": ("predicted at the start", _RED),
        "discounted_return": ("obtained", _BLUE),
    },
    "how values spread over actions": {
        "q_spread": ("all actions, in batches", _GREY),
        "q_spread_within": ("within groups", _RED),
        "q_spread_between": ("between groups", _BLUE),
    },
    "best macro above best primitive": {"macro_lead": ("", _RED)},
    "effective number of actions": {
        "effective_actions": ("decided on", _BLUE),
        "effective_neighbours": ("averaged over by the similarity", _RED),
    },
}
"""Panel to metric to its label and colour."""

COLOURS = {
    "rainbow": "#1f3b73",
    "macros": "#6fa8dc",
    "masp": "#cc2936",
    "uniform": "#8c8c8c",
    "random": "#c9a227",
    "overlap": "#5a9367",
    "prior": "#e8871e",
    "outcomes": "#7b3fa0",
    "truth": "#111111",
}
"""The first three as in the paper's figures."""
INSIDE = " inside"
"""Suffix of columns with intra-option learning, which have the colour of the column without."""


def colour_of(column: str) -> str | None:
    """The colour of a column; None: the next colour of the axes."""
    return COLOURS.get(column.removesuffix(INSIDE))


def learning_curves(
    curves: Mapping[str, Sequence[Sequence[tuple[int, float]]]],
    path: str | os.PathLike[str],
    title: str,
    measure: str,
) -> None:
    """One line per variant, mean over seeds with a 95 % band.

    Args:
      curves: variant to seeds to (frames, value) points.
    """
    figure, axes = subplots(1, 1, (7, 4.2))
    for variant, seeds in curves.items():
        frames, mean, low, high = _band(seeds)
        colour = colour_of(variant)
        axes.plot(frames, mean, label=f"{variant} ({len(seeds)} seeds)", color=colour, linewidth=2)
        axes.fill_between(frames, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="environment frames", ylabel=measure, title=figure_text(title))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save_figure(figure, path)


def _band(seeds: Sequence[Sequence[tuple[int, float]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Frames, mean, low and high at the n-th point of all seeds, whose frames differ by a few ticks at most."""
    points = min(len(seed) for seed in seeds)
    values = np.array([[value for _, value in seed[:points]] for seed in seeds])
    frames = np.mean([[at for at, _ in seed[:points]] for seed in seeds], axis=0)
    intervals = np.array([bootstrap_interval(values[:, i], samples=2000) for i in range(points)])
    return frames, values.mean(axis=0), intervals[:, 0], intervals[:, 1]


def similarity_map(
    similarity: np.ndarray,
    names: Sequence[str],
    path: str | os.PathLike[str],
    title: str,
    order: Sequence[int] | None = None,
) -> None:
    """Heat map of the similarity [A, A]; without an `order`, similar actions become neighbours."""
    order = cluster_order(similarity) if order is None else list(order)
    ordered = np.array(similarity)[np.ix_(order, order)]
    pairs = ordered[~np.eye(len(ordered), dtype=bool)]
    size = min(4 + 0.06 * len(order), 10)
    figure, axes = subplots(1, 1, (size + 1, size))
    # The diagonal is always one, so the colour scale ends at the largest other entry.
    image = axes.imshow(ordered, cmap="magma", vmin=0, vmax=max(float(pairs.max()) if pairs.size else 1.0, 1e-6))
    figure.colorbar(image, ax=axes, shrink=0.8, label="similarity")
    if len(order) <= 64:
        labels = [figure_text(names[i]) for i in order]
        font = 8 if len(order) <= 32 else 5
        axes.set_xticks(range(len(order)), labels, rotation=90, fontsize=font)
        axes.set_yticks(range(len(order)), labels, fontsize=font)
    else:
        axes.set(xlabel="action (ordered by cluster)", ylabel="action (ordered by cluster)")
    axes.set_title(figure_text(title))
    save_figure(figure, path)


def cluster_order(similarity: np.ndarray) -> list[int]:
    """An order in which similar actions are neighbours, by spectral clustering.

    The number of clusters is that of the leading eigenvectors of the normalised graph before the largest gap. Actions
    are sorted by cluster, then by closeness to the cluster's centre.
    """
    weights = np.array(similarity, float)
    count = len(weights)
    if count < 3:
        return list(range(count))
    scale = 1 / np.sqrt(weights.sum(axis=1))
    eigenvalues, vectors = np.linalg.eigh(weights * scale[:, None] * scale[None, :])
    gaps = np.diff(eigenvalues[::-1][: min(count, 33)])
    clusters = int(np.argmin(gaps[1:])) + 2 if len(gaps) > 1 else 2  # the largest gap, without the first
    points = vectors[:, -clusters:]
    points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    centres = [int(np.argmax(weights.sum(axis=1)))]
    for _ in range(clusters - 1):  # farthest first
        nearest = np.max(points @ points[centres].T, axis=1)
        centres.append(int(np.argmin(nearest)))
    closeness = points @ points[centres].T
    cluster = np.argmax(closeness, axis=1)
    return sorted(range(count), key=lambda i: (cluster[i], -closeness[i, cluster[i]], i))


def effects_picture(
    rows: Sequence[Row], names: Sequence[str], path: str | os.PathLike[str], title: str, most: int = 40
) -> None:
    """The effects of the penalty on a run: curves of its metrics, and per action the share of decisions and the value.

    Args:
      rows: metrics with the lists `decisions` and `advantage`.
      names: [A] names of the actions.
      most: number of actions to show, by number of decisions.
    """
    decisions = np.array([row["decisions"] for row in rows], float)  # [rows, A]
    top = np.argsort(-decisions.sum(axis=0), kind="stable")[:most]
    height = 6.4 + max(2.4, 0.16 * len(top))
    figure = Figure(figsize=(11, height), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[6.0, height - 6.0])
    upper, lower = parts
    for axis, (name, columns) in zip(upper.subplots(2, 2).flat, EFFECTS.items(), strict=True):
        _effect_curves(axis, rows, name, columns)
    left, right = lower.subplots(1, 2)
    shares = decisions / np.maximum(decisions.sum(axis=1, keepdims=True), 1)
    labels = [figure_text(names[action]) for action in top]
    few = "" if len(top) == len(names) else f" ({len(top)} of {len(names)})"
    _action_map(left, rows, shares[:, top], labels, f"share of decisions{few}", "viridis", False)
    advantage = np.array([row["advantage"] for row in rows])[:, top]
    _action_map(right, rows, advantage, labels, "value above the mean of all actions", "RdBu_r", True)
    figure.suptitle(figure_text(title), fontsize=11)
    save_figure(figure, path)


def _effect_curves(axis: Any, rows: Sequence[Row], name: str, columns: Mapping[str, tuple[str, str]]) -> None:
    curves = 0
    for column, (label, colour) in columns.items():
        points = [(row["frames"], row[column]) for row in rows if row[column] is not None]
        if points:
            axis.plot(*zip(*points, strict=True), label=label, color=colour, marker=".", linewidth=1.5)
            curves += 1
    axis.set_title(name, fontsize=10)
    axis.set_xlabel("environment frames", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3)
    if curves and any(label for label, _ in columns.values()):
        axis.legend(frameon=False, fontsize=8)
    if not curves:
        axis.text(0.5, 0.5, "not measured in this run", ha="center", va="center", transform=axis.transAxes)
    if name.startswith("best macro"):
        axis.axhline(0, color="black", linewidth=0.8)


def _action_map(
    axis: Any, rows: Sequence[Row], values: np.ndarray, labels: Sequence[str], name: str, colours: str, signed: bool
) -> None:
    """Heat map of values [rows, A] with one line per action."""
    high = max(float(np.quantile(np.abs(values), 0.98)), 1e-9)  # ignore a few outliers at the start
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


def subplots(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """A figure with axes; without pyplot, whose backend belongs to the user."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure; create its folder if needed."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    suffix = Path(path).suffix.removeprefix(".") or "png"
    if suffix not in figure.canvas.get_supported_filetypes():
        raise UserError(f"{path}: a picture cannot be .{suffix}; use .png, .svg or .pdf")
    with whole_file(path) as file:
        figure.savefig(file, format=suffix, dpi=130)
