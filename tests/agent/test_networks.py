"""Networks against forward passes by hand; noise that is really factorised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import naive_update as naive
from masp.agent.networks import MINIGRID_CARDINALITIES, Linear, NoisyDense, QNetwork, draw_noise, patches

INPUTS, OUTPUTS = 5, 4


def noisy_layer():
    """A layer whose parameters are all different, and two noise samples."""
    rng = np.random.default_rng(0)
    shapes = {"kernel": (OUTPUTS, INPUTS), "bias": (OUTPUTS,)}
    shapes |= {f"{name}_sigma": shape for name, shape in shapes.items()}
    params = {name: jnp.asarray(rng.uniform(0.5, 1.5, shape), jnp.float32) for name, shape in shapes.items()}
    template = {"input": jnp.zeros(INPUTS), "output": jnp.zeros(OUTPUTS)}
    return NoisyDense(OUTPUTS), params, draw_noise(jax.random.PRNGKey(0), template, 2)


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


def test_noise_factors_are_signed_roots_of_gaussians():
    """f(e) = sign(e) sqrt|e|: squares with their sign are standard normal again."""
    template = {"a": jnp.zeros(300), "b": {"c": jnp.zeros((20, 5))}}
    first, second = draw_noise(jax.random.PRNGKey(2), template, 2)
    assert jax.tree.map(jnp.shape, first) == jax.tree.map(jnp.shape, template)
    factors = np.concatenate(
        [np.asarray(n["a"]) for n in (first, second)] + [np.ravel(n["b"]["c"]) for n in (first, second)]
    )
    e = np.sign(factors) * factors**2
    assert abs(e.mean()) < 0.15 and e.std() == pytest.approx(1.0, abs=0.1)
    assert (np.abs(e) < 0.6745).mean() == pytest.approx(0.5, abs=0.06)  # quartiles of a Gaussian
    assert not np.array_equal(first["a"], second["a"])
    (again, _), (other, _) = (draw_noise(jax.random.PRNGKey(seed), template, 2) for seed in (2, 3))
    np.testing.assert_array_equal(first["a"], again["a"])
    assert not np.array_equal(first["a"], other["a"])


def test_noisy_layer_starts_as_in_the_paper():
    """Means uniform within 1/sqrt(inputs), sigmas 0.5/sqrt(inputs)."""
    params = jax.jit(NoisyDense(64).init)(jax.random.PRNGKey(0), jnp.zeros((1, 16)))["params"]
    assert np.abs(params["kernel"]).max() <= 0.25 and np.abs(params["kernel"]).max() > 0.24
    assert np.std(params["kernel"]) == pytest.approx(0.5 / 12**0.5, rel=0.1)
    assert (np.asarray(params["kernel_sigma"]) == 0.125).all() and (np.asarray(params["bias_sigma"]) == 0.125).all()


def apply(learner, params, states, similarity, noise):
    return jax.jit(learner.outputs)(params, states, similarity, noise)


@pytest.mark.parametrize(("dueling", "noisy", "embedding"), [(True, True, 3), (False, True, 0), (True, False, 0)])
def test_network_agrees_with_forward_pass_by_hand(dueling, noisy, embedding):
    learner = naive.make_learner(dueling=dueling, noisy=noisy, embedding=embedding)
    rng = np.random.default_rng(1)
    params, template = naive.make_params(learner, rng)
    noise = naive.make_noise(template, rng, 1)[0] if noisy else None
    states, similarity = naive.make_batch(rng).transition.s_tm1, naive.make_similarity(rng)
    found = apply(learner, params, states, similarity, noise)
    expected = jax.jit(naive.forward)(params, states, similarity, noise)
    assert found.shape == (naive.BATCH, naive.ACTIONS, naive.ATOMS)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


def test_dueling_by_hand():
    """Value 10, advantages 1, 2, 6 with mean 3: 8, 9, 13."""
    network = QNetwork("vector", 3, 1, hidden=2, dueling=True, noisy=False, embedding=0)
    shapes = jax.eval_shape(network.init, jax.random.PRNGKey(0), jnp.zeros((1, 2)), jnp.eye(3))["params"]
    params = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes)
    params["value_out"]["bias"] = jnp.array([10.0])
    params["advantage_out"]["bias"] = jnp.array([1.0, 2.0, 6.0])
    found = network.apply({"params": params}, jnp.ones((2, 2)), jnp.eye(3))
    np.testing.assert_allclose(found[..., 0], [[8.0, 9.0, 13.0]] * 2, rtol=1e-6)


def test_similarity_is_seen_but_receives_no_gradient():
    learner = naive.make_learner(dueling=False, noisy=False, embedding=3)
    rng = np.random.default_rng(2)
    params, _ = naive.make_params(learner, rng)
    states, similarity = naive.make_batch(rng).transition.s_tm1, naive.make_similarity(rng)

    @jax.jit
    def slopes(params, similarity):
        return jax.value_and_grad(
            lambda p, s: learner.outputs(p, states, s, None).sum(axis=(1, 2)).mean(), argnums=(0, 1)
        )(params, similarity)

    here, (of_params, of_similarity) = slopes(params, similarity)
    there, _ = slopes(params, jnp.eye(naive.ACTIONS))
    assert here != there
    assert (np.asarray(of_similarity) == 0).all()
    assert np.abs(of_params["embedding"]["kernel"]).max() > 0


@pytest.mark.parametrize(
    ("kind", "observation", "features"),
    [
        ("image", jax.ShapeDtypeStruct((2, 84, 84, 4), np.uint8), 3136),
        ("planes", jax.ShapeDtypeStruct((2, 10, 10, 4), np.bool_), 8 * 8 * 16),
        ("minigrid", jax.ShapeDtypeStruct((2, 7, 7, 8), np.uint8), 5 * 5 * 32),
        ("minigrid-mission", jax.ShapeDtypeStruct((2, 7, 7, 10), np.uint8), 5 * 5 * 32 + 32),
        ("vector", jax.ShapeDtypeStruct((2, 12), np.float32), 8),
    ],
)
def test_torsos(kind, observation, features):
    """What the heads get, and what they give, for every kind of observation."""
    network = QNetwork(kind, 3, 5, hidden=8, dueling=True, noisy=True, embedding=0)

    def run(key, observation):
        return network.init_with_output(key, observation, jnp.eye(3))

    outputs, variables = jax.eval_shape(run, jax.random.PRNGKey(0), observation)
    assert outputs.shape == (2, 3, 5) and outputs.dtype == jnp.float32
    assert variables["params"]["advantage_hidden"]["kernel"].shape == (8, features)


def test_minigrid_planes():
    """Each code of a cell switches on one plane; the convolution sees them in the order of the channels."""
    network = QNetwork("minigrid", 2, 1, hidden=4, dueling=False, noisy=False, embedding=0)
    observation = np.zeros((2, 3, 3, 4), np.uint8)
    observation[1, 1, 1] = (5, 2, 3, 1)
    shapes = jax.eval_shape(network.init, jax.random.PRNGKey(0), observation, jnp.eye(2))["params"]
    planes = sum(MINIGRID_CARDINALITIES)
    kernel = shapes["MiniGridTorso_0"]["SmallTorso_0"]["Linear_0"]["kernel"]
    assert kernel.shape == (32, 3 * 3 * planes)
    params = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes)
    # Pass the centre's planes through, one after the other, to the first output.
    on = {}
    for plane in range(planes):
        weights = jnp.zeros((32, 3, 3, planes)).at[0, 1, 1, plane].set(1.0)
        params["MiniGridTorso_0"]["SmallTorso_0"]["Linear_0"]["kernel"] = weights.reshape(32, -1)
        params["advantage_hidden"]["kernel"] = jnp.zeros((32, 4)).at[0, 0].set(1.0)
        params["advantage_out"]["kernel"] = jnp.zeros((2, 4)).at[0, 0].set(1.0)
        on[plane] = np.asarray(minigrid_apply(network, params, observation))[:, 0, 0].tolist()
    assert {p for p, (blank, _) in on.items() if blank} == {0, 11, 17, 21}
    assert {p for p, (_, cell) in on.items() if cell} == {5, 11 + 2, 17 + 3, 21 + 1}


def test_missions_reach_the_values():
    """Words and their order count, of the newest frame; the cells do not see them."""
    network = QNetwork("minigrid-mission", 2, 1, hidden=8, dueling=False, noisy=False, embedding=0)
    observation = np.zeros((5, 7, 7, 10), np.uint8)  # two frames stacked
    observation[:, 0, :3, 9] = [(2, 3, 0), (2, 3, 0), (3, 2, 0), (2, 3, 4), (2, 3, 0)]
    observation[1, 0, :3, 4] = (5, 6, 7)  # another mission in the older frame
    observation[4, 6, 6, 9] = 5  # a word where no mission reaches
    shapes = jax.eval_shape(network.init, jax.random.PRNGKey(0), observation, jnp.eye(2))["params"]
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)
    cells = params["MiniGridTorso_0"]["SmallTorso_0"]["Linear_0"]["kernel"]
    assert cells.shape == (32, 3 * 3 * 2 * sum(MINIGRID_CARDINALITIES))
    values = np.asarray(minigrid_apply(network, params, observation))[:, 0, 0]
    assert values[0] == values[1] == values[4]
    assert len(set(values)) == 3


def test_linear_layers_are_products_and_start_as_wide_as_told():
    """Weights are [outputs, inputs], of standard deviation scale / sqrt(inputs); only the last axis is touched."""
    x = np.random.default_rng(0).normal(size=(2, 5, 400)).astype(np.float32)
    params = Linear(300, initial_scale=0.5).init(jax.random.PRNGKey(0), x)["params"]
    assert params["kernel"].shape == (300, 400) and not np.asarray(params["bias"]).any()
    assert np.std(params["kernel"]) == pytest.approx(0.5 / 20, rel=0.02)
    params["bias"] = params["bias"] + np.arange(300.0)
    found = Linear(300, initial_scale=0.5).apply({"params": params}, x)
    np.testing.assert_allclose(found, x @ np.asarray(params["kernel"]).T + np.arange(300.0), rtol=1e-4, atol=1e-4)


def test_patches_make_a_convolution():
    """The product with flat weights is the valid convolution of XLA."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 6, 5, 3)).astype(np.float32)
    weights = rng.normal(size=(3, 3, 3, 4)).astype(np.float32)
    expected = jax.lax.conv_general_dilated(x, weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    np.testing.assert_allclose(patches(jnp.asarray(x), 3) @ weights.reshape(-1, 4), expected, rtol=1e-4, atol=1e-5)


def _apply(network, params, observation):
    return network.apply({"params": params}, observation, jnp.eye(2))


minigrid_apply = jax.jit(_apply, static_argnums=0)
