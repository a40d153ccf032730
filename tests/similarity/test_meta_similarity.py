"""MetaSimilarity: an agent of somebody else's, its penalty and its meta-gradient, checked from outside.

The meta-gradient is compared with `jax.grad` through the whole update and with finite differences; neither uses
anything of the package but the smoothing of values, written out again below.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import masp
from masp.similarity.starts import mean_entry

BATCH, INPUTS, HIDDEN, ACTIONS = 6, 5, 16, 7
WEIGHT = 0.3


def clip(max_norm):
    return optax.clip_by_global_norm(max_norm)


OPTIMISERS = {
    "sgd": optax.sgd(0.1),
    "momentum": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "clipped adam": optax.chain(clip(0.05), optax.adam(0.01, eps_root=1e-16)),
}


def q_function(params, observations):
    """[B, A]"""
    return jnp.tanh(observations @ params["w0"] + params["b0"]) @ params["w1"] + params["b1"]


def make_params(rng, actions=ACTIONS):
    shapes = {"w0": (INPUTS, HIDDEN), "b0": (HIDDEN,), "w1": (HIDDEN, actions), "b1": (actions,)}
    return {name: jnp.asarray(rng.normal(0, 0.5, shape)) for name, shape in shapes.items()}


def make_batch(rng):
    return (
        jnp.asarray(rng.normal(size=(BATCH, INPUTS))),
        jnp.asarray(rng.integers(0, ACTIONS, BATCH)),
        jnp.asarray(rng.normal(size=BATCH)),
    )


def td_loss(params, batch):
    observations, actions, targets = batch
    return jnp.mean((q_function(params, observations)[jnp.arange(BATCH), actions] - targets) ** 2)


def naive_penalty(q, similarity):
    """Mean over the batch and the actions of the squared distance from the weighted mean of similar actions."""
    smoothed = jnp.einsum("ij,bj->bi", similarity, q) / jnp.sum(similarity, axis=1)
    return WEIGHT * jnp.mean(jnp.square(q - smoothed))


def make_similarity(rng):
    s = rng.uniform(0.1, 0.9, (ACTIONS, ACTIONS))
    s = (s + s.T) / 2
    np.fill_diagonal(s, 1.0)
    return jnp.asarray(s)


def make_meta(optimiser, **settings):
    return masp.MetaSimilarity(q_function, optimiser, ACTIONS, penalty_weight=WEIGHT, **settings)


@functools.cache
def td_update(optimiser):
    """An update without a penalty, compiled."""

    def update(params, opt_state, batch):
        step, opt_state = optimiser.update(jax.grad(td_loss)(params, batch), opt_state, params)
        return optax.apply_updates(params, step), opt_state

    return jax.jit(update)


def warmed_up(rng, optimiser, params, updates):
    """Parameters and moments after some updates on other batches."""
    opt_state = jax.jit(optimiser.init)(params)
    for _ in range(updates):
        params, opt_state = td_update(optimiser)(params, opt_state, make_batch(rng))
    return params, opt_state


def make_case(optimiser, rng, updates=3):
    """A point in training: parameters, moments, a batch, held-out data and a similarity."""
    params, opt_state = warmed_up(rng, optimiser, make_params(rng), updates)
    return params, opt_state, make_batch(rng), make_batch(rng), make_similarity(rng)


def loss_after_update(similarity, optimiser, params, opt_state, batch, held_out):
    """J'(S): the held-out TD loss after one update under the penalty of S."""

    def loss(params):
        return td_loss(params, batch) + naive_penalty(q_function(params, batch[0]), similarity)

    step, _ = optimiser.update(jax.grad(loss)(params), opt_state, params)
    return td_loss(optax.apply_updates(params, step), held_out)


def package_gradient(optimiser, params, opt_state, batch, held_out, similarity):
    """What a user of the package gets, with a loss as a user writes it."""
    meta = make_meta(optimiser)
    state = meta.init(params, batch[0], start=np.asarray(similarity))

    def gradient_of(params, opt_state, batch, held_out, state):
        def loss(params):
            return td_loss(params, batch) + meta.penalty(state, q_function(params, batch[0]))

        gradient = jax.grad(loss)(params)
        step, _ = optimiser.update(gradient, opt_state, params)
        held_out_gradient = jax.grad(td_loss)(optax.apply_updates(params, step), held_out)
        return meta.meta_gradient(state, params, opt_state, gradient, batch[0], held_out_gradient)

    return jax.jit(gradient_of)(params, opt_state, batch, held_out, state)


