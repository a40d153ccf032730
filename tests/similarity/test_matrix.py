"""Penalty, projection, entropy, starts and the measure of planted groups."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from masp.errors import UserError
from masp.similarity.matrix import batch_penalty, group_auc, project, row_entropy, similarity_penalty, smoothing, start

KEY = jax.random.PRNGKey(0)
matrices = hnp.arrays(np.float32, (4, 4), elements=st.floats(-3, 3, width=32))
vectors = hnp.arrays(np.float32, 4, elements=st.floats(-8, 8, width=32))
jit_project = jax.jit(project)


@jax.jit
def both_penalties(q, similarity):
    return [similarity_penalty(q, similarity), similarity_penalty(q, similarity, literal=True)]


def test_penalty_by_hand():
    q = jnp.array([1.0, 3.0])
    assert similarity_penalty(q, jnp.eye(2)) == 0.0
    assert similarity_penalty(q, jnp.full((2, 2), 0.5)) == 2.0  # (1-2)^2 + (3-2)^2
    similarity = jnp.array([[1.0, 0.5], [0.5, 1.0]])
    row, literal = both_penalties(q, similarity)
    assert row == pytest.approx(8 / 9, rel=1e-6)  # (1 - 5/3)^2 + (3 - 7/3)^2
    assert literal == pytest.approx(2.5, rel=1e-6)  # (1 - 2.5)^2 + (3 - 3.5)^2 = 2.25 + 0.25


def test_a_raw_similarity_and_its_smoothing_give_the_same_penalty():
    rng = np.random.default_rng(0)
    q, similarity = jnp.asarray(rng.normal(size=5)), project(jnp.asarray(rng.uniform(size=(5, 5))))
    smoothed = similarity / similarity.sum(axis=1, keepdims=True) @ q
    assert similarity_penalty(q, similarity) == pytest.approx(float(jnp.square(q - smoothed).sum()), rel=1e-5)
    assert similarity_penalty(q, smoothing(similarity)) == pytest.approx(float(similarity_penalty(q, similarity)), 1e-5)


@pytest.mark.parametrize("shapes", [((3,), (2, 2)), ((1, 2), (2, 2)), ((2,), (2,)), ((4,), (4, 2))])
def test_wrong_shapes_get_one_line(shapes):
    q, similarity = (jnp.ones(shape) for shape in shapes)
    with pytest.raises(UserError, match=r"expected values \[A\] of one state and a similarity \[A, A\], got shapes"):
        jax.jit(similarity_penalty)(q, similarity)


def test_penalty_gradient_by_hand():
    """2 (I - P)^T (I - P) q with P all halves: I - P halves the difference, so (q_0 - q_1, q_1 - q_0)."""
    slope = jax.grad(similarity_penalty)(jnp.array([1.0, 3.0]), jnp.full((2, 2), 0.5))
    np.testing.assert_allclose(slope, [-2.0, 2.0], rtol=1e-6)


@settings(max_examples=100)
@given(vectors, st.floats(-8, 8, width=32), matrices)
def test_row_form_is_neutral_to_a_constant(q, constant, raw):
    similarity = jit_project(raw)
    before, after = (both_penalties(q + c, similarity)[0] for c in (np.float32(0), np.float32(constant)))
    assert after == pytest.approx(float(before), rel=1e-3, abs=2e-3)


def test_literal_form_is_not_neutral_to_a_constant():
    """Equal values are already as alike as can be; the literal form penalises them all the same."""
    row, literal = both_penalties(jnp.full(4, 5.0), jnp.full((4, 4), 0.5) + 0.5 * jnp.eye(4))
    assert row == pytest.approx(0.0, abs=1e-9)
    assert literal == pytest.approx(4 * 7.5**2, rel=1e-6)  # each value 5 against 2.5 * 5


@settings(max_examples=100)
@given(vectors)
def test_all_ones_penalise_deviations_from_the_mean(q):
    row, _ = both_penalties(q, jnp.ones((4, 4)))
    assert row == pytest.approx(float(((q - q.mean()) ** 2).sum()), rel=1e-3, abs=1e-3)


@settings(max_examples=200)
@given(matrices)
def test_projection(raw):
    """Symmetric, in [0, 1], ones on the diagonal; done twice it is done once; the mean of both entries, clipped."""
    found = np.asarray(jit_project(raw))
    np.testing.assert_array_equal(found, found.T)
    assert found.min() >= 0 and found.max() <= 1
    assert (np.diag(found) == 1).all()
    np.testing.assert_array_equal(jit_project(found), found)
    for i, j in combinations(range(4), 2):
        assert found[i, j] == pytest.approx(min(max((raw[i, j] + raw[j, i]) / 2, 0), 1), abs=1e-6)


def test_smoothing_rows_sum_to_one():
    similarity = jnp.array([[1.0, 0.5, 0.5], [0.5, 1.0, 0.0], [0.5, 0.0, 1.0]])
    np.testing.assert_allclose(smoothing(similarity)[0], [0.5, 0.25, 0.25])
    np.testing.assert_allclose(smoothing(similarity).sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(smoothing(similarity, "literal"), similarity)


def test_entropy():
    """0 for the identity, 1 for all ones; two equal halves of four actions are half of log 4."""
    assert row_entropy(jnp.eye(4)) == pytest.approx(0.0, abs=1e-6)
    assert row_entropy(jnp.ones((4, 4))) == pytest.approx(1.0, rel=1e-6)
    blocks = jnp.kron(jnp.eye(2), jnp.ones((2, 2)))
    assert row_entropy(blocks) == pytest.approx(0.5, rel=1e-5)


def test_entropy_has_a_finite_slope_at_zero_that_points_away_from_the_identity():
    slope = np.asarray(jax.grad(row_entropy)(jnp.eye(4)))
    assert np.isfinite(slope).all()
    assert (slope[~np.eye(4, dtype=bool)] > 0).all()


def test_entropy_slope_against_finite_differences():
    with jax.enable_x64(True):
        similarity = jnp.asarray(project(jnp.asarray(np.random.default_rng(0).uniform(0.1, 0.9, (4, 4)))))
        shifts = 1e-6 * jnp.eye(16).reshape(-1, 4, 4)
        values = jax.vmap(row_entropy)(jnp.concatenate([similarity + shifts, similarity - shifts]))
        expected = ((values[:16] - values[16:]) / 2e-6).reshape(4, 4)
        np.testing.assert_allclose(jax.grad(row_entropy)(similarity), expected, rtol=1e-6, atol=1e-9)


SEQUENCES = [(0,), (1,), (0, 1, 0, 1), (0, 0, 1, 1)]


def test_starts():
    np.testing.assert_array_equal(start("identity", SEQUENCES, KEY), np.eye(4))
    constant = np.asarray(start("constant", SEQUENCES, KEY))
    np.testing.assert_array_equal(constant, np.where(np.eye(4, dtype=bool), 1.0, np.float32(1 / 3)))
    # Longest common subsequences over the longer length: (0) in the fourth 1/4, the last two share 0 0 1 or 0 1 1.
    overlap = np.asarray(start("overlap", SEQUENCES, KEY))
    np.testing.assert_allclose(overlap[0], [1.0, 0.0, 1 / 4, 1 / 4])
    assert overlap[2, 3] == overlap[3, 2] == 3 / 4


@pytest.mark.parametrize(("count", "entry"), [(1, None), (2, 0.5), (3, 0.5), (4, 1 / 3), (101, 0.01)])
def test_rows_of_the_constant_start_sum_to_two(count, entry):
    """Half of the weight is an action's own, however many there are; with two actions they are half alike."""
    found = np.asarray(start("constant", [(i,) for i in range(count)], KEY))
    assert (np.diag(found) == 1).all()
    if entry is not None:
        np.testing.assert_allclose(found[~np.eye(count, dtype=bool)], entry, rtol=1e-6)
    if count > 2:
        np.testing.assert_allclose(found.sum(axis=1), 2.0, rtol=1e-5)


