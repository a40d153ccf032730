"""A convolution of planes fused with the linear layer behind it equals the definition, with all derivatives."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.agent.networks import QNetwork
from masp.ops.convolution import patches
from masp.ops.small_convolution import unpack_bits
from masp_kernels import cells

CASES = {
    # batch, height, width, channels, bits of each, kinds of pixels (0: all differ; less: so many, but images are mostly
    # the same), features, outputs, common inputs
    "few planes": (32, 10, 10, 4, 1, 3, 16, 128, 0),
    "few planes, all differ": (40, 6, 5, 7, 1, 0, 16, 16, 5),
    "many planes": (24, 7, 7, 10, 1, 20, 16, 48, 0),
    "numbers": (33, 7, 7, 1, 25, 6, 32, 128, 8),
    "numbers, keys are hashes": (50, 5, 5, 2, 25, 0, 32, 32, 0),
    "one place": (9, 3, 3, 1, 31, 4, 48, 80, 3),
    "a game": (32, 10, 10, 4, 1, -3, 16, 128, 0),
    "a game in numbers": (64, 7, 7, 1, 25, -6, 32, 48, 3),
    "all the same": (64, 7, 7, 1, 25, -1, 32, 48, 3),
    "many images": (700, 10, 10, 4, 1, -3, 16, 16, 0),
}


ALL = tuple(range(cells.WEIGHTS))


def arrays(name, seed=0):
    batch, height, width, channels, bits, kinds, features, outputs, common = CASES[name]
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, 2**bits, size=(abs(kinds) or batch * height * width, channels))
    which = rng.integers(0, len(drawn), size=(batch, height, width)) if kinds else np.arange(len(drawn))
    if kinds < 0:
        which = np.where(rng.random(which.shape) < 0.03, which, which[:1])
    numbers = drawn[which].reshape(batch, height, width, channels)
    numbers = jnp.asarray(numbers.astype(bool if bits == 1 else np.int32))
    inputs = (height - 2) * (width - 2) * features + common + (3 if common else 0)  # some take no part
    shapes = (features, 9 * channels * bits), (features,), (inputs, outputs), (common,), (outputs,)
    return (
        numbers,
        tuple(jnp.asarray(rng.normal(size=shape) / max(shape[-1], 1) ** 0.5, jnp.float32) for shape in shapes),
        bits,
    )


def reference(numbers, kernel, bias, weights, common, offset, bits, rectified=True):
    planes = unpack_bits(patches(numbers.astype(jnp.int32), 3), bits)
    pixels = jax.nn.relu(jnp.einsum("...i,oi->...o", planes, kernel) + bias).reshape(len(numbers), -1)
    made = offset + pixels @ weights[: pixels.shape[1]] + common @ weights[len(weights) - len(common) :]
    return jax.nn.relu(made) if rectified else made


def ours(numbers, kernel, bias, weights, common, offset, bits, rectified=True):
    return cells.hidden(numbers, kernel, bias, weights, offset, bits, 3, common, rectified)


def assert_close(a, b):
    def close(x, y):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5 * max(1.0, float(jnp.abs(y).max(initial=0))))

    jax.tree.map(close, a, b)


@pytest.mark.parametrize("rectified", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(instruction_set, name, rectified):
    numbers, weights, bits = arrays(name)

    def found(by):
        return jax.value_and_grad(lambda *w: jnp.sum(jnp.sin(by(numbers, *w, bits, rectified))), argnums=ALL)(*weights)

    assert_close(found(ours), found(reference))


@pytest.mark.parametrize("rectified", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_along_a_direction(instruction_set, name, rectified):
    numbers, weights, bits = arrays(name)
    towards = arrays(name, seed=1)[1]

    def found(by):
        return jax.jvp(lambda *w: by(numbers, *w, bits, rectified), weights, towards)

    assert_close(found(ours), found(reference))


@pytest.mark.parametrize("name", ["few planes", "numbers", "one place"])
@pytest.mark.parametrize("parts", [(0, 1), (2,), (2, 3), (4,)])
def test_twice(name, parts):
    """Derivatives of derivatives, in some of the weights alone."""
    numbers, weights, bits = arrays(name)
    towards = arrays(name, seed=1)[1]

    def found(by):
        def value(*some):
            filled = [some[parts.index(i)] if i in parts else w for i, w in enumerate(weights)]
            return jnp.sum(jnp.sin(by(numbers, *filled, bits)))

        some = tuple(weights[i] for i in parts)
        there = tuple(towards[i] for i in parts)

        def slope(*some):
            return jax.jvp(value, some, there)[1]

        def steepness(*some):
            return sum(jnp.sum(g**2) for g in jax.grad(value, argnums=tuple(range(len(parts))))(*some))

        return slope(*some), jax.grad(slope)(*some), jax.grad(steepness)(*some)

    assert_close(found(ours), found(reference))


def test_supported_sizes():
    """The kernel counts images in 16 bits, and distinct pixels too where it has to number them."""
    assert cells.fits(np.zeros((700, 10, 10, 7), bool), 16, 16, 1, 3)
    assert not cells.fits(np.zeros((700, 10, 10, 8), bool), 16, 16, 1, 3)
    assert cells.fits(np.zeros((600, 10, 10, 8), bool), 16, 16, 1, 3)
    assert not cells.fits(np.zeros((2**16, 3, 3, 4), bool), 16, 16, 1, 3)


def test_lanes_are_one_call_each():
    lanes = [arrays("few planes", seed) for seed in range(3)]
    numbers = jnp.stack([numbers for numbers, _, _ in lanes])
    weights = [jnp.stack(parts) for parts in zip(*[weights for _, weights, _ in lanes], strict=True)]

    def found(by):
        def one(n, *w):
            return jax.value_and_grad(lambda *w: jnp.sum(jnp.sin(by(n, *w, 1))), argnums=ALL)(*w)

        same_numbers = jax.vmap(one, in_axes=(None, *[0] * cells.WEIGHTS))
        return jax.vmap(one)(numbers, *weights), same_numbers(numbers[0], *weights)

    assert_close(found(ours), found(reference))


def test_lanes_with_different_numbers_of_kinds():
    """The sums of kinds have another offset in every lane."""
    lanes = [arrays(name, seed) for seed, name in enumerate(["a game in numbers", "all the same", "a game in numbers"])]
    numbers = jnp.stack([numbers for numbers, _, _ in lanes])
    assert len({len(np.unique(lane)) for lane in np.asarray(numbers)}) > 1
    weights = [jnp.stack(parts) for parts in zip(*[weights for _, weights, _ in lanes], strict=True)]

    def found(by):
        def one(n, *w):
            return jax.value_and_grad(lambda *w: jnp.sum(jnp.sin(by(n, *w, 25))), argnums=ALL)(*w)

        return jax.vmap(one)(numbers, *weights)

    assert_close(found(ours), found(reference))


def test_the_cache_of_patch_tables_is_keyed_by_the_batch():
    """More batches than the cache holds, forwards and backwards, which differ in one bit."""
    numbers, weights, bits = arrays("few planes")
    batches = [numbers] + [numbers.at[i, 5, 5, 0].set(~numbers[i, 5, 5, 0]) for i in range(5)]

    @partial(jax.jit, static_argnums=0)
    def found(by, numbers):
        return jax.value_and_grad(lambda *w: jnp.sum(jnp.sin(by(numbers, *w, bits))), argnums=ALL)(*weights)

    for batch in batches + batches[::-1]:
        assert_close(found(ours, batch), found(reference, batch))


def test_results_are_deterministic():
    numbers, weights, bits = arrays("numbers")
    slopes = jax.jit(jax.grad(lambda *w: jnp.sum(jnp.sin(ours(numbers, *w, bits))), argnums=ALL))
    first = slopes(*weights)
    assert all(np.array_equal(a, b) for _ in range(20) for a, b in zip(first, slopes(*weights), strict=True))


def test_nan_propagates():
    numbers, (kernel, bias, *others), bits = arrays("few planes")
    assert np.isnan(ours(numbers, kernel, bias.at[3].set(jnp.nan), *others, bits)).all()


def test_what_fits():
    planes = jnp.zeros((32, 10, 10, 4), bool)
    assert cells.fits(planes, 16, 128, 1, 3)
    assert not cells.fits(planes, 16, 100, 1, 3), "outputs are not a multiple of a vector"
    assert not cells.fits(planes[:1], 16, 128, 1, 3), "a single image has few equal patches"
    assert not cells.fits(jnp.zeros((32, 10, 10, 4), jnp.int32), 16, 128, 25, 3), "more planes than a key holds"


@pytest.mark.parametrize("kind", ["planes", "minigrid", "minigrid-mission"])
def test_networks_fuse_the_convolution_with_the_hidden_layer(kind):
    """With an embedding and, in the last case, more features; equal to the two layers computed apart."""
    network = QNetwork(kind, 5, 1, 128, True, False, 3)
    shape = {"planes": (16, 10, 10, 4), "minigrid": (16, 7, 7, 4), "minigrid-mission": (16, 7, 7, 5)}[kind]
    seen = jax.random.randint(jax.random.PRNGKey(0), shape, 0, 2 if kind == "planes" else 4)
    seen = seen.astype(bool if kind == "planes" else jnp.uint8)
    similarity = jnp.full((5, 5), 0.3)
    params = network.init(jax.random.PRNGKey(1), seen, similarity)

    def slopes(parts):
        def total(params):
            return sum(jnp.sum(jnp.sin(network.apply(params, part, similarity))) for part in parts)

        return jax.value_and_grad(total)(params)

    # Four images are too few for the fused kernel: two separate layers.
    assert_close(slopes([seen]), slopes([seen[i : i + 4] for i in range(0, 16, 4)]))
    assert "masp_cells" in str(jax.make_jaxpr(lambda x: network.apply(params, x, similarity))(seen))
