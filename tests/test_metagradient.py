"""The meta-gradient against differentiating through the whole update and against finite differences."""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import naive_update as naive
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from masp.metagradient import InnerStep, adam, clip_by_global_norm, meta_gradient, traced_meta_gradient
from masp.networks import draw_noise

MAX_NORM = 1.0
TIMID, LOUD = 1e-2, 30.0  # importance weights scaled so that clipping is far from active, or strongly active


class Case(NamedTuple):
    """One point at which to compare."""

    params: object
    target_params: object
    opt_state: object
    similarity: object
    sample: object
    held_out: object
    noise: list


@cache
def learner_of(form):
    return naive.make_learner(penalty_form=form, max_gradient_norm=MAX_NORM)


@cache
def functions_of(form):
    """Compiled once per form: the package's meta-gradient, autodiff through the update, J' itself, and one step."""
    learner = learner_of(form)
    weight = learner.similarity.penalty_weight

    def full_gradient(case, similarity):
        return naive.gradient_of_update(
            learner, case.params, case.target_params, case.sample, case.similarity, case.noise[:3], similarity, weight
        )

    @jax.jit
    def package(case):
        gradient = full_gradient(case, case.similarity)
        step = InnerStep(
            case.params, case.opt_state, gradient, case.sample.transition.s_tm1, case.similarity, case.noise[0]
        )
        updates, opt_state = learner.optimiser.update(gradient, case.opt_state, case.params)
        state = learner.init(jax.random.PRNGKey(0), case.sample.transition.s_tm1[:1], case.similarity)
        after = state._replace(
            params=jax.tree.map(jnp.add, case.params, updates),
            target_params=case.target_params,
            opt_state=opt_state,
        )
        held_out_gradient = learner.td_gradient(after, case.held_out, case.noise[3:])
        found = meta_gradient(
            lambda params, inner: learner.values(params, inner.observations, inner.context, inner.noise),
            lambda q, s: learner.penalty(q, s, jnp.asarray(weight)),
            learner.optimiser,
            step,
            held_out_gradient,
            case.similarity,
        )
        return found, gradient, after.params, opt_state

    def objective(similarity, case):
        _, adam_state, _ = case.opt_state
        moments = (adam_state.mu, adam_state.nu, adam_state.count.astype(similarity.dtype))
        return naive.held_out_loss_after_update(
            learner,
            similarity,
            case.params,
            case.target_params,
            moments,
            case.sample,
            case.held_out,
            case.similarity,
            case.noise,
            weight,
        )

    return package, jax.jit(jax.grad(objective)), jax.jit(jax.vmap(objective, in_axes=(0, None)))


@partial(jax.jit, static_argnums=(0, 1))
def random_case(form, dtype, key):
    learner = learner_of(form)
    keys = jax.random.split(key, 6)
    similarity = naive.make_similarity(keys[0], dtype)
    sample = naive.make_sample(keys[1], dtype)
    state = learner.init(keys[2], sample.transition.s_tm1[:1], similarity)
    params, template = naive.cast(state.params, dtype), naive.cast(state.noise_template, dtype)
    offset = naive.cast(learner.init(keys[3], sample.transition.s_tm1[:1], similarity).params, dtype)
    target = jax.tree.map(lambda a, b: a + 0.3 * b, params, offset)
    return Case(
        params=params,
        target_params=target,
        opt_state=learner.optimiser.init(params),
        similarity=similarity,
        sample=sample,
        held_out=naive.make_sample(keys[4], dtype),
        noise=draw_noise(keys[5], template, 6),
    )


def make_case(form, dtype, scale=1.0, warm_up=0):
    """A random point; `warm_up` Adam steps on other batches come first."""
    case = random_case(form, dtype, jax.random.PRNGKey(0))
    package, _, _ = functions_of(form)
    for i in range(warm_up):
        other = naive.make_sample(jax.random.PRNGKey(1000 + i), dtype)
        _, _, params, opt_state = package(case._replace(sample=other))
        case = case._replace(params=params, opt_state=opt_state)
    return case._replace(sample=case.sample._replace(weight=case.sample.weight * scale))


def relative_error(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def norm(tree):
    return float(np.linalg.norm(ravel_pytree(tree)[0]))


def with_precision(dtype):
    return jax.enable_x64(dtype == "float64")


@pytest.mark.parametrize("form", ["row", "literal"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-4)])
@pytest.mark.parametrize(("scale", "warm_up"), [(TIMID, 0), (TIMID, 4), (LOUD, 0), (LOUD, 4)])
def test_equals_autodiff_through_the_whole_update(form, dtype, tolerance, scale, warm_up):
    package, through_update, _ = functions_of(form)
    with with_precision(dtype):
        case = make_case(form, dtype, scale, warm_up)
        found, gradient, _, _ = package(case)
        expected = through_update(case.similarity, case)
        assert found.dtype == expected.dtype == dtype
        clipped = norm(gradient) > MAX_NORM
        assert clipped == (scale == LOUD)
        assert norm(expected) > 0
        assert relative_error(found, expected) <= tolerance


