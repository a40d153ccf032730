"""Rows of a similarity, compared."""

import numpy as np
import pytest

from masp.similarity.consensus import consensus


def noisy_groups(seed, signal):
    """Four groups of 32; entries of one group are `signal` standard deviations higher than others."""
    groups = np.repeat(np.arange(4), 32)
    same = groups[:, None] == groups[None, :]
    noise = np.random.default_rng(seed).normal(size=(128, 128))
    entries = signal * same + (noise + noise.T) / 2**0.5
    return entries, same & ~np.eye(128, dtype=bool)


def chance_of_order(values, same):
    """That a pair of one group is more similar than a pair of two: counted, pair by pair."""
    upper = np.triu(np.ones_like(same), 1)
    inside, outside = values[same & upper.astype(bool)], values[~same & upper.astype(bool)]
    return np.mean(inside[:, None] > outside[None, :])


@pytest.mark.parametrize("seed", range(3))
def test_rows_tell_groups_that_entries_hardly_tell(seed):
    entries, same = noisy_groups(seed, 1.5)
    assert chance_of_order(entries, same) < 0.9
    assert chance_of_order(consensus(entries), same) > 0.98


def test_it_is_a_similarity():
    found = consensus(noisy_groups(0, 1.0)[0])
    assert found.dtype == np.float32 and (np.diag(found) == 1).all()
    assert (found == found.T).all() and found.min() >= 0 and found.max() <= 1


def test_what_an_action_shares_with_all_others_does_not_count():
    """Popular actions, which are similar to everything, are not alike for that."""
    entries, _ = noisy_groups(0, 1.0)
    popular = np.random.default_rng(1).uniform(0, 20, 128)
    np.testing.assert_allclose(consensus(entries + popular[:, None] + popular), consensus(entries), atol=1e-5)


def test_the_diagonal_does_not_count():
    entries, _ = noisy_groups(0, 1.0)
    np.testing.assert_allclose(consensus(entries + 5 * np.eye(128)), consensus(entries), atol=1e-6)


def test_by_hand():
    """Two pairs: taking out a_i + a_j leaves rows that are the same within a pair but for its own column."""
    similarity = np.array([[1.0, 0.9, 0.1, 0.1], [0.9, 1.0, 0.1, 0.1], [0.1, 0.1, 1.0, 0.9], [0.1, 0.1, 0.9, 1.0]])
    # every row sums to 1.1, so that a = 1.1 / 6
    inside, outside = 0.9 - 1.1 / 3, 0.1 - 1.1 / 3
    agreement = 2 * outside**2 / (inside**2 + 2 * outside**2)
    found = consensus(similarity)
    assert found[0, 1] == pytest.approx(agreement) and found[0, 1] == found[2, 3]
    assert found[0, 2] == 0  # inside times outside: they disagree


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_where_nothing_is_known_there_is_no_similarity(count):
    uniform = np.where(np.eye(count, dtype=bool), 1.0, 0.03)
    assert (consensus(uniform) == np.eye(count)).all()
