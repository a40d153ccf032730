"""Linear layers by our kernels equal products in double precision, with all their derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp_kernels.linear import linear, noisy_linear

SIZES = [(32, 300, 40), (1, 1, 1), (7, 33, 13), (64, 16, 128), (33, 700, 5), (3, 5, 600), (20, 700, 400)]
"""Batch, inputs, outputs; the last is too large for the kernels of small layers."""


LARGE = (5, 2064, 516)  # weights that are written past the caches


def operands(size, seed=0):
    """x, kernel, sigma, noise_in, noise_out."""
    batch, inputs, outputs = size
    rng = np.random.default_rng(seed)
    shapes = [(batch, inputs), (outputs, inputs), (outputs, inputs), (inputs,), (outputs,)]
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def by_hand(x, kernel, sigma=None, noise_in=None, noise_out=None):
    weights = kernel if sigma is None else kernel + noise_out[:, None] * sigma * noise_in
    return x @ weights.T


def exactly(function, *arrays):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*[jnp.asarray(a, jnp.float64) for a in arrays]))


def assert_close(ours, exact):
    scale = max(np.abs(exact).max(), 1e-3)
    np.testing.assert_allclose(np.asarray(ours) / scale, exact / scale, atol=1e-5)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("size", [*SIZES, LARGE])
def test_forward_and_backward(instruction_set, size, noisy):
    given = operands(size)[: 5 if noisy else 2]
    g = np.random.default_rng(1).normal(size=(size[0], size[2])).astype(np.float32)

    def all_of_it(by):
        def results(*given):
            *given, g = given
            y, pull_back = jax.vjp(by, *given)
            return y, *pull_back(g)

        return results

    ours = all_of_it(noisy_linear if noisy else linear)(*given, g)
    for one, exact in zip(ours, exactly(all_of_it(by_hand), *given, g), strict=True):
        assert_close(one, exact)


@pytest.mark.parametrize("noisy", [False, True])
def test_forward_mode(noisy):
    given, along = (operands(SIZES[2], seed)[: 5 if noisy else 2] for seed in (0, 1))

    def tangent(by):
        return lambda *both: jax.jvp(by, both[: len(given)], both[len(given) :])[1]

    ours = tangent(noisy_linear if noisy else linear)(*given, *along)
    assert_close(ours, exactly(tangent(by_hand), *given, *along))


@pytest.mark.parametrize("outer", [jax.grad, jax.jacfwd])
@pytest.mark.parametrize("noisy", [False, True])
def test_second_derivatives(noisy, outer):
    given = operands((3, 19, 6))[: 5 if noisy else 2]
    which = tuple(range(len(given)))

    def curvature(by):
        def slope(*given):
            gradients = jax.grad(lambda *g: jnp.sum(jnp.sin(by(*g))), argnums=which)(*given)
            return sum(jnp.sum(jnp.cos(g)) for g in gradients)

        return outer(slope, argnums=which)

    ours = curvature(noisy_linear if noisy else linear)(*given)
    for one, exact in zip(ours, exactly(curvature(by_hand), *given), strict=True):
        assert_close(one, exact)


@pytest.mark.parametrize("axes", [(0, 0, 0, 0, 0), (0, None, None, None, None), (None, 0, 0, 0, 0), (1, 0, 1, 1, 0)])
def test_lanes(axes):
    lanes = [operands((4, 21, 18), seed) for seed in range(3)]
    given = [
        lanes[0][i] if axis is None else np.stack([lane[i] for lane in lanes], axis) for i, axis in enumerate(axes)
    ]

    def gradients(by):
        return jax.vmap(jax.grad(lambda *g: jnp.sum(jnp.sin(by(*g))), argnums=(0, 1, 2)), in_axes=axes)

    jax.tree.map(assert_close, gradients(noisy_linear)(*given), exactly(gradients(by_hand), *given))


def test_only_the_means_learn():
    """The gradient of the kernel alone, with sigma held."""
    x, *weights = operands(SIZES[2])

    def gradient(by):
        return jax.grad(lambda kernel, x, *rest: jnp.sum(jnp.sin(by(x, kernel, *rest))))

    order = (weights[0], x, *weights[1:])
    assert_close(gradient(noisy_linear)(*order), exactly(gradient(by_hand), *order))
