"""Random bits, leaves and frames by our kernels are those of plain JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from masp_kernels import random, sampling

from masp.agent import priorities, replay


@pytest.fixture
def tree():
    rng = np.random.default_rng(0)
    leaves = rng.integers(0, 3, 5000).astype(np.float32)  # whole numbers: every sum is exact
    return priorities.write(priorities.init(5000), jnp.arange(5000), jnp.asarray(leaves))


KEY = [276534068, 1641862660]
BITS = [993572756, 1359526531, 3400050533]
SEVERAL = [[1859702344, 2562576558], [429855279, 897732436]]


def naive_threefry(key, counter):
    """Salmon et al. 2011, in Python's integers."""
    full = 2**32 - 1
    words = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    a, b = (counter[0] + words[0]) & full, (counter[1] + words[1]) & full
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            a = (a + b) & full
            b = ((b << turn | b >> (32 - turn)) & full) ^ a
        a = (a + words[(group + 1) % 3]) & full
        b = (b + words[(group + 2) % 3] + group + 1) & full
    return a, b


def test_bits(kernels):
    rng = np.random.default_rng(0)
    keys, counters = rng.integers(0, 2**32, (2, 2, 50), dtype=np.uint32)
    found = jax.jit(random._bits)(*keys, *counters)
    expected = [naive_threefry(k, c) for k, c in zip(keys.T.tolist(), counters.T.tolist(), strict=True)]
    np.testing.assert_array_equal(np.stack(found, axis=1), np.array(expected, np.uint32))


def test_known_draws(kernels):
    """Of JAX without our kernels, written down."""
    key = jax.random.fold_in(jax.random.PRNGKey(7), 3)
    assert np.asarray(jax.random.key_data(key)).tolist() == KEY
    assert np.asarray(jax.random.bits(key, (3,))).tolist() == BITS
    several = jax.vmap(lambda k: jax.random.bits(k, (2,)))(jax.random.split(key, 2))
    assert np.asarray(several).tolist() == SEVERAL


def test_leaves(kernels, tree):
    mass = jnp.linspace(0, float(priorities.total(tree)) - 0.5, 999)
    expected = jax.vmap(priorities.find, in_axes=(None, 0))(tree, mass)
    np.testing.assert_array_equal(sampling.find(tree, mass), expected)


def test_the_end_is_the_last_row_that_can_be_drawn(kernels, tree):
    last = int(np.flatnonzero(tree[0])[-1])
    assert sampling.find(tree, priorities.total(tree)[None] * 2).tolist() == [last]


def test_leaves_of_lanes(kernels, tree):
    other = priorities.write(tree, jnp.arange(100), jnp.arange(100.0))
    trees = jax.tree.map(lambda *levels: jnp.stack(levels), tree, other)
    mass = jnp.linspace(0, 3000, 77)
    found = jax.vmap(sampling.find, in_axes=(0, None))(trees, mass)
    np.testing.assert_array_equal(found, [sampling.find(t, mass) for t in (tree, other)])


@pytest.mark.parametrize("stack, channels", [(1, 5), (3, 5), (4, 5), (4, 1)])
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32])
def test_frames(kernels, monkeypatch, stack, channels, dtype):
    rng = np.random.default_rng(0)
    shape = (7, 3, channels)
    state = replay.init(11, 4, shape, np.dtype(dtype))
    state = state._replace(
        observations=jnp.asarray(rng.integers(0, 2 if dtype is bool else 200, state.observations.shape), dtype),
        age=jnp.asarray(rng.integers(0, 4, state.age.shape), jnp.uint8),
    )
    row, env = (jnp.asarray(rng.integers(0, n, (2, 30)), jnp.int32) for n in (11, 4))

    def drawn():
        one = replay.stacked(state, row[0], env[0], shape, stack)
        return one, jax.vmap(lambda r, e: replay.stacked(state, r, e, shape, stack))(row, env)

    ours = drawn()
    monkeypatch.setenv("MASP_NATIVE", "0")
    jax.tree.map(np.testing.assert_array_equal, ours, drawn())
    assert ours[0].dtype == dtype


@pytest.mark.parametrize("stack, channels", [(1, 5), (3, 2), (4, 1)])
def test_windows(kernels, monkeypatch, stack, channels):
    """Frames, action, reward and discount, of one ring and of several."""
    shape = (6, 4, channels)

    def ring(seed):
        rng = np.random.default_rng(seed)
        state = replay.init(11, 4, shape, np.dtype(np.uint8))
        return state._replace(
            observations=jnp.asarray(rng.integers(0, 200, state.observations.shape), jnp.uint8),
            age=jnp.asarray(rng.integers(0, 4, state.age.shape), jnp.uint8),
            action=jnp.asarray(rng.integers(0, 9, state.age.shape), jnp.int32),
            reward=jnp.asarray(rng.normal(size=state.age.shape), jnp.float32),
            discount=jnp.asarray(rng.normal(size=state.age.shape), jnp.float32),
            span=jnp.asarray(rng.integers(0, 11, state.age.shape), jnp.int32),
        )

    states = [ring(0), ring(1)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    leaf = jnp.asarray(np.random.default_rng(2).integers(0, 44, (2, 50)), jnp.int32)

    def drawn():
        one = replay._windows(states[1], leaf[0], shape, stack)
        return one, jax.vmap(lambda state, leaf: replay._windows(state, leaf, shape, stack))(together, leaf)

    assert "masp_drawn" in str(jax.make_jaxpr(lambda leaf: replay._windows(states[0], leaf, shape, stack))(leaf[0]))
    ours = drawn()
    monkeypatch.setenv("MASP_NATIVE", "0")
    jax.tree.map(np.testing.assert_array_equal, ours, drawn())
