"""A step of Adam by the kernel equals optax's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.ops import Adam

SHAPES = {"a": (3, 5), "b": {"c": (1,), "d": (40_000,)}, "e": (16, 17)}  # larger and smaller than a chunk


def tree(seed, size=1.0):
    rng = np.random.default_rng(seed)
    leaves = jax.tree.map(
        lambda shape: jnp.asarray(size * rng.normal(size=shape), jnp.float32),
        SHAPES,
        is_leaf=lambda node: isinstance(node, tuple),
    )
    return leaves


def reference(adam, gradient, state, params):
    """The definition."""
    return adam._step_by_optax(gradient, state, params, ())


def assert_close(ours, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), ours, theirs)


@pytest.mark.parametrize("max_norm", [None, 10.0, 1e6])
def test_steps(instruction_set, max_norm):
    adam = Adam(0.01, 1.5e-4, max_norm)
    ours = theirs = (tree(0), adam.init(tree(0)), None)
    for seed in range(1, 4):
        ours = jax.jit(adam.step)(tree(seed), ours[1], ours[0])
        theirs = reference(adam, tree(seed), theirs[1], theirs[0])
    assert_close(ours, theirs)
    assert ours[2] > 100, "the gradient must exceed the clipping norm of 10"


def test_zero_gradient():
    """Where the gradient was always 0, no parameter changes and none becomes NaN."""
    adam, params = Adam(0.1, 1e-8, 10.0), tree(0)
    after, _, norm = adam.step(tree(1, size=0.0), adam.init(params), params)
    jax.tree.map(np.testing.assert_array_equal, after, params)
    assert norm == 0


def stacked_gradients():
    return jax.tree.map(lambda *g: jnp.stack(g), tree(1), tree(2, size=1e-3), tree(3, size=30.0))


def test_each_lane_has_its_own_norm(instruction_set):
    adam, params = Adam(0.01, 1.5e-4, 10.0), tree(0)
    state = adam.init(params)
    ours = jax.vmap(lambda g: adam.step(g, state, params))(stacked_gradients())
    theirs = jax.vmap(lambda g: reference(adam, g, state, params))(stacked_gradients())
    assert_close(ours, theirs)


def test_nan_propagates():
    adam, params = Adam(0.01, 1.5e-4, 10.0), tree(0)
    gradient = tree(1) | {"a": jnp.full(SHAPES["a"], jnp.nan)}
    after, _, norm = adam.step(gradient, adam.init(params), params)
    assert np.isnan(norm) and np.isnan(after["e"]).all()


def test_derivative_of_a_step():
    adam, params = Adam(0.01, 1.5e-4, 10.0), tree(0)
    state = adam.init(params)

    def gradient_of(step):
        return jax.grad(lambda g: sum(jnp.sum(jnp.sin(p)) for p in jax.tree.leaves(step(g, state, params)[0])))

    theirs = gradient_of(lambda *operands: reference(adam, *operands))(tree(1))
    assert_close(gradient_of(adam.step)(tree(1)), theirs)


def test_double_precision_uses_the_definition():
    with jax.enable_x64(True):
        params, adam = {"w": jnp.ones(4, jnp.float64)}, Adam(0.1, 1e-8)
        after, _, norm = adam.step(params, adam.init(params), params)
        assert after["w"].dtype == norm.dtype == jnp.float64
        np.testing.assert_allclose(after["w"], 0.9, rtol=1e-7)


def vjp(transformation, gradient, state, cotangent):
    return jax.vjp(lambda g: transformation.update(g, state, None)[0], gradient)[1](cotangent)[0]


@pytest.mark.parametrize("max_norm", [None, 10.0, 1e6])
def test_vjp(instruction_set, max_norm):
    """Against optax's derivative in double precision, at a step with moments."""
    adam = Adam(0.01, 1.5e-4, max_norm)
    state = adam.step(tree(1), adam.init(tree(0)), tree(0))[1]
    ours = jax.jit(lambda *operands: vjp(adam.transformation, *operands))(tree(2), state, tree(3))
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x, (tree(2), state, tree(3)))
        exact = jax.tree.map(np.asarray, vjp(adam._optax, *wide))
    largest = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(exact))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a / largest, b / largest, atol=2e-5), ours, exact)


def test_vjp_with_zero_moments():
    adam, zeros = Adam(0.1, 1e-8, 10.0), tree(1, size=0.0)
    state = adam.init(zeros)
    assert_close(vjp(adam.transformation, zeros, state, tree(2)), vjp(adam._optax, zeros, state, tree(2)))


def test_vjp_in_lanes():
    adam = Adam(0.01, 1.5e-4, 10.0)
    state = adam.step(tree(5), adam.init(tree(0)), tree(0))[1]
    ours, theirs = (
        jax.vmap(lambda g, by=by: vjp(by, g, state, tree(4)))(stacked_gradients())
        for by in (adam.transformation, adam._optax)
    )
    for lane in range(3):  # each has its own scale
        a, b = (np.concatenate([np.ravel(leaf[lane]) for leaf in jax.tree.leaves(by)]) for by in (ours, theirs))
        np.testing.assert_allclose(a / np.abs(b).max(), b / np.abs(b).max(), atol=2e-5)


def test_the_transformation_advances_its_state():
    adam = Adam(0.01, 1.5e-4, 10.0)
    ours, theirs = (by.update(tree(1), adam.init(tree(0)), tree(0)) for by in (adam.transformation, adam._optax))
    assert_close(ours, theirs)