def relative_error(actual, expected):
    return np.linalg.norm(np.asarray(actual) - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("name", ["momentum", "clipped adam"])
def test_equals_autodiff_through_the_whole_update(name):
    optimiser = OPTIMISERS[name]
    with jax.enable_x64(True):
        *case, similarity = make_case(optimiser, np.random.default_rng(0))
        expected = jax.jit(jax.grad(lambda s: loss_after_update(s, optimiser, *case)))(similarity)
        assert relative_error(package_gradient(optimiser, *case, similarity), expected) < 1e-10


def test_equals_finite_differences():
    optimiser = OPTIMISERS["clipped adam"]
    with jax.enable_x64(True):
        *case, similarity = make_case(optimiser, np.random.default_rng(1))
        shifts = 1e-4 * np.eye(ACTIONS**2).reshape(-1, ACTIONS, ACTIONS)
        losses = jax.jit(jax.vmap(lambda s: loss_after_update(s, optimiser, *case)))
        expected = (losses(similarity + shifts) - losses(similarity - shifts)).reshape(ACTIONS, ACTIONS) / 2e-4
        assert relative_error(package_gradient(optimiser, *case, similarity), expected) < 1e-6


def test_any_inputs_reach_the_q_function():
    """A pytree of observations and noise; the penalty's derivative sees the same noise."""
    rng = np.random.default_rng(0)
    params, batch = make_params(rng), make_batch(rng)
    noise = jnp.asarray(rng.normal(size=(BATCH, INPUTS)))
    optimiser = OPTIMISERS["sgd"]
    gradient = jax.jit(jax.grad(td_loss))(params, batch)

    def noisy(params, inputs):
        return q_function(params, inputs["observations"] + inputs["noise"])

    plain = masp.MetaSimilarity(q_function, optimiser, ACTIONS)
    with_noise = masp.MetaSimilarity(noisy, optimiser, ACTIONS)
    inputs = {"observations": batch[0], "noise": noise}
    slopes = [
        jax.jit(meta.meta_gradient)(meta.init(params, x), params, optimiser.init(params), gradient, x, gradient)
        for meta, x in ((plain, batch[0] + noise), (with_noise, inputs))
    ]
    np.testing.assert_allclose(*slopes, rtol=1e-6)


def train(key, updates=4):
    """A few updates of a whole agent as a scan, from one key."""
    optimiser = OPTIMISERS["clipped adam"]
    meta = make_meta(optimiser, entropy_weight=0.01)
    keys = jax.random.split(key, 3)
    params = {
        "w0": jax.random.normal(keys[0], (INPUTS, HIDDEN)),
        "b0": jnp.zeros(HIDDEN),
        "w1": jax.random.normal(keys[1], (HIDDEN, ACTIONS)),
        "b1": jnp.zeros(ACTIONS),
    }
    start = meta.init(params, jnp.zeros((BATCH, INPUTS)))

    def draw(key):
        k = jax.random.split(key, 3)
        actions = jax.random.randint(k[1], (BATCH,), 0, ACTIONS)
        return jax.random.normal(k[0], (BATCH, INPUTS)), actions, jax.random.normal(k[2], (BATCH,))

    def update(carry, key):
        params, opt_state, state = carry
        batch, held_out = draw(key), draw(jax.random.fold_in(key, 1))
        gradient = jax.grad(lambda p: td_loss(p, batch) + meta.penalty(state, q_function(p, batch[0])))(params)
        step, new_opt_state = optimiser.update(gradient, opt_state, params)
        new_params = optax.apply_updates(params, step)
        held_out_gradient = jax.grad(td_loss)(new_params, held_out)
        state = meta.learn(state, params, opt_state, gradient, batch[0], held_out_gradient)
        return (new_params, new_opt_state, state), None

    carry, _ = jax.lax.scan(update, (params, optimiser.init(params), start), jax.random.split(keys[2], updates))
    return carry[2]


def test_learns_under_jit_vmap_and_scan():
    keys = jax.random.split(jax.random.PRNGKey(0), 2)
    both = jax.jit(jax.vmap(train))(keys)
    alone = jax.jit(train)(keys[1])
    np.testing.assert_allclose(both.similarity[1], alone.similarity, atol=1e-4)
    for similarity in np.asarray(both.similarity):
        np.testing.assert_array_equal(similarity, similarity.T)
        assert (np.diagonal(similarity) == 1).all() and similarity.min() >= 0 and similarity.max() <= 1
        assert np.abs(similarity - mean_entry(ACTIONS))[~np.eye(ACTIONS, dtype=bool)].max() > 0.01
    assert (both.skipped == 0).all()
    assert not np.allclose(both.similarity[0], both.similarity[1])


def test_a_gradient_of_zero_is_skipped_and_counted():
    """optax's clipping has no derivative there: the similarity stays what it was."""
    rng = np.random.default_rng(0)
    params, optimiser = make_params(rng), OPTIMISERS["clipped adam"]
    batch, meta = make_batch(rng), make_meta(optimiser)
    state = meta.init(params, batch[0])
    nothing, some = jax.tree.map(jnp.zeros_like, params), jax.jit(jax.grad(td_loss))(params, batch)
    learn = jax.jit(meta.learn)
    after = learn(state, params, optimiser.init(params), nothing, batch[0], some)
    assert after.skipped == 1
    np.testing.assert_array_equal(after.similarity, state.similarity)
    again = learn(after, params, optimiser.init(params), some, batch[0], some)
    assert again.skipped == 1 and not np.array_equal(again.similarity, state.similarity)


def test_penalty_by_hand_and_its_gradient():
    meta = masp.MetaSimilarity(lambda params, x: x @ params, optax.sgd(0.1), 2, penalty_weight=0.5)
    state = meta.init(jnp.zeros((3, 2)), jnp.zeros((1, 3)), start=np.ones((2, 2)))
    q = jnp.array([[1.0, 3.0], [2.0, 2.0]])
    assert meta.penalty(state, q) == 0.25  # 0.5 * mean of (1, 1, 0, 0)
    np.testing.assert_allclose(jax.grad(lambda q: meta.penalty(state, q))(q), [[-0.25, 0.25], [0.0, 0.0]], atol=1e-7)
    from_similarity = jax.grad(lambda s: meta.penalty(state._replace(similarity=s), q))(state.similarity)
    assert (np.asarray(from_similarity) == 0).all()  # the similarity is a constant of the main loss


MACROS = masp.ActionSet(2, [(0, 0, 1), (0, 1), (1, 1), (1,), (0, 0)])


def test_starts_are_those_of_the_package():
    from masp.similarity.matrix import start

    meta = masp.MetaSimilarity(q_function, OPTIMISERS["sgd"], MACROS)
    params = make_params(np.random.default_rng(0))
    for kind in ("constant", "overlap", "identity"):
        expected = start(kind, MACROS.sequences(), jax.random.PRNGKey(0))
        np.testing.assert_array_equal(meta.init(params, jnp.zeros((3, INPUTS)), kind).similarity, expected)


def test_bundle_goes_to_another_agent(tmp_path):
    meta = masp.MetaSimilarity(q_function, OPTIMISERS["sgd"], MACROS)
    params, observations = make_params(np.random.default_rng(0)), jnp.zeros((3, INPUTS))
    state = meta.init(params, observations, "overlap")
    masp.save_bundle(tmp_path / "b.safetensors", meta.bundle(state))
    bundle = masp.load_bundle(tmp_path / "b.safetensors")
    np.testing.assert_array_equal(meta.init(params, observations, bundle).similarity, state.similarity)
    counted = masp.MetaSimilarity(q_function, OPTIMISERS["sgd"], ACTIONS)
    np.testing.assert_array_equal(counted.init(params, observations, bundle).similarity, state.similarity)


def refused(match, call):
    with pytest.raises(masp.UserError, match=match) as error:
        call()
    assert "\n" not in str(error.value)


def test_networks_with_other_outputs_are_refused():
    rng = np.random.default_rng(0)
    meta = masp.MetaSimilarity(q_function, OPTIMISERS["sgd"], MACROS)
    line = r"q_function's output has shape \[3, 2\], expected \[B, 7\]: .* 7 actions \(2 primitives, 5 macros\)"
    refused(line, lambda: meta.init(make_params(rng, actions=2), jnp.zeros((3, INPUTS))))
    refused(r"failed: TypeError: .*dot", lambda: meta.init(make_params(rng), jnp.zeros((3, 9))))
    state = meta.init(make_params(rng), jnp.zeros((3, INPUTS)))
    refused(r"penalty: q has shape \[7\], expected \[B, 7\]", lambda: meta.penalty(state, jnp.zeros(7)))


@pytest.mark.parametrize(
    ("optimiser", "match"),
    [
        (optax.adam(1e-3), "not finite where a gradient is 0.*eps_root"),
        (optax.sign_sgd(1e-3), "derivative is 0"),
        (optax.MultiSteps(optax.sgd(0.1), 2).gradient_transformation(), "derivative is 0"),
        (optax.lbfgs(), "cannot be differentiated"),
        ("adam", "must be an optax.GradientTransformation, got str"),
    ],
    ids=["adam", "sign", "accumulated", "lbfgs", "name"],
)
def test_optimisers_without_a_derivative_are_refused(optimiser, match):
    params = make_params(np.random.default_rng(0))
    refused(match, lambda: make_meta(optimiser).init(params, jnp.zeros((3, INPUTS))))


@pytest.mark.parametrize(
    "optimiser",
    [
        optax.adam(optax.linear_schedule(0.0, 1e-3, 100), eps_root=1e-16),
        optax.chain(clip(0.5), optax.inject_hyperparams(optax.rmsprop)(1e-3)),
    ],
    ids=["warm-up", "injected"],
)
def test_schedules_and_wrapped_optimisers_are_taken(optimiser):
    params = make_params(np.random.default_rng(0))
    make_meta(optimiser).init(params, jnp.zeros((3, INPUTS)))


def test_a_network_that_stops_the_gradient_is_refused():
    params, observations = make_params(np.random.default_rng(0)), jnp.zeros((3, INPUTS))
    stopped = jax.jit(lambda params, x: jax.lax.stop_gradient(q_function(params, x)))
    meta = masp.MetaSimilarity(stopped, OPTIMISERS["sgd"], ACTIONS)
    refused("behind a stop_gradient", lambda: meta.init(params, observations))
    refused("behind a stop_gradient", lambda: jax.jit(lambda p: meta.init(p, observations))(params))
    partly = masp.MetaSimilarity(lambda p, x: q_function(p, x) - stopped(p, x), OPTIMISERS["sgd"], ACTIONS)
    partly.init(params, observations)


def test_an_optimiser_is_refused_under_jit_too():
    params = make_params(np.random.default_rng(0))
    meta = make_meta(optax.adam(1e-3))
    refused("eps_root", lambda: jax.jit(lambda p: meta.init(p, jnp.zeros((3, INPUTS))))(params))


def test_bundles_of_other_actions_are_refused():
    meta = masp.MetaSimilarity(q_function, OPTIMISERS["sgd"], MACROS)
    params, observations = make_params(np.random.default_rng(0)), jnp.zeros((3, INPUTS))

    def bundle(primitives, macros):
        actions = masp.ActionSet(primitives, macros)
        return masp.Bundle(actions, np.eye(len(actions), dtype=np.float32))

    for other, match in (
        (bundle(2, [(0, 1)]), r"it has 3 actions \(2 primitives, 1 macros\), the agent 7 actions"),
        (bundle(3, [(0,)] * 4), r"it has 7 actions \(3 primitives, 4 macros\)"),
        (bundle(2, [(0, 0, 1), (1, 0), (1, 1), (1,), (0, 0)]), r"its macro 1 is \[1, 0\], the agent's is \[0, 1\]"),
    ):
        refused(match, lambda other=other: meta.init(params, observations, other))
    refused("not symmetric", lambda: meta.init(params, observations, np.eye(7) + np.eye(7, k=1) / 2))
    refused("start must be one of", lambda: meta.init(params, observations, "random"))
    counted = make_meta(OPTIMISERS["sgd"])
    refused("give MetaSimilarity an ActionSet", lambda: counted.init(params, observations, "overlap"))


def test_gradients_of_something_else_are_refused():
    rng = np.random.default_rng(0)
    params, batch, optimiser = make_params(rng), make_batch(rng), OPTIMISERS["sgd"]
    meta = make_meta(optimiser)
    state, gradient = meta.init(params, batch[0]), jax.grad(td_loss)(params, batch)
    opt_state = optimiser.init(params)
    without = {name: leaf for name, leaf in gradient.items() if name != "b1"}
    refused("gradient is not a gradient", lambda: meta.learn(state, params, opt_state, without, batch[0], gradient))
    other = gradient | {"b1": jnp.zeros(3)}
    line = r"held_out_gradient\['b1'\] has shape \(3,\), the parameter \(7,\)"
    refused(line, lambda: meta.learn(state, params, opt_state, gradient, batch[0], other))
    strange = OPTIMISERS["clipped adam"].init(params)
    line = "opt_state is not a state of this optimiser"
    refused(line, lambda: meta.learn(state, params, strange, gradient, batch[0], gradient))
    line = r"q_function's output has shape \[7\], expected \[B, 7\]"
    refused(line, lambda: meta.learn(state, params, opt_state, gradient, batch[0][0], gradient))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"penalty_weight": -1.0}, "penalty_weight must be a number of at least 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number of at least 0"),
        ({"penalty_weight": "1"}, "penalty_weight must be a number of at least 0"),
        ({"penalty_form": "max"}, "penalty_form must be one of"),
        ({"actions": 2.5}, "actions must be an ActionSet or a number"),
        ({"q_function": None}, "q_function must be a function"),
    ],
)
def test_wrong_settings_are_refused(settings, match):
    correct = {"q_function": q_function, "optimiser": OPTIMISERS["sgd"], "actions": ACTIONS}
    refused(match, lambda: masp.MetaSimilarity(**correct | settings))
