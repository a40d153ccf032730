"""Rows that only look: the same results, and derivatives of the other rows alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.native import library
from masp.native.linear import noisy_linear
from masp.networks import QNetwork
from masp.still import learning_rows

ROWS = 3


def noisy(x, kernel, sigma, noise_in, noise_out):
    return x @ (kernel + noise_out[:, None] * sigma * noise_in).T


@pytest.fixture(params=[noisy, noisy_linear], ids=["plain", "native"])
def layer(request):
    if request.param is noisy_linear and not library.available():
        pytest.skip(library.status())
    return request.param


def operands(seed=0):
    """x [5, 7], kernel and sigma [4, 7], noise."""
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in [(5, 7), (4, 7), (4, 7), (7,), (4,)]]


def by_hand(x, *weights):
    """The same, by cutting the others off."""
    return jnp.concatenate([noisy(x[:ROWS], *weights), jax.lax.stop_gradient(noisy(x[ROWS:], *weights))])


def assert_close(ours, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), ours, expected)


@pytest.mark.parametrize("which", [(0,), (1,), (1, 2), (0, 1, 2, 3, 4)])
def test_gradients(layer, which):
    def gradients(by):
        return jax.value_and_grad(lambda *given: jnp.sum(jnp.sin(by(*given))), argnums=which)(*operands())

    assert_close(gradients(learning_rows(layer, ROWS)), gradients(lambda x, *w: by_hand(still(x), *w)))


def still(x):
    """x, of which the last rows have no derivative."""
    return jnp.concatenate([x[:ROWS], jax.lax.stop_gradient(x[ROWS:])])


def test_forward_mode(layer):
    def tangent(by):
        return jax.jvp(by, operands(), operands(1))

    assert_close(tangent(learning_rows(layer, ROWS)), tangent(lambda x, *w: by_hand(still(x), *w)))


@pytest.mark.parametrize("outer", [jax.grad, jax.jacfwd])
def test_second_derivatives(layer, outer):
    def curvature(by):
        def slope(kernel):
            x, _, *rest = operands()
            return jnp.sum(jnp.cos(jax.grad(lambda k: jnp.sum(jnp.sin(by(x, k, *rest))))(kernel)))

        return outer(slope)(operands()[1])

    assert_close(curvature(learning_rows(layer, ROWS)), curvature(by_hand))


def test_lanes(layer):
    lanes = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[operands(seed) for seed in range(3)])

    def gradients(by):
        return jax.vmap(jax.grad(lambda k, x, *rest: jnp.sum(jnp.sin(by(x, k, *rest)))))(lanes[1], lanes[0], *lanes[2:])

    assert_close(gradients(learning_rows(layer, ROWS)), gradients(by_hand))


@pytest.mark.parametrize("noise", [False, True])
def test_networks(noise):
    """Observations beside the others: their outputs follow, and the gradient is as if they were not there."""
    network = QNetwork("image", 3, 5, 24, dueling=True, noisy=noise, embedding=2)
    x, y = jnp.asarray(np.random.default_rng(0).integers(0, 255, (2, 6, 36, 36, 4)), jnp.uint8)
    variables = network.init(jax.random.PRNGKey(0), x, jnp.eye(3))
    variables = jax.tree.map(lambda leaf: leaf + 0.1 * jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape), variables)

    def outputs(params, seen, beside=None):
        return network.apply({**variables, "params": params}, seen, jnp.eye(3), beside)

    def joint(params):
        found = outputs(params, x, y)
        return jnp.sum(jnp.sin(5 * found[:6])) + jnp.sum(jax.lax.stop_gradient(found[6:])), found

    alone = jax.grad(lambda params: jnp.sum(jnp.sin(5 * outputs(params, x))))(variables["params"])
    gradient, found = jax.grad(joint, has_aux=True)(variables["params"])
    assert_close(found, jnp.concatenate([outputs(variables["params"], seen) for seen in (x, y)]))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), gradient, alone)
