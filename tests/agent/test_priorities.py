"""The wide sum tree against plain arrays."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from masp import ops
from masp.agent import priorities

LEAVES, WRITES = 1100, 6  # three levels: 35 families of 32, two families of families, the root's children
PADDED = 1120

write = jax.jit(priorities.write)
find = jax.jit(ops.find_leaves)
sample = jax.jit(priorities.sample, static_argnums=2)

batches = st.lists(
    st.tuples(
        st.lists(
            st.one_of(st.integers(0, LEAVES - 1), st.integers(PADDED, 3 * PADDED)), min_size=WRITES, max_size=WRITES
        ),
        st.lists(st.integers(0, 50), min_size=WRITES, max_size=WRITES),
    ),
    min_size=1,
    max_size=6,
)


def filled(values):
    """A tree that holds `values` [LEAVES]."""
    return write(priorities.init(len(values)), jnp.arange(len(values)), jnp.asarray(values, jnp.float32))


def assert_sums(tree):
    """Every parent is the sum of its children."""
    for children, parents in pairwise(tree):
        sums = np.asarray(children).reshape(-1, 32).sum(axis=1)
        np.testing.assert_allclose(np.asarray(parents)[: len(sums)], sums, rtol=1e-6)
        assert (np.asarray(parents)[len(sums) :] == 0).all()


@settings(max_examples=100)
@given(batches)
def test_writes_agree_with_an_array(batches):
    """Repeated leaves take one of their values; leaves out of range change nothing; parents always fit."""
    tree, leaves = priorities.init(LEAVES), np.zeros(PADDED)
    for where, values in batches:
        tree = write(tree, jnp.array(where), jnp.array(values, jnp.float32))
        found = np.asarray(tree[0])
        for leaf in {leaf for leaf in where if leaf < PADDED}:
            assert found[leaf] in [v for at, v in zip(where, values, strict=True) if at == leaf]
            leaves[leaf] = found[leaf]
        np.testing.assert_array_equal(found, leaves)
        assert priorities.total(tree) == leaves.sum()  # whole numbers: sums are exact
        assert_sums(tree)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.02, 0.5, 1.0]))
def test_find_agrees_with_a_running_sum(seed, density):
    """With whole numbers there is no rounding: the first leaf whose running sum exceeds the mass, edges included."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(LEAVES) < density, rng.integers(0, 5, LEAVES), 0)
    values[rng.integers(LEAVES)] = 3
    ends = np.cumsum(values)
    mass = np.concatenate([rng.integers(0, ends[-1], 40), rng.uniform(0, ends[-1] - 0.01, 40)]).astype(np.float32)
    found = np.asarray(find(filled(values), jnp.asarray(mass)))
    np.testing.assert_array_equal(found, np.searchsorted(ends, mass, side="right"))


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_never_finds_a_leaf_without_priority(seed):
    """Not even where the mass sits on an edge, one rounding beside it, or at the very total."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(LEAVES) < 0.3, rng.random(LEAVES) ** 4 * 10.0 ** rng.integers(-6, 3), 0)
    values = values.astype(np.float32)
    values[rng.integers(LEAVES)] = 0.5
    tree = filled(values)
    edges = rng.choice(np.cumsum(values), 60)
    total = np.asarray(priorities.total(tree))
    ends = np.array([0.0, total], np.float32)
    mass = np.concatenate([edges, np.nextafter(edges, np.float32(0)), np.nextafter(edges, total), ends])
    found = np.asarray(find(tree, jnp.asarray(np.clip(mass, 0, total))))
    assert (values[found] > 0).all()


def test_find_by_hand():
    values = np.zeros(40)
    values[[3, 35, 39]] = 1.0, 2.0, 4.0
    tree = filled(values)
    mass = jnp.array([0.0, 0.99, 1.0, 2.99, 3.0, 6.99, 7.0])  # the total itself belongs to the last leaf
    assert find(tree, mass).tolist() == [3, 3, 35, 35, 39, 39, 39]


def chi_squared(values, found):
    """Statistic and degrees of freedom of draws `found` against shares `values`."""
    counts = np.bincount(found, minlength=len(values))
    assert (counts[values == 0] == 0).all()
    positive = values > 0
    expected = values[positive] / values.sum() * counts.sum()
    assert expected.min() > 5
    return stats.chisquare(counts[positive], expected)


@pytest.mark.parametrize(("draws", "batch_size"), [(8192, 1), (512, 32)])
def test_frequencies_match_priorities(draws, batch_size):
    """Single draws are independent: a plain chi-squared test. Stratified batches have the same shares, less spread."""
    rng = np.random.default_rng(7)
    values = np.where(rng.random(90) < 0.3, 0.0, rng.uniform(0.3, 4.0, 90))
    tree = filled(values)
    keys = jax.random.split(jax.random.PRNGKey(3), draws)
    found = np.asarray(jax.jit(jax.vmap(lambda key: priorities.sample(tree, key, batch_size)))(keys)).ravel()
    assert chi_squared(values, found).pvalue > 1e-3
    if batch_size == 1:
        wrong = np.roll(values[values > 0], 1)
        counts = np.bincount(found, minlength=90)[values > 0]
        assert stats.chisquare(counts, wrong / wrong.sum() * counts.sum()).pvalue < 1e-6  # the test can tell


def test_a_batch_is_stratified():
    """Four equal leaves and four draws: each comes up once."""
    values = np.zeros(40)
    values[[0, 10, 33, 39]] = 1.0
    assert sample(filled(values), jax.random.PRNGKey(0), 4).tolist() == [0, 10, 33, 39]


def test_sizes():
    """Each level holds the sums of the one below, padded to whole families."""
    assert [level.size for level in priorities.init(LEAVES)] == [1120, 64, 32]
    assert [level.size for level in priorities.init(32)] == [32]
