"""Networks against forward passes by hand, and their torsos."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import naive_update as naive
from masp.agent.networks import QNetwork, draw_noise
from masp.environments.minigrid_cells import MINIGRID_CARDINALITIES


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
        hidden = "kernel_t" if "kernel_t" in params["advantage_hidden"] else "kernel"
        params["advantage_hidden"][hidden] = jnp.zeros(params["advantage_hidden"][hidden].shape).at[0, 0].set(1.0)
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


def _apply(network, params, observation):
    return network.apply({"params": params}, observation, jnp.eye(2))


minigrid_apply = jax.jit(_apply, static_argnums=0)


def test_a_torso_of_the_user():
    """It replaces the torso for the kind of observation; its parameters are part of the network's."""

    class Torso(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(7)(x[:, :2])

    network = QNetwork("vector", 3, 5, hidden=8, dueling=True, noisy=False, embedding=2, torso=Torso())
    observation = jnp.ones((4, 9))
    outputs, variables = network.init_with_output(jax.random.PRNGKey(0), observation, jnp.eye(3))
    assert outputs.shape == (4, 3, 5)
    assert variables["params"]["torso"]["Dense_0"]["kernel"].shape == (2, 7)
    assert variables["params"]["value_hidden"]["kernel"].shape == (8, 7 + 2)


@pytest.mark.parametrize("dueling", [False, True])
def test_noise_does_not_enlarge_the_initial_outputs(dueling):
    """The sigmas of the output layer start as small as its means: with noise, outputs spread like those without."""
    network = QNetwork("vector", 6, 1, hidden=64, dueling=dueling, noisy=True, embedding=0)
    observations = jax.random.normal(jax.random.PRNGKey(0), (32, 10))
    variables = network.init(jax.random.PRNGKey(1), observations, jnp.eye(6))
    plain = jnp.std(network.apply({"params": variables["params"]}, observations, jnp.eye(6)))
    noises = draw_noise(jax.random.PRNGKey(2), variables["noise"], 200)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *noises)
    noisy = jax.vmap(lambda noise: network.apply({**variables, "noise": noise}, observations, jnp.eye(6)))(stacked)
    assert 0.5 * plain < jnp.std(noisy) < 5 * plain
    assert jnp.std(noisy) < 0.05
