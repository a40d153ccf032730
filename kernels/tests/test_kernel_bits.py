"""Convolutions of packed planes by the kernel equal the definition, with all derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.ops.convolution import patches
from masp.ops.small_convolution import unpack_bits
from masp_kernels import bits

CASES = {
    "MiniGrid": (5, 7, 7, 1, 25, 32),
    "MinAtar": (3, 10, 10, 4, 1, 16),
    "stacked": (9, 4, 5, 3, 25, 33),
    "whole numbers": (2, 4, 4, 2, 32, 50),
    "few features": (11, 3, 3, 7, 1, 3),
}


def arrays(name, seed=0):
    batch, height, width, channels, width_in_bits, features = CASES[name]
    rng = np.random.default_rng(seed)
    shape = (batch, height, width, channels)
    few = rng.integers(0, 2**32, size=(3, *shape), dtype=np.uint64)  # an eighth of the bits
    numbers = jnp.asarray((few[0] & few[1] & few[2]).astype(np.uint32).view(np.int32))
    numbers = (numbers & 1).astype(bool) if width_in_bits == 1 else numbers
    kernel = jnp.asarray(rng.normal(size=(features, 9 * channels * width_in_bits)), jnp.float32)
    return numbers, kernel, jnp.asarray(rng.normal(size=features), jnp.float32), width_in_bits


def reference(numbers, kernel, bias, width_in_bits):
    planes = unpack_bits(patches(numbers.astype(jnp.int32), 3), width_in_bits)
    return jax.nn.relu(jnp.einsum("...i,oi->...o", planes, kernel) + bias)


def ours(numbers, kernel, bias, width_in_bits):
    return bits.convolve(numbers, kernel, bias, width_in_bits, 3)


def assert_close(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-4), a, b)


@pytest.mark.parametrize("name", CASES)
def test_values(instruction_set, name):
    assert_close(ours(*arrays(name)), reference(*arrays(name)))


@pytest.mark.parametrize("name", CASES)
def test_gradients(instruction_set, name):
    numbers, kernel, bias, width = arrays(name)

    def slopes(by):
        return jax.grad(lambda k, b: jnp.sum(jnp.sin(by(numbers, k, b, width))), argnums=(0, 1))(kernel, bias)

    assert_close(slopes(ours), slopes(reference))


@pytest.mark.parametrize("name", ["MiniGrid", "few features"])
def test_forward_and_twice(name):
    """What a meta-step needs: along a direction, and the gradient of that."""
    numbers, kernel, bias, width = arrays(name)
    towards = arrays(name, seed=1)[1:3]

    def along(by):
        def value(k, b):
            return jnp.sum(jnp.sin(by(numbers, k, b, width)))

        def slope(k, b):
            return jax.jvp(value, (k, b), towards)[1]

        return slope(kernel, bias), jax.grad(slope, argnums=(0, 1))(kernel, bias)

    assert_close(along(ours), along(reference))


def test_lanes_are_one_call_each():
    found = [arrays("MinAtar", seed) for seed in range(3)]
    numbers, kernel, bias = (jnp.stack(parts) for parts in list(zip(*found, strict=True))[:3])

    def slopes(by):
        def one(n, k, b):
            return jax.grad(lambda k, b: jnp.sum(jnp.sin(by(n, k, b, 1))), argnums=(0, 1))(k, b)

        return jax.vmap(one)(numbers, kernel, bias), jax.vmap(one, in_axes=(None, 0, 0))(numbers[0], kernel, bias)

    assert_close(slopes(ours), slopes(reference))


def test_results_are_deterministic():
    numbers, kernel, bias, width = arrays("MiniGrid")
    slope = jax.jit(jax.grad(lambda k: jnp.sum(jnp.sin(ours(numbers, k, bias, width)))))
    first = slope(kernel)
    assert all(np.array_equal(first, slope(kernel)) for _ in range(20))


def test_nan_propagates():
    numbers, kernel, bias, width = arrays("MinAtar")
    assert np.isnan(ours(numbers, kernel, bias.at[3].set(jnp.nan), width)[..., 3]).all()
