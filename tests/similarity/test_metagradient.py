"""The meta-gradient against differentiating through the whole update and against finite differences."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import naive_update as naive
from masp.agent.learner import LearnerState
from masp.agent.replay import Sample
from masp.similarity.metagradient import InnerStep, meta_gradient, traced_meta_gradient

MAX_NORM = 20.0
TIMID, LOUD = 1e-2, 30.0  # importance weights scaled so that clipping is far from active, or strongly active


class Case(NamedTuple):
    """One point at which to compare."""

    state: LearnerState
    sample: Sample
    held_out: Sample
    row: bool
    noise: list  # of the online and the target network: for the update, for the held-out loss


ROW = naive.make_learner(penalty_form="row", max_gradient_norm=MAX_NORM)
LITERAL = naive.make_learner(penalty_form="literal", max_gradient_norm=MAX_NORM)


@jax.jit
def package(case):
    """Meta-gradient, inner gradient and the state after the step. Both forms in one program: compiling is slow."""
    state = case.state
    gradient = naive.gradient_of_update(ROW, state, case.sample, case.noise[:2], state.similarity, row=case.row)
    step = InnerStep(
        params=state.params,
        opt_state=state.opt_state,
        gradient=gradient,
        observations=case.sample.transition.s_tm1,
        context=state.similarity,
        noise=case.noise[0],
        similarity=state.similarity,
    )
    updates, opt_state = ROW.optimiser.transformation.update(gradient, state.opt_state, state.params)
    after = state._replace(params=jax.tree.map(jnp.add, state.params, updates), opt_state=opt_state)

    def penalty(q, similarity):
        row, literal = (learner.penalty(q, similarity, state.hyper.penalty_weight) for learner in (ROW, LITERAL))
        return jnp.where(case.row, row, literal)

    found = meta_gradient(
        lambda params, inner: ROW.values(params, inner.observations, inner.context, inner.noise),
        penalty,
        ROW.optimiser.transformation,
        step,
        ROW.td_gradient(after, case.held_out, case.noise[2:]),
    )
    return found, gradient, after


def loss_after_update(similarity, case):
    """J'(S), by hand."""
    noise, held_out_noise = case.noise[:2], case.noise[2:]
    return naive.held_out_loss_after_update(
        ROW, similarity, case.state, case.sample, case.held_out, noise, held_out_noise, case.row
    )


through_update = jax.jit(jax.grad(loss_after_update))
losses_after_update = jax.jit(jax.vmap(loss_after_update, in_axes=(0, None)))


def make_case(form, dtype, scale=1.0, warm_up=0):
    """A random point; `warm_up` Adam steps on other batches come first."""
    rng = np.random.default_rng(0)
    state = naive.make_state(ROW, rng, dtype=dtype)
    case = Case(
        state,
        naive.make_sample(rng, dtype),
        naive.make_sample(rng, dtype),
        form == "row",
        naive.make_noise(state.noise_template, rng, 4),
    )
    for _ in range(warm_up):
        other = naive.make_sample(rng, dtype)
        _, _, after = package(case._replace(sample=other))
        case = case._replace(state=after)
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
    with with_precision(dtype):
        case = make_case(form, dtype, scale, warm_up)
        found, gradient, _ = package(case)
        expected = through_update(case.state.similarity, case)
        assert found.dtype == expected.dtype == dtype
        clipped = norm(gradient) > MAX_NORM
        assert clipped == (scale == LOUD)
        assert norm(expected) > 0
        assert relative_error(found, expected) <= tolerance


@pytest.mark.parametrize("form", ["row", "literal"])
@pytest.mark.parametrize("scale", [TIMID, LOUD])
def test_equals_central_finite_differences(form, scale):
    with with_precision("float64"):
        case = make_case(form, "float64", scale, warm_up=4)
        found, _, _ = package(case)
        h = 1e-3
        shifts = h * jnp.eye(naive.ACTIONS**2).reshape(-1, naive.ACTIONS, naive.ACTIONS)
        both = jnp.concatenate([case.state.similarity + shifts, case.state.similarity - shifts])
        up, down = jnp.split(losses_after_update(both, case), 2)
        expected = ((up - down) / (2 * h)).reshape(naive.ACTIONS, naive.ACTIONS)
        assert relative_error(found, expected) <= 1e-5


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_dead_units_have_a_finite_and_right_meta_gradient(dtype):
    """Units that never fire have gradients of exactly 0, where Adam's square root has no slope."""
    with with_precision(dtype):
        case = make_case("row", dtype)
        bias = case.state.params["MlpTorso_0"]["Linear_0"]["bias"]
        case.state.params["MlpTorso_0"]["Linear_0"]["bias"] = bias.at[:3].set(-1e3)
        found, gradient, _ = package(case)
        dead = np.asarray(gradient["MlpTorso_0"]["Linear_0"]["kernel"][:3])
        assert (dead == 0).all()
        assert np.isfinite(np.asarray(found)).all()
        expected = through_update(case.state.similarity, case)
        assert relative_error(found, expected) <= (1e-10 if dtype == "float64" else 1e-4)


@pytest.mark.parametrize("form", ["row", "literal"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_gradient_at_all_gives_no_nan(form, dtype):
    with with_precision(dtype):
        case = make_case(form, dtype, scale=0.0)
        nothing = jax.tree.map(jnp.zeros_like, case.state.params)
        found, gradient, _ = package(case._replace(state=case.state._replace(params=nothing)))
        assert norm(gradient) == 0.0
        assert np.isfinite(np.asarray(found)).all()


def test_identity_is_stationary():
    """At the identity the penalty and its slope in the similarity both vanish, whatever the data."""
    for form in ("row", "literal"):
        case = make_case(form, "float32")
        state = case.state._replace(similarity=jnp.eye(naive.ACTIONS))
        found, _, _ = package(case._replace(state=state))
        assert (np.asarray(found) == 0).all()


def test_trace_is_a_decayed_sum():
    """Newest first: 1, 1/2, 1/4; a trace of one step is the step itself."""

    def gradient_of(step):
        return step.gradient * jnp.eye(2)

    def steps_of(*numbers):
        blank = jnp.zeros(len(numbers))
        return InnerStep(blank, blank, jnp.array(numbers), blank, blank, blank, blank)

    np.testing.assert_allclose(traced_meta_gradient(gradient_of, steps_of(4.0, 2.0, 8.0), 0.5), 7.0 * np.eye(2))
    np.testing.assert_allclose(traced_meta_gradient(gradient_of, steps_of(4.0), 0.5), 4.0 * np.eye(2))
