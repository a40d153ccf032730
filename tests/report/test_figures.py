"""Figures: clusters become neighbours, and curves are written."""

import numpy as np

from masp.report.figures import cluster_order, learning_curves


def test_clusters_become_neighbours():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(4), 6))
    similarity = np.where(groups[:, None] == groups[None], 0.8, 0.05)
    np.fill_diagonal(similarity, 1.0)
    ordered = groups[cluster_order(similarity)]
    assert sorted(cluster_order(similarity)) == list(range(24))
    assert np.count_nonzero(np.diff(ordered)) == 3


def test_curves_are_written(tmp_path):
    seeds = [[(0, 0.0), (10, 1.0)], [(1, 0.2), (11, 0.8), (20, 1.0)]]
    learning_curves({"masp": seeds}, tmp_path / "curve.png", "title", "success")
    assert (tmp_path / "curve.png").stat().st_size > 5000
