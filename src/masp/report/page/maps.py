"""The similarity of runs over training time, ready to be drawn: in clustered order, quantised to bytes, with a tree."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform

from masp.errors import UserError
from masp.macros.actions import ActionSet, spell
from masp.report.page.groups import Group
from masp.report.page.runs import ReportRun
from masp.report.similarity_map import SMALLEST_CLUSTER, clustered, shortest
from masp.similarity.bundle import load_bundle
from masp.training.run_dir import RunDir
from masp.training.similarity_history import Snapshots, quantised, read_history

ALL_MAPS_BYTES = 3_000_000
"""Pairs of all maps of a page, one byte each."""
MOST_SNAPSHOTS = 24
FEWEST_SNAPSHOTS = 4
"""Fewer runs are shown rather than fewer snapshots than these."""
NOTHING_LEARNED = 5e-3
"""Below this standard deviation over pairs a map shows noise."""


class Moment(NamedTuple):
    """The similarity at one time."""

    frames: int
    similarity: np.ndarray  # [A, A]


def similarity_maps(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The maps of the runs with a penalty: the first seed of every group, then the second seeds, while they fit."""
    runs = [(i, group, run) for group in groups for i, run in enumerate(group.runs) if run.config.penalised]
    if not runs:
        return []
    pairs = max(len(run.actions) * (len(run.actions) - 1) // 2 for _, _, run in runs)
    most = max(ALL_MAPS_BYTES // max(FEWEST_SNAPSHOTS * pairs, 1), 1)
    chosen = sorted(runs, key=lambda entry: entry[0])[:most]
    snapshots = min(max(ALL_MAPS_BYTES // max(len(chosen) * pairs, 1), 1), MOST_SNAPSHOTS)
    maps = []
    for _, group, run in sorted(chosen, key=lambda entry: [g.label for g in groups].index(entry[1].label)):
        history = read_moments(run)
        if history is not None:
            label = f"{group.label}, seed {run.config.seed}: {group.task}"
            maps.append(map_data(label, run.actions, history, snapshots))
    return maps


def read_moments(run: ReportRun) -> Snapshots | None:
    """What the run has kept of its similarity, the newest last; None: nothing yet, or nothing that can be read."""
    files = RunDir(run.path)
    try:
        kept = read_history(files.history_file, len(run.actions))
        if kept is None or (kept.frames[-1] < run.frames and files.bundle_file.exists()):
            newest = quantised(run.frames, load_bundle(files.bundle_file).similarity)
            kept = newest if kept is None else kept.joined(newest)
    except UserError:  # there is no bundle yet, or a file is damaged: the rest of the page is worth showing
        return None
    return kept


def map_data(label: str, actions: ActionSet, history: Snapshots, most: int = MOST_SNAPSHOTS) -> dict[str, Any]:
    """One map: names, order and tree of the last moment, and the pairs of some moments in the order of the actions."""
    count = len(history.frames)
    kept = np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))
    last = history.matrix(count - 1)
    order, tree, clusters = _tree(last)
    values = history.pairs[kept] * (history.scales[kept, None] / 255)
    spread = float(last[~np.eye(len(last), dtype=bool)].std()) if len(last) > 1 else 0.0
    top, clipped = _top(values)
    return {
        "label": label,
        **action_texts(actions),
        "order": order,
        "tree": tree,
        "clusters": [
            [(low + high - 1) / 2, shortest([actions.names[action] for action in order[low:high]]), high - low - 1]
            for low, high in clusters
        ],
        "frames": history.frames[kept].tolist(),
        "scales": [float(f"{scale:.6g}") for scale in history.scales[kept]],
        "pairs": [base64.b64encode(row.tobytes()).decode() for row in history.pairs[kept]],
        "top": top,
        "clipped": clipped,
        "note": "All pairs are still about equally alike: nothing was learned yet, the pattern is noise."
        if spread < NOTHING_LEARNED
        else "",
    }


def action_texts(actions: ActionSet, chosen: Sequence[int] | None = None) -> dict[str, list[str]]:
    """Names of actions, and the primitives that they play."""
    names, primitives = actions.names, actions.names[: actions.num_primitives]
    indices = range(len(actions)) if chosen is None else chosen
    return {
        "names": [names[i] for i in indices],
        "sequences": [spell(actions.sequence(i), primitives) for i in indices],
    }


def _tree(similarity: np.ndarray) -> tuple[list[int], list[list[float]], list[tuple[int, int]]]:
    """Order of the leaves, merges (two nodes, height; nodes from A on are merges) and clusters of average linkage.

    Clusters are spans of the order: as many as `clustered` finds, but for very small ones.
    """
    count = len(similarity)
    if count < 3:
        return list(range(count)), [], []
    distance = np.clip(1 - (similarity + similarity.T) / 2, 0, 1)
    np.fill_diagonal(distance, 0)
    merges = linkage(squareform(distance, checks=False), "average", optimal_ordering=count <= 300)
    tree = [[int(a), int(b), round(float(height), 4)] for a, b, height, _ in merges]
    order = leaves_list(merges)
    cluster = fcluster(merges, len(np.unique(clustered(similarity)[1])), "maxclust")[order]
    edges = [0, *(np.flatnonzero(np.diff(cluster)) + 1).tolist(), count]
    spans = [(low, high) for low, high in itertools.pairwise(edges) if high - low >= SMALLEST_CLUSTER * count]
    return order.tolist(), tree, spans if len(spans) > 1 else []


def _top(values: np.ndarray) -> tuple[float, bool]:
    """Upper end of the colour scale, and whether a few pairs are above it; the diagonal is not among the pairs."""
    if not values.size or values.max() <= 0:
        return 1.0, False
    highest, usual = float(values.max()), float(np.quantile(values, 0.998))
    if usual > 0 and highest > 2 * usual:
        return float(f"{usual:.3g}"), True
    return float(f"{highest:.3g}"), False
