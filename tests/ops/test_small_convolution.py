"""The small convolution against XLA's, and its packed planes."""

import jax
import jax.numpy as jnp
import numpy as np

from masp import ops
from masp.ops.convolution import patches
from masp.ops.small_convolution import as_array, small_convolution


def test_patches_make_a_convolution():
    """The product with flat weights is the valid convolution of XLA."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 6, 5, 3)).astype(np.float32)
    weights = rng.normal(size=(3, 3, 3, 4)).astype(np.float32)
    expected = jax.lax.conv_general_dilated(x, weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    np.testing.assert_allclose(patches(jnp.asarray(x), 3) @ weights.reshape(-1, 4), expected, rtol=1e-4, atol=1e-5)


def test_equals_a_convolution_of_xla():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (2, 6, 5, 3)).astype(bool)
    kernel, bias = rng.normal(size=(4, 27)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    weights = kernel.T.reshape(3, 3, 3, 4)
    y = jax.lax.conv_general_dilated(
        x.astype(np.float32), weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    expected = np.maximum(y + bias, 0).reshape(2, -1)
    np.testing.assert_allclose(small_convolution(jnp.asarray(x), kernel, bias, 0), expected, rtol=1e-4, atol=1e-5)
    layer = ops.SmallConvolution(4)
    params = {"params": {"kernel": kernel, "bias": bias}}
    np.testing.assert_allclose(as_array(layer.apply(params, jnp.asarray(x))), expected, rtol=1e-4, atol=1e-5)


def test_packed_planes_equal_unpacked_ones():
    rng = np.random.default_rng(0)
    codes = jnp.asarray(rng.integers(0, 4, (3, 5, 5, 2)))
    packed = ops.pack_one_hot(codes, (4, 3))[..., None]  # a code of 3 has no bit of the second three
    planes = np.concatenate([jax.nn.one_hot(codes[..., 0], 4), jax.nn.one_hot(codes[..., 1], 3)], axis=-1)
    np.testing.assert_array_equal(ops.unpack_bits(packed, 7), planes)
    kernel, bias = rng.normal(size=(2, 9 * 7)).astype(np.float32), np.zeros(2, np.float32)
    np.testing.assert_allclose(
        small_convolution(packed, kernel, bias, 7), small_convolution(jnp.asarray(planes), kernel, bias, 0), rtol=1e-5
    )


def test_pack_one_hot_by_hand():
    assert ops.pack_one_hot(jnp.array([[2, 0], [1, 2]]), (3, 2)).tolist() == [0b01100, 0b00010]


def test_features_behind_a_convolution():
    """`concatenate` and `append_constant` give the same whether the convolution is deferred or not."""
    x = jax.random.bernoulli(jax.random.PRNGKey(0), 0.3, (9, 5, 5, 2))
    layer = ops.SmallConvolution(16)
    variables = layer.init(jax.random.PRNGKey(1), x)
    features = layer.apply(variables, x)
    more, vector = jnp.arange(18.0).reshape(9, 2), jnp.array([7.0, 8.0, 9.0])
    joined = ops.append_constant(ops.concatenate(features, more), vector)
    expected = np.concatenate([as_array(features), more, np.tile(vector, (9, 1))], axis=1)
    assert joined.shape == expected.shape
    np.testing.assert_array_equal(as_array(joined), expected)
    again = ops.append_constant(ops.concatenate(joined, more), vector)
    np.testing.assert_array_equal(as_array(again), np.concatenate([expected, more, np.tile(vector, (9, 1))], axis=1))
    hidden, params = ops.Linear(32, relu=True).init_with_output(jax.random.PRNGKey(2), joined)
    weights = dict(params["params"])
    kernel = weights["kernel"] if "kernel" in weights else weights["kernel_t"].T
    np.testing.assert_allclose(hidden, np.maximum(expected @ kernel.T, 0), rtol=1e-4, atol=1e-4)
