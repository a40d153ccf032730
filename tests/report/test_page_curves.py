"""Curves of the page: bands by hand, and no peak is lost when points are left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masp.report.page.curves import band, line, peaks, rounded


def test_mean_and_range_of_two_seeds_by_hand():
    frames = np.array([10.0, 20.0])
    found = band([(frames, np.array([0.0, 1.0])), (frames, np.array([1.0, 4.0]))])
    assert found == {"x": [10, 20], "y": [0.5, 2.5], "low": [0, 1], "high": [1, 4], "n": 2}


def test_five_seeds_have_a_bootstrap_interval_inside_their_range():
    frames, rng = np.arange(3.0), np.random.default_rng(0)
    values = rng.normal(size=(5, 3))
    found = band([(frames, own) for own in values])
    assert (np.array(found["low"]) > values.min(axis=0)).all() and (np.array(found["high"]) < values.max(axis=0)).all()
    assert (np.array(found["low"]) < found["y"]).all() and (np.array(found["y"]) < found["high"]).all()


def test_a_run_that_has_not_come_so_far_counts_where_it_is():
    found = band([(np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 6.0])), (np.array([1.0, 2.0]), np.array([2.0, 4.0]))])
    assert found["y"] == [1, 2, 6] and found["n"] == [2, 2, 1]


def test_runs_with_rows_at_other_frames_are_interpolated():
    found = band([(np.array([0.0, 10.0]), np.array([0.0, 10.0])), (np.array([0.0, 4.0, 10.0]), np.zeros(3))])
    assert found["x"] == [0, 4, 10] and found["y"] == [0, 2, 5]


def test_without_points_there_is_no_curve():
    nothing = np.zeros(0), np.zeros(0)
    assert band([nothing]) is None and line(nothing) is None


@given(st.integers(500, 5000), st.integers(0, 2**32 - 1), st.integers(20, 400))
def test_thinning_keeps_ends_and_extremes_of_every_curve(count, seed, most):
    rng = np.random.default_rng(seed)
    curves = [rng.standard_t(2, size=count), rng.normal(size=count)]
    kept = peaks(curves, most)
    assert len(kept) <= max(most, 6) and kept[0] == 0 and kept[-1] == count - 1 and (np.diff(kept) > 0).all()
    for curve in curves:
        assert curve[kept].max() == curve.max() and curve[kept].min() == curve.min()


def test_single_peak_among_a_hundred_thousand_rows_is_on_the_page():
    values = np.zeros(100_000)
    values[34_567] = 5.0
    found = line((np.arange(100_000.0), values))
    assert max(found["y"]) == 5 and found["x"][found["y"].index(5)] == 34_567 and len(found["x"]) < 500


@pytest.mark.parametrize(
    ("value", "shown"), [(0.123456789, 0.12346), (123456.7, 123457), (0.0, 0), (-2.5, -2.5), (np.nan, None), (3.0, 3)]
)
def test_numbers_are_rounded_to_significant_digits(value, shown):
    assert rounded(np.array([value])) == [shown]
