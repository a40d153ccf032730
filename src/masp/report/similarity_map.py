"""Heat map of a similarity, ordered by cluster, with the names of the actions and what a reader must know beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import Normalize

from masp.printable import figure_text
from masp.report.figures import note, save_figure, subplots

MOST_NAMES = 64
"""Actions up to which each has its name at the axis; above, each cluster has."""
SMALLEST_CLUSTER = 0.03
"""Share of the actions below which a cluster has no room for a name."""


def similarity_map(
    similarity: np.ndarray,
    names: Sequence[str],
    path: str | os.PathLike[str],
    title: str,
    order: Sequence[int] | None = None,
) -> None:
    """Heat map of the similarity [A, A]; without an `order`, similar actions become neighbours.

    The diagonal is grey and does not set the scale of the colours.
    """
    similarity = np.array(similarity, float)
    by_cluster, cluster = clustered(similarity)
    order = by_cluster if order is None else list(order)
    pairs = similarity[~np.eye(len(similarity), dtype=bool)]
    ordered = np.ma.array(similarity[np.ix_(order, order)], mask=np.eye(len(order), dtype=bool))
    size = min(4 + 0.06 * len(order), 10)
    figure, axes = subplots(1, 1, (size + 1.6, size + 0.5))
    nothing = nothing_learned(similarity)
    scale, extend, remark = (Normalize(0, 1), "neither", "") if nothing else _scale(pairs)
    image = axes.imshow(ordered, cmap=matplotlib.colormaps["magma"].with_extremes(bad="#9e9e9e"), norm=scale)
    figure.colorbar(image, ax=axes, shrink=0.8, label="similarity", extend=extend)
    _label(axes, names, order, None if nothing else cluster)
    axes.set_title(figure_text(title) + (f"\n{nothing}" if nothing else ""), fontsize=11)
    note(figure, f"grey diagonal: an action and itself, 1 by definition{remark}")
    save_figure(figure, path)


def nothing_learned(similarity: np.ndarray) -> str:
    """A sentence for a similarity that tells no actions apart; empty for others."""
    pairs = similarity[~np.eye(len(similarity), dtype=bool)]
    if not pairs.size:
        return "there is only one action"
    if pairs.max() <= 1e-6:
        return "no pair is similar: every action stands alone"
    if np.ptp(pairs) <= 1e-6:
        return f"nothing was learned: all pairs are equally similar ({pairs.mean():.3g})"
    if pairs.std() < 0.02 * pairs.mean():
        return f"hardly anything was learned: all pairs are between {pairs.min():.3g} and {pairs.max():.3g}"
    return ""


def _scale(pairs: np.ndarray) -> tuple[Normalize, Any, str]:
    """Colours from 0 to the largest similarity of a pair, or to the top of all but a few; which end is cut; a note."""
    largest = float(pairs.max()) if pairs.size else 1.0
    top = float(np.quantile(pairs, 0.995)) if pairs.size else 1.0
    if largest <= 1.25 * top:
        return Normalize(0, max(largest, 1e-6)), "neither", ""
    above = int((pairs > top).sum() // 2)
    remark = f"; colours end at {top:.3g} (arrow): {above} pairs are above it, the largest {largest:.3g}"
    return Normalize(0, max(top, 1e-6)), "max", remark


def _label(axes: Any, names: Sequence[str], order: Sequence[int], cluster: np.ndarray | None) -> None:
    """Names of the actions, or of the clusters where there are too many; lines between clusters."""
    runs = [] if cluster is None else [list(run) for _, run in groupby(order, key=lambda action: cluster[action])]
    ends = np.cumsum([len(run) for run in runs])
    if 1 < len(runs) < len(order) / 2:
        for end in ends[:-1]:
            axes.axhline(end - 0.5, color="white", linewidth=0.8)
            axes.axvline(end - 0.5, color="white", linewidth=0.8)
    if len(order) <= MOST_NAMES:
        labels = [figure_text(_short(names[action])) for action in order]
        font = 8 if len(order) <= 32 else 5
        axes.set_xticks(range(len(order)), labels, rotation=90, fontsize=font)
        axes.set_yticks(range(len(order)), labels, fontsize=font)
        return
    large = [(run, end) for run, end in zip(runs, ends, strict=True) if len(run) >= SMALLEST_CLUSTER * len(order)]
    labels = [figure_text(_cluster_name([names[action] for action in run])) for run, _ in large]
    middles = [end - len(run) / 2 - 0.5 for run, end in large]
    axes.set_yticks(middles, labels, fontsize=8)
    axes.set_xticks([])
    axes.set_xlabel(f"{len(order)} actions, ordered by cluster")


def _cluster_name(names: Sequence[str]) -> str:
    """The shortest name, and how many there are besides."""
    return _short(shortest(names)) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def shortest(names: Sequence[str]) -> str:
    """The shortest name; of several, the first in the alphabet."""
    return min(names, key=lambda name: (len(name), name))


def _short(name: str) -> str:
    return name if len(name) <= 28 else name[:27] + "…"


def cluster_order(similarity: np.ndarray) -> list[int]:
    """An order in which similar actions are neighbours, see `clustered`."""
    return clustered(similarity)[0]


def clustered(similarity: np.ndarray) -> tuple[list[int], np.ndarray]:
    """An order in which similar actions are neighbours, and the cluster [A] of every action, by spectral clustering.

    The number of clusters is that of the leading eigenvectors of the normalised graph before the largest gap. Actions
    are sorted by cluster, then by closeness to the cluster's centre.
    """
    weights = np.array(similarity, float)
    count = len(weights)
    if count < 3:
        return list(range(count)), np.zeros(count, int)
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
    return sorted(range(count), key=lambda i: (cluster[i], -closeness[i, cluster[i]], i)), cluster
