"""Means of distributions by the kernel equal those in double precision, with their derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp_kernels.softmax import expected_values, expected_values_forward


def by_hand(logits, support):
    return jnp.sum(jax.nn.softmax(logits) * support, axis=-1)


def exactly(function, *arrays):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*[jnp.asarray(a, jnp.float64) for a in arrays]))


def given(shape, scale=1.0):
    logits = scale * np.random.default_rng(0).normal(size=shape)
    return logits.astype(np.float32), np.linspace(-10, 10, shape[-1]).astype(np.float32)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("shape", [(32, 7, 51), (5, 2), (3, 16), (1, 1, 33), (2000, 51)])
def test_values(instruction_set, shape, scale):
    logits, support = given(shape, scale)
    np.testing.assert_allclose(expected_values(logits, support), exactly(by_hand, logits, support), atol=1e-5)


@pytest.mark.parametrize("far", [-1e30, -np.inf])
def test_atoms_of_probability_zero(far):
    logits = jnp.array([[0.0, far, 0.0]])
    assert expected_values(logits, jnp.array([1.0, 5.0, 2.0])) == pytest.approx(1.5)


def test_nan_propagates():
    assert np.isnan(expected_values(jnp.array([[0.0, jnp.nan]]), jnp.array([1.0, 2.0]))).all()


@pytest.mark.parametrize("ours", [expected_values, expected_values_forward])
@pytest.mark.parametrize("derivative", [jax.grad, jax.jacfwd, jax.hessian, lambda f: jax.jacrev(jax.jacfwd(f))])
def test_derivatives(derivative, ours):
    logits, support = given((2, 3, 5))

    def of(by):
        return derivative(lambda z: jnp.sum(jnp.sin(by(z, jnp.asarray(support, z.dtype)))))

    np.testing.assert_allclose(of(ours)(logits), exactly(of(by_hand), logits), atol=2e-5)


def test_lanes():
    logits, support = given((4, 6, 9))
    ours = jax.vmap(jax.grad(lambda z: jnp.sum(expected_values(z, support))), in_axes=1)(logits)
    exact = exactly(jax.vmap(jax.grad(lambda z: jnp.sum(by_hand(z, jnp.asarray(support, z.dtype)))), in_axes=1), logits)
    np.testing.assert_allclose(ours, exact, atol=1e-5)


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
def test_lanes_with_supports_of_their_own(axes):
    logits, support = given((3, 4, 9))
    supports = np.stack([support, 2 * support, support + 1])
    both = logits if axes[0] == 0 else logits[0], supports if axes[1] == 0 else support
    ours = jax.vmap(expected_values, in_axes=axes)(*both)
    np.testing.assert_allclose(ours, exactly(jax.vmap(by_hand, in_axes=axes), *both), atol=1e-5)
