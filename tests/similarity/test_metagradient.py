"""The meta-gradient against differentiating through the whole update and against finite differences."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import naive_update as naive
from masp.agent.learner import LearnerState
from masp.agent.replay import Batch
from masp.similarity.kinds import FixedState
from masp.similarity.matrix import batch_penalty
from masp.similarity.metagradient import InnerStep, meta_gradient, traced_meta_gradient

MAX_NORM = 20.0
TIMID, LOUD = 1e-2, 30.0  # importance weights scaled so that clipping is far from active, or strongly active


class Case(NamedTuple):
    """One point at which to compare."""

    state: LearnerState
    batch: Batch
    held_out: Batch
    literal: bool
    noise: list  # of the online and the target network: for the update, for the held-out loss


LEARNER = naive.make_learner(max_gradient_norm=MAX_NORM, penalty_weight=0.3)


@jax.jit
def package(case):
    """Meta-gradient, inner gradient and the state after the step. Both forms in one program: compiling is slow."""
    state, similarity = case.state, naive.matrix_of(case.state)
    optimiser = LEARNER.adam.transformation
    gradient = naive.gradient_of_update(LEARNER, state, case.batch, case.noise[:2], similarity, case.literal)
    step = InnerStep(
        params=state.params,
        opt_state=state.opt_state,
        gradient=gradient,
        observations=case.batch.transition.s_tm1,
        context=similarity,
        noise=case.noise[0],
        similarity=similarity,
    )
    updates, opt_state = optimiser.update(gradient, state.opt_state, state.params)
    after = state._replace(params=jax.tree.map(jnp.add, state.params, updates), opt_state=opt_state)

    def penalty(q, similarity):
        mean, literal = (batch_penalty(q, similarity, form) for form in ("mean", "literal"))
        return state.hyper.penalty_weight * jnp.where(case.literal, literal, mean)

    held_out_gradient = LEARNER.td_gradient(after, case.held_out, case.noise[2:])
    return meta_gradient(LEARNER._inner_values, penalty, optimiser, step, held_out_gradient), gradient, after


def loss_after_update(similarity, case):
    """J'(S), by hand."""
    noise, held_out_noise = case.noise[:2], case.noise[2:]
    return naive.held_out_loss_after_update(
        LEARNER, similarity, case.state, case.batch, case.held_out, noise, held_out_noise, case.literal
    )


through_update = jax.jit(jax.grad(loss_after_update))
losses_after_update = jax.jit(jax.vmap(loss_after_update, in_axes=(0, None)))


def make_case(form, dtype, scale=1.0, warm_up=0):
    """A random point; `warm_up` Adam steps on other batches come first."""
    rng = np.random.default_rng(0)
    state = naive.make_state(LEARNER, rng, dtype=dtype)
    case = Case(
        state,
        naive.make_batch(rng, dtype),
        naive.make_batch(rng, dtype),
        form == "literal",
        naive.make_noise(state.noise_template, rng, 4),
    )
    for _ in range(warm_up):
        other = naive.make_batch(rng, dtype)
        _, _, after = package(case._replace(batch=other))
        case = case._replace(state=after)
    return case._replace(batch=case.batch._replace(weight=case.batch.weight * scale))


def relative_error(actual, expected):
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


def norm(tree):
    return float(np.linalg.norm(ravel_pytree(tree)[0]))


def with_precision(dtype):
    return jax.enable_x64(dtype == "float64")


@pytest.mark.parametrize("form", ["mean", "literal"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-4)])
@pytest.mark.parametrize(("scale", "warm_up"), [(TIMID, 0), (TIMID, 4), (LOUD, 0), (LOUD, 4)])
def test_equals_autodiff_through_the_whole_update(form, dtype, tolerance, scale, warm_up):
    with with_precision(dtype):
        case = make_case(form, dtype, scale, warm_up)
        actual, gradient, _ = package(case)
        expected = through_update(naive.matrix_of(case.state), case)
        assert actual.dtype == expected.dtype == dtype
        clipped = norm(gradient) > MAX_NORM
        assert clipped == (scale == LOUD)
        assert norm(expected) > 0
        assert relative_error(actual, expected) <= tolerance


@pytest.mark.parametrize("form", ["mean", "literal"])
@pytest.mark.parametrize("scale", [TIMID, LOUD])
def test_equals_central_finite_differences(form, scale):
    with with_precision("float64"):
        case = make_case(form, "float64", scale, warm_up=4)
        actual, _, _ = package(case)
        h = 1e-3
        shifts = h * jnp.eye(naive.ACTIONS**2).reshape(-1, naive.ACTIONS, naive.ACTIONS)
        both = jnp.concatenate([naive.matrix_of(case.state) + shifts, naive.matrix_of(case.state) - shifts])
        up, down = jnp.split(losses_after_update(both, case), 2)
        expected = ((up - down) / (2 * h)).reshape(naive.ACTIONS, naive.ACTIONS)
        assert relative_error(actual, expected) <= 1e-5


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_dead_units_have_a_finite_and_right_meta_gradient(dtype):
    """Units that never fire have gradients of exactly 0, where Adam's square root has no slope."""
    with with_precision(dtype):
        case = make_case("mean", dtype)
        bias = case.state.params["MlpTorso_0"]["Linear_0"]["bias"]
        case.state.params["MlpTorso_0"]["Linear_0"]["bias"] = bias.at[:3].set(-1e3)
        actual, gradient, _ = package(case)
        dead = np.asarray(gradient["MlpTorso_0"]["Linear_0"]["kernel"][:3])
        assert (dead == 0).all()
        assert np.isfinite(np.asarray(actual)).all()
        expected = through_update(naive.matrix_of(case.state), case)
        assert relative_error(actual, expected) <= (1e-10 if dtype == "float64" else 1e-4)


@pytest.mark.parametrize("form", ["mean", "literal"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_gradient_at_all_gives_no_nan(form, dtype):
    with with_precision(dtype):
        case = make_case(form, dtype, scale=0.0)
        nothing = jax.tree.map(jnp.zeros_like, case.state.params)
        actual, gradient, _ = package(case._replace(state=case.state._replace(params=nothing)))
        assert norm(gradient) == 0.0
        assert np.isfinite(np.asarray(actual)).all()


def test_identity_is_stationary():
    """At the identity the penalty and its slope in the similarity both vanish, whatever the data."""
    for form in ("mean", "literal"):
        case = make_case(form, "float32")
        state = case.state._replace(similarity=FixedState(jnp.eye(naive.ACTIONS)))
        actual, _, _ = package(case._replace(state=state))
        assert (np.asarray(actual) == 0).all()


def test_trace_is_a_decayed_sum():
    """Newest first: 1, 1/2, 1/4; a trace of one step is the step itself."""

    def gradient_of(step):
        return step.gradient * jnp.eye(2)

    def steps_of(*numbers):
        blank = jnp.zeros(len(numbers))
        return InnerStep(blank, blank, jnp.array(numbers), blank, blank, blank, blank)

    np.testing.assert_allclose(traced_meta_gradient(gradient_of, steps_of(4.0, 2.0, 8.0), 0.5), 7.0 * np.eye(2))
    np.testing.assert_allclose(traced_meta_gradient(gradient_of, steps_of(4.0), 0.5), 4.0 * np.eye(2))
