"""Figures of what the penalty does, by hand."""

import numpy as np
import pytest

from masp.similarity import effects


def test_effective_number():
    assert effects.effective_number(np.array([3.0, 3.0, 0.0, 3.0])) == pytest.approx(3.0)
    assert effects.effective_number(np.array([0.0, 7.0])) == pytest.approx(1.0)
    assert effects.effective_number(np.zeros(4)) == 0.0
    # 1/2, 1/4, 1/4: the entropy is 1.5 bits
    by_row = effects.effective_number(np.array([[2.0, 1.0, 1.0], [1.0, 1.0, 1.0]]))
    assert by_row == pytest.approx([2**1.5, 3.0])


def test_spread_within_and_between():
    """Groups {0, 2} and {1, 3}; in the first state 1, 3 against 5, 5, in the second all values are equal."""
    values = np.array([[1.0, 5.0, 3.0, 5.0], [2.0, 2.0, 2.0, 2.0]])
    within, between = effects.spread(values, np.array([7, 1, 7, 1]))
    assert within == pytest.approx(np.sqrt((1 + 1) / 4) / 2)  # group means 2 and 5
    assert between == pytest.approx(1.5 / 2)


def test_spreads_add_up():
    rng = np.random.default_rng(0)
    for groups in (np.arange(6), np.zeros(6, int), np.array([0, 1, 1, 2, 2, 2])):
        values = rng.normal(size=(1, 6))
        within, between = effects.spread(values, groups)
        assert within**2 + between**2 == pytest.approx(values.var())


def test_advantages_and_lead():
    values = np.array([[0.0, 1.0, 5.0], [2.0, 4.0, 3.0]])
    assert effects.advantages(values) == pytest.approx([-1.5, 0.0, 1.5])
    assert effects.macro_lead(values, 2) == pytest.approx((4.0 - 1.0) / 2)
    assert effects.macro_lead(values, 3) is None


@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_clusters_are_found(noise):
    rng = np.random.default_rng(1)
    groups = rng.permutation(np.repeat(np.arange(4), [2, 9, 5, 8]))
    similarity = np.where(groups[:, None] == groups, 0.5, 0.02)
    wobble = rng.normal(scale=noise, size=similarity.shape)
    similarity = np.clip(similarity + (wobble + wobble.T) / 2, 0, 1)
    np.fill_diagonal(similarity, 1.0)
    found = effects.clusters(similarity)
    assert len(set(zip(found.tolist(), groups.tolist(), strict=True))) == len(np.unique(found)) == 4


def test_without_structure_there_are_no_clusters():
    similarity = np.full((5, 5), 0.03)
    np.fill_diagonal(similarity, 1.0)
    assert effects.clusters(similarity) is None
    assert effects.clusters(np.ones((1, 1))) is None
