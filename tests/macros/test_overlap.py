"""The overlap of macros against hand-computed values and the textbook algorithm."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masp.macros.overlap import overlap_matrix


def lcs(a, b):
    """Length of the longest common subsequence by the textbook algorithm."""
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            best[i + 1][j + 1] = best[i][j] + 1 if x == y else max(best[i][j + 1], best[i + 1][j])
    return best[-1][-1]


def test_by_hand():
    overlap = overlap_matrix([(1,), (1, 2), (2, 1, 3), (4, 4, 4, 4)])
    # (1) in (1, 2): 1 of 2; (1, 2) and (2, 1, 3) share one action in order: 1 of 3
    expected = [[1, 1 / 2, 1 / 3, 0], [1 / 2, 1, 1 / 3, 0], [1 / 3, 1 / 3, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(overlap, expected)


@given(st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=9), min_size=1, max_size=8))
def test_equals_textbook_algorithm(sequences):
    overlap = overlap_matrix(sequences)
    for i, a in enumerate(sequences):
        for j, b in enumerate(sequences):
            assert overlap[i, j] == lcs(a, b) / max(len(a), len(b))
    assert (overlap == overlap.T).all()
    assert (np.diag(overlap) == 1).all()


def test_more_actions_than_one_block():
    sequences = [(i % 7, i % 5, i % 3) for i in range(600)]
    overlap = overlap_matrix(sequences)
    assert overlap.shape == (600, 600)
    assert overlap[599, 3] == lcs(sequences[599], sequences[3]) / 3


def test_sequences_beyond_128_actions():
    assert overlap_matrix([[0] * 300, [0] * 150])[0, 1] == 0.5


def test_empty_input():
    assert overlap_matrix([]).shape == (0, 0)
    with pytest.raises(ValueError, match="empty"):
        overlap_matrix([(1,), ()])
