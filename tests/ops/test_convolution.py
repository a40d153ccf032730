"""Convolutions as matrix products equal those of XLA, with their gradients."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.ops.convolution import Convolution, convolve_as_product, convolve_by_xla


def test_by_hand():
    x = jnp.arange(9.0).reshape(1, 3, 3, 1)
    kernel = jnp.array([[1.0, 0.0], [0.0, -1.0]]).reshape(2, 2, 1, 1)
    np.testing.assert_array_equal(convolve_as_product(x, kernel, 1)[0, :, :, 0], [[-4, -4], [-4, -4]])
    np.testing.assert_array_equal(convolve_as_product(x, kernel, 2)[0, :, :, 0], [[-4]])


@pytest.mark.parametrize(("size", "stride"), [(8, 4), (4, 2), (3, 1), (1, 1)])
def test_product_equals_xla(size, stride):
    key_x, key_kernel = jax.random.split(jax.random.PRNGKey(0))
    with jax.enable_x64(True):
        x = jax.random.normal(key_x, (2, 13, 19, 3), jnp.float64)
        kernel = jax.random.normal(key_kernel, (size, size, 3, 4), jnp.float64)

        def value_and_gradients(convolve):
            y, pull_back = jax.vjp(lambda x, k: jnp.sin(convolve(x, k, stride)), x, kernel)
            return y, *pull_back(jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape))

        for ours, native in zip(*map(value_and_gradients, (convolve_as_product, convolve_by_xla)), strict=True):
            np.testing.assert_allclose(ours, native, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("size", "stride"), [(4, 2), (3, 2)])
def test_layer_equals_flax(size, stride):
    x = jax.random.normal(jax.random.PRNGKey(0), (2, 11, 14, 3))
    layer = Convolution(5, size, stride)
    params = layer.init(jax.random.PRNGKey(1), x)
    theirs = nn.Conv(5, (size, size), (stride, stride), padding="VALID")
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, theirs.init(jax.random.PRNGKey(1), x))
    np.testing.assert_allclose(layer.apply(params, x), theirs.apply(params, x), atol=1e-5)
