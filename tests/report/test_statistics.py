"""Statistics over tasks and seeds: by hand, and against rliable.

The reference values were computed once with rliable 1.2.0 (arch 7.2.0, pandas 2.3.3, NumPy 2.4.6) in an environment of
its own, with 50,000 samples for intervals of mean and IQM, 2,000 for the probability of improvement and 20,000 for the
profile, and the default seeds. Intervals agree up to sampling error.
"""

import numpy as np
import pytest

from masp.report.statistics import (
    aggregate,
    bootstrap_interval,
    compare,
    difference_of,
    improvement_of,
    iqm_of,
    mean_of,
    performance_profile,
    profile_band,
)

X = np.array(
    [[0.3, 0.122, 0.312, 0.176, 0.321], [0.53, 0.455, 0.634, 0.549, 0.407], [0.818, 0.603, 0.752, 1.007, 0.891]]
)
Y = np.array(
    [[0.339, -0.18, 0.3, 0.231, 0.092], [0.455, 0.421, 0.423, 0.531, 0.545], [0.463, 0.047, 0.681, -0.155, 0.634]]
)
"""[tasks, runs], with two ties between X and Y."""


@pytest.mark.parametrize(
    ("scores", "statistic", "value", "low", "high"),
    [
        (X, mean_of, 0.5251333333333333, 0.47326666666666667, 0.5761333333333333),
        (X, iqm_of, 0.507, 0.46, 0.5626666666666666),
        (Y, mean_of, 0.3218, 0.2056, 0.4291333333333333),
        (Y, iqm_of, 0.3616666666666667, 0.2163305555555557, 0.4566694444444447),
    ],
)
def test_aggregates_agree_with_rliable(scores, statistic, value, low, high):
    figures = aggregate(scores, statistic, samples=20_000)
    assert figures[0] == pytest.approx(value, rel=1e-12)
    assert figures[1:] == pytest.approx((low, high), abs=0.004)


def test_probability_of_improvement_agrees_with_rliable():
    value, low, high = compare(X, Y, improvement_of, samples=5_000)
    assert value == pytest.approx(0.72, rel=1e-12)
    assert (low, high) == pytest.approx((0.5333333333333333, 0.8933333333333334), abs=0.02)


def test_profile_agrees_with_rliable():
    thresholds = np.linspace(0, 1.2, 7)
    profile = performance_profile(X, thresholds)
    assert profile == pytest.approx([1, 13 / 15, 10 / 15, 6 / 15, 3 / 15, 1 / 15, 0])
    low, high = profile_band(X, thresholds, samples=5_000)
    assert low == pytest.approx([1, 11 / 15, 10 / 15, 5 / 15, 1 / 15, 0, 0])
    assert high == pytest.approx([1, 1, 10 / 15, 8 / 15, 5 / 15, 3 / 15, 0])


def test_interquartile_mean_by_hand():
    """Of eight runs the two lowest and the two highest are left out."""
    assert aggregate([[0, 100, 3, 4], [1, -50, 5, 99]], iqm_of)[0] == (1 + 3 + 4 + 5) / 4


def test_tasks_have_equal_weight():
    assert aggregate([[1.0], [0.0, 0.0, 0.0]], mean_of)[0] == 0.5
    assert performance_profile([[1.0], [0.0, 0.0, 0.0]], np.array([0.5]))[0] == 0.5


def test_the_bootstrap_is_stratified():
    """Runs are resampled within their task, so differences between tasks do not widen the interval."""
    assert aggregate([[0.0, 0.0], [1000.0, 1000.0]], mean_of) == (500.0, 500.0, 500.0)


def test_improvement_by_hand():
    """3 beats both, 1 ties with one and beats none: (2 + 0.5) / 4."""
    assert compare([[3.0, 1.0]], [[1.0, 2.0]], improvement_of)[0] == pytest.approx(2.5 / 4)


def test_difference_of_many_runs_has_the_right_width():
    generator = np.random.default_rng(3)
    x, y = generator.normal(2, 1, 400), generator.normal(1, 1, 400)
    value, low, high = compare([x], [y], difference_of)
    half = 1.96 * np.sqrt(x.var() / 400 + y.var() / 400)
    assert value == pytest.approx(x.mean() - y.mean())
    assert (low, high) == pytest.approx((value - half, value + half), abs=0.02)


@pytest.mark.parametrize("scores", [[], [[]], [[1.0], []], [[[1.0]]]])
def test_scores_without_runs_are_rejected(scores):
    with pytest.raises(ValueError, match="one non-empty list of runs per task"):
        aggregate(scores, mean_of)


def test_different_tasks_are_rejected():
    with pytest.raises(ValueError, match="same tasks"):
        compare([[1.0]], [[1.0], [2.0]], improvement_of)


def test_interval_of_equal_values_is_a_point():
    assert bootstrap_interval([0.25] * 5) == (0.25, 0.25)


def test_interval_has_the_right_width():
    """For many normal values the bootstrap gives mean +- 1.96 s / sqrt(n)."""
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    low, high = bootstrap_interval(values)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.03)
    assert high == pytest.approx(values.mean() + half, abs=0.03)
