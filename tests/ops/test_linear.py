"""Linear layers are products; the noise of noisy layers is factorised; weights load in either orientation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.agent.networks import draw_noise
from masp.ops import Linear, NoisyLinear, adapt_layout

INPUTS, OUTPUTS = 5, 4


def noisy_layer():
    """A layer whose parameters are all different, and two noise samples."""
    rng = np.random.default_rng(0)
    shapes = {"kernel": (OUTPUTS, INPUTS), "bias": (OUTPUTS,)}
    shapes |= {f"{name}_sigma": shape for name, shape in shapes.items()}
    params = {name: jnp.asarray(rng.uniform(0.5, 1.5, shape), jnp.float32) for name, shape in shapes.items()}
    template = {"input": jnp.zeros(INPUTS), "output": jnp.zeros(OUTPUTS)}
    return NoisyLinear(OUTPUTS), params, draw_noise(jax.random.PRNGKey(0), template, 2)


def effective(layer, params, noise):
    """Weights [O, I] and biases [O] that the layer really applies, found by probing with basis vectors."""
    variables = {"params": params} | ({} if noise is None else {"noise": noise})
    bias = np.asarray(layer.apply(variables, jnp.zeros((1, INPUTS))))[0]
    return np.asarray(layer.apply(variables, jnp.eye(INPUTS))).T - bias[:, None], bias


def test_noise_is_of_rank_one_and_differs_between_samples():
    layer, params, noises = noisy_layer()
    found = []
    for noise in noises:
        kernel, bias = effective(layer, params, noise)
        disturbance = (kernel - params["kernel"]) / params["kernel_sigma"]
        sizes = np.linalg.svd(disturbance, compute_uv=False)
        assert sizes[0] > 0.1 and sizes[1] < 1e-5 * sizes[0]
        np.testing.assert_allclose(disturbance, np.outer(noise["output"], noise["input"]), atol=1e-5)
        np.testing.assert_allclose((bias - params["bias"]) / params["bias_sigma"], noise["output"], atol=1e-5)
        found.append(disturbance)
    assert np.abs(found[0] - found[1]).max() > 0.1


def test_without_noise_the_layer_is_plain():
    layer, params, _ = noisy_layer()
    kernel, bias = effective(layer, params, None)
    np.testing.assert_allclose(kernel, params["kernel"], atol=1e-6)
    np.testing.assert_allclose(bias, params["bias"], atol=1e-6)


def test_noisy_layer_starts_as_in_the_paper():
    """Means uniform within 1/sqrt(inputs), sigmas 0.5/sqrt(inputs)."""
    params = jax.jit(NoisyLinear(64).init)(jax.random.PRNGKey(0), jnp.zeros((1, 16)))["params"]
    assert np.abs(params["kernel"]).max() <= 0.25 and np.abs(params["kernel"]).max() > 0.24
    assert np.std(params["kernel"]) == pytest.approx(0.5 / 12**0.5, rel=0.1)
    assert (np.asarray(params["kernel_sigma"]) == 0.125).all() and (np.asarray(params["bias_sigma"]) == 0.125).all()


def test_linear_layers_are_products_and_start_as_wide_as_told():
    """Weights are [outputs, inputs], of standard deviation scale / sqrt(inputs); only the last axis is touched."""
    x = np.random.default_rng(0).normal(size=(2, 5, 400)).astype(np.float32)
    params = Linear(300, initial_scale=0.5).init(jax.random.PRNGKey(0), x)["params"]
    assert params["kernel"].shape == (300, 400) and not np.asarray(params["bias"]).any()
    assert np.std(params["kernel"]) == pytest.approx(0.5 / 20, rel=0.02)
    params["bias"] = params["bias"] + np.arange(300.0)
    found = Linear(300, initial_scale=0.5).apply({"params": params}, x)
    np.testing.assert_allclose(found, x @ np.asarray(params["kernel"]).T + np.arange(300.0), rtol=1e-4, atol=1e-4)


def test_initial_scale_applies_to_means_and_sigmas():
    params = NoisyLinear(64, initial_scale=0.1).init(jax.random.PRNGKey(0), jnp.zeros((1, 16)))["params"]
    assert np.abs(params["kernel"]).max() == pytest.approx(0.025, rel=0.05)
    np.testing.assert_allclose(params["kernel_sigma"], 0.0125, rtol=1e-6)
    np.testing.assert_allclose(params["bias_sigma"], 0.0125, rtol=1e-6)


def test_adapt_layout():
    """Weights of hidden layers are transposed where the other orientation is expected; all else stays."""
    kernel = np.arange(6.0).reshape(2, 3)
    arrays = {"['hidden']['kernel']": kernel, "['hidden']['bias']": np.ones(2), "['out']['kernel']": kernel}
    names = ["['hidden']['kernel_t']", "['hidden']['bias']", "['out']['kernel']"]
    adapted = adapt_layout(arrays, names)
    assert set(adapted) == set(names)
    np.testing.assert_array_equal(adapted["['hidden']['kernel_t']"], kernel.T)
    assert adapted["['out']['kernel']"] is kernel
    back = adapt_layout(adapted, arrays)
    assert set(back) == set(arrays) and all(np.array_equal(back[name], arrays[name]) for name in arrays)


def test_adapt_layout_keeps_leading_axes():
    """Stacked parameters of several steps or seeds: only the last two axes are swapped."""
    adapted = adapt_layout({".mu['h']['kernel_t']": np.zeros((5, 2, 3))}, [".mu['h']['kernel']"])
    assert adapted[".mu['h']['kernel']"].shape == (5, 3, 2)
