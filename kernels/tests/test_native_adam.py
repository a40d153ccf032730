"""A step of Adam by our kernel equals optax's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from masp.agent.optimiser import descend, to_differentiate
from masp.similarity.metagradient import adam

SHAPES = {"a": (3, 5), "b": {"c": (1,), "d": (40_000,)}, "e": (16, 17)}  # larger and smaller than a piece of work


def tree(seed, size=1.0):
    rng = np.random.default_rng(seed)
    leaves = jax.tree.map(
        lambda shape: jnp.asarray(size * rng.normal(size=shape), jnp.float32),
        SHAPES,
        is_leaf=lambda node: isinstance(node, tuple),
    )
    return leaves


def plainly(rate, eps, max_norm, gradient, state, params):
    updates, state = adam(rate, eps, max_norm).update(gradient, state, params)
    return optax.apply_updates(params, updates), state, optax.global_norm(gradient)


def assert_close(ours, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), ours, theirs)


@pytest.mark.parametrize("max_norm", [None, 10.0, 1e6])
def test_steps(instructions, max_norm):
    settings = (0.01, 1.5e-4, max_norm)
    ours = theirs = (tree(0), adam(*settings).init(tree(0)), None)
    for seed in range(1, 4):
        ours = jax.jit(lambda *given: descend(*settings, *given))(tree(seed), ours[1], ours[0])
        theirs = plainly(*settings, tree(seed), theirs[1], theirs[0])
    assert_close(ours, theirs)
    assert ours[2] > 100, "the clip at 10 was to be tested"


def test_no_gradient(kernels):
    """Where the gradient was always 0, nothing moves and nothing is NaN."""
    settings, params = (0.1, 1e-8, 10.0), tree(0)
    after, _, norm = descend(*settings, tree(1, size=0.0), adam(*settings).init(params), params)
    jax.tree.map(np.testing.assert_array_equal, after, params)
    assert norm == 0


def test_lanes_have_norms_of_their_own(instructions):
    settings = (0.01, 1.5e-4, 10.0)
    gradients = jax.tree.map(lambda *g: jnp.stack(g), tree(1), tree(2, size=1e-3), tree(3, size=30.0))
    params, state = tree(0), adam(*settings).init(tree(0))
    ours = jax.vmap(lambda g: descend(*settings, g, state, params))(gradients)
    theirs = jax.vmap(lambda g: plainly(*settings, g, state, params))(gradients)
    assert_close(ours, theirs)


def test_nan_stays(kernels):
    settings, params = (0.01, 1.5e-4, 10.0), tree(0)
    gradient = tree(1) | {"a": jnp.full(SHAPES["a"], jnp.nan)}
    after, _, norm = descend(*settings, gradient, adam(*settings).init(params), params)
    assert np.isnan(norm) and np.isnan(after["e"]).all()


def test_derivative_is_that_of_optax(kernels):
    settings, params = (0.01, 1.5e-4, 10.0), tree(0)
    state = adam(*settings).init(params)

    def moved(by):
        return jax.grad(lambda g: sum(jnp.sum(jnp.sin(p)) for p in jax.tree.leaves(by(*settings, g, state, params)[0])))

    assert_close(moved(descend)(tree(1)), moved(plainly)(tree(1)))


def test_double_precision_goes_another_way(kernels):
    with jax.enable_x64(True):
        params = {"w": jnp.ones(4, jnp.float64)}
        after, _, norm = descend(0.1, 1e-8, None, params, adam(0.1, 1e-8, None).init(params), params)
        assert after["w"].dtype == norm.dtype == jnp.float64
        np.testing.assert_allclose(after["w"], 0.9, rtol=1e-7)


def pulled_back(by, gradient, state, cotangent):
    return jax.vjp(lambda g: by.update(g, state, None)[0], gradient)[1](cotangent)[0]


@pytest.mark.parametrize("max_norm", [None, 10.0, 1e6])
def test_pulling_back(instructions, max_norm):
    """Against optax's derivative in double precision, at a step that has moments."""
    settings = (0.01, 1.5e-4, max_norm)
    state = adam(*settings).update(tree(1), adam(*settings).init(tree(0)), tree(0))[1]
    ours = jax.jit(lambda *given: pulled_back(to_differentiate(*settings), *given))(tree(2), state, tree(3))
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x, (tree(2), state, tree(3)))
        exact = jax.tree.map(np.asarray, pulled_back(adam(*settings), *wide))
    largest = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(exact))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a / largest, b / largest, atol=2e-5), ours, exact)


def test_pulling_back_where_nothing_ever_moved(kernels):
    settings, none = (0.1, 1e-8, 10.0), tree(1, size=0.0)
    found = pulled_back(to_differentiate(*settings), none, adam(*settings).init(none), tree(2))
    exact = pulled_back(adam(*settings), none, adam(*settings).init(none), tree(2))
    assert_close(found, exact)


def test_pulling_back_in_lanes(kernels):
    settings = (0.01, 1.5e-4, 10.0)
    gradients = jax.tree.map(lambda *g: jnp.stack(g), tree(1), tree(2, size=1e-3), tree(3, size=30.0))
    state = adam(*settings).update(tree(5), adam(*settings).init(tree(0)), tree(0))[1]
    ours, theirs = (
        jax.vmap(lambda g, by=by: pulled_back(by(*settings), g, state, tree(4)))(gradients)
        for by in (to_differentiate, adam)
    )
    for lane in range(3):  # each has a scale of its own
        a, b = (np.concatenate([np.ravel(leaf[lane]) for leaf in jax.tree.leaves(by)]) for by in (ours, theirs))
        np.testing.assert_allclose(a / np.abs(b).max(), b / np.abs(b).max(), atol=2e-5)
