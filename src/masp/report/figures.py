"""Pictures for people: learning curves with bands, the similarity ordered by cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only, no window
import matplotlib.pyplot as plt
import numpy as np

from masp.report.statistics import bootstrap_interval

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
"""The first three as in the paper's figures, then the controls."""
INSIDE = " inside"
"""Ends the name of a column with credit inside macros, which has the colour of the one without."""


def colour_of(column: str) -> str | None:
    """The colour of a column; None: whichever comes next."""
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
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for variant, seeds in curves.items():
        frames, mean, low, high = _band(seeds)
        colour = colour_of(variant)
        axes.plot(frames, mean, label=f"{variant} ({len(seeds)} seeds)", color=colour, linewidth=2)
        axes.fill_between(frames, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="environment frames", ylabel=measure, title=title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save_figure(figure, path)


def _band(seeds: Sequence[Sequence[tuple[int, float]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and interval over seeds at the n-th point of each; their frames differ by a few ticks at most."""
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
    """Heat map of the similarity [A, A]; without an `order`, similar actions are put side by side."""
    order = cluster_order(similarity) if order is None else list(order)
    shown = np.array(similarity)[np.ix_(order, order)]
    off = shown[~np.eye(len(shown), dtype=bool)]
    size = min(4 + 0.06 * len(order), 10)
    figure, axes = plt.subplots(figsize=(size + 1, size), layout="constrained")
    # The diagonal is always one; the colours belong to the pairs.
    image = axes.imshow(shown, cmap="magma", vmin=0, vmax=max(float(off.max()) if off.size else 1.0, 1e-6))
    figure.colorbar(image, ax=axes, shrink=0.8, label="similarity")
    if len(order) <= 64:
        labels = [names[i] for i in order]
        font = 8 if len(order) <= 32 else 5
        axes.set_xticks(range(len(order)), labels, rotation=90, fontsize=font)
        axes.set_yticks(range(len(order)), labels, fontsize=font)
    else:
        axes.set(xlabel="action (ordered by cluster)", ylabel="action (ordered by cluster)")
    axes.set_title(title)
    save_figure(figure, path)


def cluster_order(similarity: np.ndarray) -> list[int]:
    """An order in which similar actions are neighbours: along the second eigenvectors of the normalised graph.

    Actions are sorted by cluster (nearest of a few leading eigenvectors), then within it by similarity to the
    cluster's centre.
    """
    weights = np.array(similarity, float)
    count = len(weights)
    if count < 3:
        return list(range(count))
    scale = 1 / np.sqrt(weights.sum(axis=1))
    eigenvalues, vectors = np.linalg.eigh(weights * scale[:, None] * scale[None, :])
    gaps = np.diff(eigenvalues[::-1][: min(count, 33)])
    clusters = int(np.argmin(gaps[1:])) + 2 if len(gaps) > 1 else 2  # the largest gap after the first
    points = vectors[:, -clusters:]
    points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    centres = [int(np.argmax(weights.sum(axis=1)))]
    for _ in range(clusters - 1):  # farthest first
        nearest = np.max(points @ points[centres].T, axis=1)
        centres.append(int(np.argmin(nearest)))
    closeness = points @ points[centres].T
    cluster = np.argmax(closeness, axis=1)
    return sorted(range(count), key=lambda i: (cluster[i], -closeness[i, cluster[i]], i))


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write and forget it; folders are made."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
