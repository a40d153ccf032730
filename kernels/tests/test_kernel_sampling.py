"""Random bits, leaves and frames by the kernels equal the definitions."""

from __future__ import annotations

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.agent import priorities, replay
from masp.ops import sampling as definition
from masp_kernels import random, sampling


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


def test_bits():
    rng = np.random.default_rng(0)
    keys, counters = rng.integers(0, 2**32, (2, 2, 50), dtype=np.uint32)
    found = jax.jit(random.threefry)(*keys, *counters)
    expected = [naive_threefry(k, c) for k, c in zip(keys.T.tolist(), counters.T.tolist(), strict=True)]
    np.testing.assert_array_equal(np.stack(found, axis=1), np.array(expected, np.uint32))


DRAWS = """
import jax, json
from masp_kernels import random
random.replace_threefry()
key = jax.random.fold_in(jax.random.PRNGKey(7), 3)
several = jax.vmap(lambda k: jax.random.bits(k, (2,)))(jax.random.split(key, 2))
assert "masp_threefry" in jax.jit(lambda k: jax.random.bits(k, (3,))).lower(key).as_text()
print(json.dumps([jax.random.key_data(key).tolist(), jax.random.bits(key, (3,)).tolist(), several.tolist()]))
"""


def test_lowering_with_the_kernel_gives_the_bits_of_jax():
    """The constants were written down from JAX without kernels."""
    run = subprocess.run([sys.executable, "-c", DRAWS], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [KEY, BITS, SEVERAL]


def test_leaves(tree):
    mass = jnp.linspace(0, float(priorities.total(tree)) - 0.5, 999)
    expected = jax.vmap(definition._find_leaf, in_axes=(None, 0))(tree, mass)
    np.testing.assert_array_equal(sampling.find_leaves(tree, mass), expected)


def test_mass_beyond_the_total_finds_the_last_positive_leaf(tree):
    last = int(np.flatnonzero(tree[0])[-1])
    assert sampling.find_leaves(tree, priorities.total(tree)[None] * 2).tolist() == [last]


def test_leaves_of_lanes(tree):
    other = priorities.write(tree, jnp.arange(100), jnp.arange(100.0))
    trees = jax.tree.map(lambda *levels: jnp.stack(levels), tree, other)
    mass = jnp.linspace(0, 3000, 77)
    found = jax.vmap(sampling.find_leaves, in_axes=(0, None))(trees, mass)
    np.testing.assert_array_equal(found, [sampling.find_leaves(t, mass) for t in (tree, other)])


@pytest.mark.parametrize("stack, channels", [(1, 5), (3, 5), (4, 5), (4, 1)])
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32])
def test_frames(monkeypatch, stack, channels, dtype):
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
def test_windows(monkeypatch, stack, channels):
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

    def windows(state, leaf):
        ring = (state.observations, state.age, state.action, state.reward, state.discount, state.span)
        return definition.gather_windows(*ring, leaf, shape, stack)

    def drawn():
        return windows(states[1], leaf[0]), jax.vmap(windows)(together, leaf)

    assert "masp_gather_windows" in str(jax.make_jaxpr(lambda leaf: windows(states[0], leaf))(leaf[0]))
    ours = drawn()
    monkeypatch.setenv("MASP_NATIVE", "0")
    jax.tree.map(np.testing.assert_array_equal, ours, drawn())
