"""Intervals against known answers; figures that put clusters side by side."""

import numpy as np
import pytest

from masp.report.figures import cluster_order, learning_curves
from masp.report.statistics import bootstrap_interval


def test_interval_of_equal_values_is_a_point():
    assert bootstrap_interval([0.25] * 5) == (0.25, 0.25)


def test_interval_has_the_right_width():
    """For many normal values the bootstrap gives mean +- 1.96 s / sqrt(n)."""
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    low, high = bootstrap_interval(values)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.03)
    assert high == pytest.approx(values.mean() + half, abs=0.03)


def test_clusters_are_put_side_by_side():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(4), 6))
    similarity = np.where(groups[:, None] == groups[None], 0.8, 0.05)
    np.fill_diagonal(similarity, 1.0)
    ordered = groups[cluster_order(similarity)]
    assert sorted(cluster_order(similarity)) == list(range(24))
    assert np.count_nonzero(np.diff(ordered)) == 3


def test_curves_are_drawn(tmp_path):
    seeds = [[(0, 0.0), (10, 1.0)], [(1, 0.2), (11, 0.8), (20, 1.0)]]
    learning_curves({"masp": seeds}, tmp_path / "curve.png", "title", "success")
    assert (tmp_path / "curve.png").stat().st_size > 5000