def test_penalty_forms():
    """The mean is the sum over the number of actions, so one weight serves any number; literal leaves rows as is."""
    rng = np.random.default_rng(0)
    q, similarity = rng.normal(size=(3, 4)).astype(np.float32), np.asarray(jit_project(rng.uniform(size=(4, 4))))
    total, mean, literal = (float(batch_penalty(q, similarity, form)) for form in ("sum", "mean", "literal"))
    assert mean == pytest.approx(total / 4, rel=1e-6)
    by_hand = [both_penalties(row, similarity) for row in q]
    assert total == pytest.approx(float(np.mean([row for row, _ in by_hand])), rel=1e-5)
    assert literal == pytest.approx(float(np.mean([row for _, row in by_hand])), rel=1e-5)
    # Every action twice: the mean stays the same, the sum doubles.
    twice, blocks = np.tile(q, 2), np.tile(similarity, (2, 2))
    assert batch_penalty(twice, blocks, "mean") == pytest.approx(mean, rel=1e-5)
    # A matrix per state.
    each = np.stack([similarity, np.eye(4), np.ones((4, 4))])
    expected = [both_penalties(row, one)[0] for row, one in zip(q, each, strict=True)]
    assert batch_penalty(q, each, "sum") == pytest.approx(float(np.mean(expected)), rel=1e-5)


def test_random_start():
    many = [(i,) for i in range(40)]
    first, again, other = (np.asarray(start("random", many, jax.random.PRNGKey(k))) for k in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(first, first.T)
    assert (np.diag(first) == 1).all()
    off = first[~np.eye(40, dtype=bool)]
    assert off.min() >= 0 and off.max() <= 2 / 39 and off.mean() == pytest.approx(1 / 39, rel=0.1)
    assert off.std() > 0.005


def naive_auc(similarity, groups):
    """Compare every pair of the same group with every other pair; a tie is half a point."""
    pairs = list(combinations(range(len(groups)), 2))
    same = [similarity[p] for p in pairs if groups[p[0]] == groups[p[1]]]
    other = [similarity[p] for p in pairs if groups[p[0]] != groups[p[1]]]
    return np.mean([(s > o) + 0.5 * (s == o) for s in same for o in other])


@settings(max_examples=100)
@given(
    hnp.arrays(np.float32, (6, 6), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0])),
    st.permutations([0, 0, 1, 1, 2, 2]),
)
def test_auc_agrees_with_counting_pairs(raw, groups):
    """Ties included."""
    assert group_auc(raw, np.array(groups)) == pytest.approx(naive_auc(raw, groups), abs=1e-12)


def test_auc_by_hand():
    groups = np.array([0, 0, 1])
    similarity = np.array([[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]])
    assert group_auc(similarity, groups) == 1.0
    assert group_auc(1 - similarity, groups) == 0.0
    assert group_auc(np.full((3, 3), 0.5), groups) == 0.5


@pytest.mark.parametrize("groups", [[0, 0, 0], [0, 1, 2]])
def test_auc_needs_both_kinds_of_pairs(groups):
    with pytest.raises(ValueError, match="same group and pairs of different groups"):
        group_auc(np.eye(3), np.array(groups))
