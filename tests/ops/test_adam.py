"""Adam and clipping by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from masp.ops import Adam
from masp.ops.adam import clip_by_global_norm


def test_first_step_by_hand():
    """After bias correction the first step is the learning rate times g / (|g| + eps)."""
    with jax.enable_x64(True):
        gradient, params = {"a": jnp.array([3.0, -4.0, 0.0])}, {"a": jnp.array([1.0, 1.0, 1.0])}
        adam = Adam(0.1, eps=1e-3)
        after, _, norm = adam.step(gradient, adam.init(params), params)
        np.testing.assert_allclose(after["a"], [1 - 0.1 * 3 / 3.001, 1 + 0.1 * 4 / 4.001, 1.0], rtol=1e-9)
        assert norm == 5.0


def test_steps_equal_those_of_the_transformation():
    adam = Adam(0.01, 1e-4, max_gradient_norm=1.0)
    params = other = {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3)}
    state = other_state = adam.init(params)
    for factor in (1.0, -0.3, 5.0):
        gradient = jax.tree.map(lambda leaf: factor * jnp.sin(leaf), params)
        params, state, _ = adam.step(gradient, state, params)
        updates, other_state = adam.transformation.update(gradient, other_state, other)
        other = optax.apply_updates(other, updates)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), (params, state), (other, other_state))


def test_clipping_by_hand():
    clip = clip_by_global_norm(1.0)
    large, small = {"a": jnp.array([3.0]), "b": jnp.array([-4.0])}, {"a": jnp.array([0.3]), "b": jnp.array([-0.4])}
    clipped, _ = clip.update(large, clip.init(large))
    np.testing.assert_allclose([clipped["a"][0], clipped["b"][0]], [0.6, -0.8], rtol=1e-6)
    kept, _ = clip.update(small, clip.init(small))
    np.testing.assert_allclose([kept["a"][0], kept["b"][0]], [0.3, -0.4], rtol=1e-6)


def test_no_clipping_without_a_norm():
    gradient = {"a": jnp.array([300.0])}
    for norm in (None, 0.0):
        assert Adam(0.1, 1e-8, norm).step(gradient, Adam(0.1, 1e-8, norm).init(gradient), gradient)[2] == 300.0
