"""Convolutions with ReLU over bytes, all layers at once, equal XLA's convolutions in double precision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.ops.convolution import convolve_by_xla
from masp_kernels.torso import fits, torso

NATURE = ((8, 4, 32), (4, 2, 64), (3, 1, 64))  # size, stride, features
CASES = [
    # images, layers
    ((5, 44, 40, 4), NATURE),
    ((1, 36, 36, 1), NATURE),
    ((6, 9, 8, 3), ((3, 2, 64), (2, 1, 32))),  # the last row and column are in no patch
    ((9, 7, 7, 5), ((3, 1, 32),)),
]


def operands(case, seed=0):
    shape, layers = case
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, shape).astype(np.uint8)
    flat, channels = [], shape[-1]
    for size, _, features in layers:
        flat.append(rng.normal(size=(size, size, channels, features)).astype(np.float32) / (size * channels**0.5))
        flat.append(rng.normal(size=features).astype(np.float32))
        channels = features
    return x, flat, [stride for _, stride, _ in layers]


def pairs(flat):
    return list(zip(flat[::2], flat[1::2], strict=True))


def by_hand(x, weights, strides):
    y = x.astype(weights[0][0].dtype) / 255
    for (kernel, bias), stride in zip(weights, strides, strict=True):
        y = jax.nn.relu(convolve_by_xla(y, kernel, stride) + bias)
    return y


def exactly(function, *arrays):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*[jnp.asarray(a, jnp.float64) for a in arrays]))


def assert_close(ours, exact):
    scale = max(np.abs(exact).max(), 1e-3)
    np.testing.assert_allclose(np.asarray(ours) / scale, exact / scale, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_forward_and_backward(instruction_set, case):
    x, flat, strides = operands(case)
    assert fits(x, pairs([jnp.asarray(part) for part in flat]))

    def all_of_it(by):
        def results(*flat):
            y, pull_back = jax.vjp(lambda *flat: by(x, pairs(flat), strides), *flat)
            return y, *pull_back(jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape))

        return results

    jax.tree.map(assert_close, all_of_it(torso)(*flat), exactly(all_of_it(by_hand), *flat))


@pytest.mark.parametrize("case", CASES)
def test_forward_mode(instruction_set, case):
    x, flat, strides = operands(case)
    along = operands(case, seed=1)[1]

    def both(by):
        def results(*given):
            return jax.jvp(
                lambda *flat: by(x, pairs(flat), strides), tuple(given[: len(flat)]), tuple(given[len(flat) :])
            )

        return results

    jax.tree.map(assert_close, both(torso)(*flat, *along), exactly(both(by_hand), *flat, *along))


@pytest.mark.parametrize("outer", [jax.grad, jax.jacfwd])
def test_second_derivatives(outer):
    x, flat, strides = operands(((2, 5, 5, 2), ((3, 1, 32), (2, 1, 32))))

    def curvature(by):
        def slope(part, *flat):
            along = tuple(map(jnp.cos, flat))
            flat = tuple(leaf * part for leaf in flat)
            gradients = jax.grad(lambda *f: jnp.sum(jnp.sin(by(x, pairs(f), strides))), argnums=tuple(range(4)))(*flat)
            tangent = jax.jvp(lambda *f: by(x, pairs(f), strides), flat, along)[1]
            return sum(jnp.sum(jnp.square(g)) for g in gradients) + jnp.sum(jnp.sin(tangent))

        return lambda *flat: outer(slope)(jnp.ones((), flat[0].dtype), *flat)

    assert_close(curvature(torso)(*flat), exactly(curvature(by_hand), *flat))


def test_lanes():
    x, flat, strides = operands(CASES[2])
    several = [np.stack([part, 2 * part, -part]) for part in flat]

    def gradients(by, axes):
        loss = jax.grad(lambda flat, x: jnp.sum(jnp.sin(by(x, pairs(flat), strides))))
        return jax.vmap(loss, in_axes=(0, axes))

    for axis, images in ((None, x), (0, np.stack([x, x // 2, 255 - x]))):
        ours = gradients(torso, axis)(several, images)
        exact = exactly(lambda *f, axis=axis, images=images: gradients(by_hand, axis)(list(f), images), *several)
        jax.tree.map(assert_close, ours, exact)


def test_results_are_deterministic():
    x, flat, strides = operands(CASES[0])
    compute = jax.jit(jax.grad(lambda flat: jnp.sum(jnp.square(torso(x, pairs(flat), strides)))))
    first = compute(flat)
    for _ in range(10):
        jax.tree.map(np.testing.assert_array_equal, compute(flat), first)


def test_nan_propagates():
    x, flat, strides = operands(CASES[3])
    flat[1][0] = np.nan
    assert np.isnan(np.asarray(torso(x, pairs(flat), strides))[..., 0]).all()