@pytest.mark.parametrize("form", ["row", "literal"])
@pytest.mark.parametrize("scale", [TIMID, LOUD])
def test_equals_central_finite_differences(form, scale):
    package, _, loss_after_update = functions_of(form)
    with with_precision("float64"):
        case = make_case(form, "float64", scale, warm_up=4)
        found, _, _, _ = package(case)
        h = 1e-3
        shifts = h * jnp.eye(naive.ACTIONS**2).reshape(-1, naive.ACTIONS, naive.ACTIONS)
        both = jnp.concatenate([case.similarity + shifts, case.similarity - shifts])
        up, down = jnp.split(loss_after_update(both, case), 2)
        expected = ((up - down) / (2 * h)).reshape(naive.ACTIONS, naive.ACTIONS)
        assert relative_error(found, expected) <= 1e-5


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_dead_units_have_a_finite_and_right_meta_gradient(dtype):
    """Units that never fire have gradients of exactly 0, where Adam's square root has no slope."""
    package, through_update, _ = functions_of("row")
    with with_precision(dtype):
        case = make_case("row", dtype)
        bias = case.params["MlpTorso_0"]["Dense_0"]["bias"]
        case.params["MlpTorso_0"]["Dense_0"]["bias"] = bias.at[:3].set(-1e3)
        found, gradient, _, _ = package(case)
        dead = np.asarray(gradient["MlpTorso_0"]["Dense_0"]["kernel"][:, :3])
        assert (dead == 0).all()
        assert np.isfinite(np.asarray(found)).all()
        expected = through_update(case.similarity, case)
        assert relative_error(found, expected) <= (1e-10 if dtype == "float64" else 1e-4)


@pytest.mark.parametrize("form", ["row", "literal"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_gradient_at_all_gives_no_nan(form, dtype):
    package, _, _ = functions_of(form)
    with with_precision(dtype):
        case = make_case(form, dtype, scale=0.0)
        nothing = jax.tree.map(jnp.zeros_like, case.params)
        found, gradient, _, _ = package(case._replace(params=nothing))
        assert norm(gradient) == 0.0
        assert np.isfinite(np.asarray(found)).all()


def test_identity_is_stationary():
    """At the identity the penalty and its slope in the similarity both vanish, whatever the data."""
    for form in ("row", "literal"):
        package, _, _ = functions_of(form)
        found, _, _, _ = package(make_case(form, "float32")._replace(similarity=jnp.eye(naive.ACTIONS)))
        assert (np.asarray(found) == 0).all()


def test_adam_step_by_hand():
    """After bias correction the first step is the learning rate times g / (|g| + eps)."""
    with jax.enable_x64(True):
        gradient = {"a": jnp.array([3.0, -4.0, 0.0])}
        optimiser = adam(0.1, eps=1e-3, max_norm=None)
        updates, _ = optimiser.update(gradient, optimiser.init(gradient))
        np.testing.assert_allclose(updates["a"], [-0.1 * 3 / 3.001, 0.1 * 4 / 4.001, 0.0], rtol=1e-9)


def test_clipping_by_hand():
    clip = clip_by_global_norm(1.0)
    large, small = {"a": jnp.array([3.0]), "b": jnp.array([-4.0])}, {"a": jnp.array([0.3]), "b": jnp.array([-0.4])}
    clipped, _ = clip.update(large, clip.init(large))
    np.testing.assert_allclose([clipped["a"][0], clipped["b"][0]], [0.6, -0.8], rtol=1e-6)
    kept, _ = clip.update(small, clip.init(small))
    np.testing.assert_allclose([kept["a"][0], kept["b"][0]], [0.3, -0.4], rtol=1e-6)


def test_trace_is_a_decayed_sum():
    """Newest first: 1, 1/2, 1/4; a trace of one step is the step itself."""

    def gradient_of(step):
        return step.gradient * jnp.eye(2)

    def steps_of(*numbers):
        blank = jnp.zeros(len(numbers))
        return InnerStep(blank, blank, jnp.array(numbers), blank, blank, blank)

    np.testing.assert_allclose(traced_meta_gradient(gradient_of, steps_of(4.0, 2.0, 8.0), 0.5), 7.0 * np.eye(2))
    np.testing.assert_allclose(traced_meta_gradient(gradient_of, steps_of(4.0), 0.5), 4.0 * np.eye(2))
