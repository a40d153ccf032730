"""The contract that every kind of similarity fulfils."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import naive_update as naive
from masp.similarity.embedded import MIN_META_PERIOD_UPDATES, Embedded
from masp.similarity.kinds import Evidence, Fixed, Nothing
from masp.similarity.matrix import as_matrix
from masp.similarity.meta_learned import MetaLearned
from masp.similarity.metagradient import InnerStep
from masp.similarity.outcomes import Outcomes

LEARNERS = {
    Nothing: naive.make_learner(variant="macros"),
    Fixed: naive.make_learner(meta_learning_rate=0.0),
    MetaLearned: naive.make_learner(meta_learning_rate=0.01, trace_length=2),
    Outcomes: naive.make_learner(variant="outcomes", n_step=1),
    Embedded: naive.make_learner(similarity_form="embedded"),
}


@pytest.fixture(params=LEARNERS, ids=lambda kind: kind.__name__)
def learner(request):
    assert type(LEARNERS[request.param].similarity) is request.param
    return LEARNERS[request.param]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def inner_step(learner, state, batch, rng):
    """An inner step of the right shapes."""
    noise = naive.make_noise(state.noise_template, rng, 1)[0]
    states, start = batch.transition.s_tm1[: naive.BATCH], naive.make_similarity(rng)
    return InnerStep(state.params, state.opt_state, state.params, states, start, noise, start)


def evidence_of(state, batch, updates):
    return Evidence(
        batch.transition, batch.weight, naive.BATCH, lambda: state.target_params, *state.hyper, jnp.asarray(updates)
    )


def shapes(tree):
    return jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), tree)


def test_state_keeps_its_shape_and_the_similarity_stays_valid(learner, rng):
    """Some updates under jit: the state could be carried by a compiled loop."""
    kind, start = learner.similarity, naive.make_similarity(rng)
    whole = naive.make_state(learner, rng, start)
    state = kind.init(jax.random.PRNGKey(0), start, inner_step(learner, whole, naive.make_batch(rng), rng))
    embedded = isinstance(kind, Embedded)  # it starts from its own factors: all actions are alike
    np.testing.assert_allclose(as_matrix(kind.context(state)), 1.0 if embedded else start, atol=1e-6)

    @jax.jit
    def update(state, batch, step, updates):
        state, norm = kind.learn(state, evidence_of(whole, batch, updates))
        return kind.keep(state, step, updates), norm

    for updates in (*range(5), MIN_META_PERIOD_UPDATES - 1, MIN_META_PERIOD_UPDATES):
        batch = naive.make_batch(rng, inside=2)
        after, norm = update(state, batch, inner_step(learner, whole, batch, rng), updates)
        assert shapes(after) == shapes(state)
        due = isinstance(kind, MetaLearned) and updates >= 2
        due |= isinstance(kind, Embedded) and updates == MIN_META_PERIOD_UPDATES
        assert norm.shape == () and (norm > 0) == due
        state = after
    similarity = np.asarray(as_matrix(kind.context(state)))
    np.testing.assert_allclose(similarity, similarity.T, atol=1e-6)
    assert similarity.min() >= 0 and similarity.max() <= 1 + 1e-6
    np.testing.assert_allclose(np.diag(similarity), 1.0, atol=1e-6)
    learns = isinstance(kind, (MetaLearned, Outcomes, Embedded))
    assert np.array_equal(similarity, start) != learns


def test_penalty_is_a_mean_over_states_whose_gradient_reaches_the_values(learner, rng):
    kind, batch = learner.similarity, naive.make_batch(rng)
    state = naive.make_state(learner, rng).similarity
    if isinstance(kind, Outcomes):  # without data all actions are alike, which is a penalty, too
        assert (np.asarray(state.model.own) == 0).all()
    q, states = jnp.asarray(rng.normal(size=(naive.BATCH, naive.ACTIONS)), jnp.float32), batch.transition.s_tm1
    penalty, slope = jax.value_and_grad(lambda q: kind.penalty(state, q, states))(q)
    twice = kind.penalty(state, jnp.concatenate([q, q]), jnp.concatenate([states, states]))
    assert penalty.shape == () and twice == pytest.approx(float(penalty), rel=1e-5)
    assert kind.penalty(state, jnp.ones_like(q), states) == pytest.approx(0.0, abs=1e-6)  # equal values are at rest
    active = not isinstance(kind, Nothing)
    assert (penalty > 0) == active and (np.abs(slope).max() > 0) == active


def test_held_out_gradient_is_computed_only_by_kinds_that_use_it(learner, rng):
    state, batch = naive.make_state(learner, rng), naive.make_batch(rng)
    calls = []

    def held_out_gradient():
        calls.append(1)
        return state.target_params

    evidence = evidence_of(state, batch, 4)._replace(held_out_gradient=held_out_gradient)
    jax.eval_shape(lambda state: learner.similarity.learn(state, evidence)[0], state.similarity)
    assert bool(calls) == isinstance(learner.similarity, (MetaLearned, Embedded))
