"""Convolutions by our kernels equal XLA's, computed in double precision, with all their derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.ops.convolution import convolve_by_xla
from masp_kernels.convolution import convolve

CASES = [
    # batch, height, width, channels, size, stride, features
    (2, 20, 20, 4, 8, 4, 32),
    (3, 9, 9, 32, 4, 2, 64),
    (1, 7, 5, 3, 3, 1, 17),  # nothing is a multiple of anything
    (5, 6, 11, 1, 2, 2, 1),  # the last column is in no patch
    (2, 10, 10, 6, 3, 1, 16),
    (2, 4, 4, 2, 4, 1, 50),  # one pixel
    (1, 8, 8, 5, 3, 2, 33),  # a size that is no multiple of the stride
]


def operands(case, seed=0):
    batch, height, width, channels, size, stride, features = case
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(batch, height, width, channels)).astype(np.float32)
    kernel = rng.normal(size=(size, size, channels, features)).astype(np.float32)
    return x, kernel, stride


def exactly(function, *arrays):
    """The function of the arrays in double precision."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*[jnp.asarray(a, jnp.float64) for a in arrays]))


def assert_close(ours, exact):
    scale = max(np.abs(exact).max(), 1e-3)
    np.testing.assert_allclose(np.asarray(ours) / scale, exact / scale, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_forward_and_backward(instruction_set, case):
    x, kernel, stride = operands(case)
    out = jax.eval_shape(lambda x, k: convolve_by_xla(x, k, stride), x, kernel)
    g = np.random.default_rng(1).normal(size=out.shape).astype(np.float32)

    def all_of_it(by):
        def results(x, kernel, g):
            y, pull_back = jax.vjp(lambda x, k: by(x, k, stride), x, kernel)
            return y, *pull_back(g)

        return results

    found, known = all_of_it(convolve)(x, kernel, g), exactly(all_of_it(convolve_by_xla), x, kernel, g)
    jax.tree.map(assert_close, found, known)


@pytest.mark.parametrize("case", CASES[:4])
def test_forward_mode(case):
    x, kernel, stride = operands(case)
    dx, dkernel, _ = operands(case, seed=1)

    def tangent(by):
        return lambda x, k, dx, dk: jax.jvp(lambda x, k: by(x, k, stride), (x, k), (dx, dk))[1]

    assert_close(tangent(convolve)(x, kernel, dx, dkernel), exactly(tangent(convolve_by_xla), x, kernel, dx, dkernel))


@pytest.mark.parametrize("outer", [jax.grad, jax.jacfwd])
def test_second_derivatives(outer):
    x, kernel, stride = operands(CASES[2])

    def curvature(by):
        def loss(x, kernel):
            return jnp.sum(jnp.sin(by(x, kernel, stride)))

        def slope(x, kernel):
            dx, dkernel = jax.grad(loss, argnums=(0, 1))(x, kernel)
            return jnp.sum(jnp.cos(dx)) + jnp.sum(jnp.square(dkernel))

        return outer(slope, argnums=(0, 1))

    jax.tree.map(assert_close, curvature(convolve)(x, kernel), exactly(curvature(convolve_by_xla), x, kernel))


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (1, 2)])
def test_lanes(axes):
    case = CASES[4]
    pairs = [operands(case, seed)[:2] for seed in range(3)]
    x, kernel = (pairs[0][i] if axis is None else np.stack([p[i] for p in pairs], axis) for i, axis in enumerate(axes))

    def loss(by):
        return lambda x, k: jnp.sum(jnp.sin(by(x, k, 1)))

    ours = jax.vmap(jax.grad(loss(convolve), argnums=(0, 1)), in_axes=axes)(x, kernel)
    exact = exactly(jax.vmap(jax.grad(loss(convolve_by_xla), argnums=(0, 1)), in_axes=axes), x, kernel)
    jax.tree.map(assert_close, ours, exact)


def test_results_are_deterministic():
    x, kernel, stride = operands((32, 20, 20, 32, 4, 2, 64))
    compute = jax.jit(jax.grad(lambda x, k: jnp.sum(jnp.square(convolve(x, k, stride))), argnums=(0, 1)))
    first = compute(x, kernel)
    for _ in range(10):
        jax.tree.map(np.testing.assert_array_equal, compute(x, kernel), first)
