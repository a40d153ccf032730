"""Similarities from embeddings of actions, for more actions than a matrix can serve."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import masp
from masp.agent.replay import Transition
from masp.config import MATRIX_ACTIONS, TrainConfig, replace
from masp.errors import UserError
from masp.similarity import embedded
from masp.similarity.embedded import SHARPNESS, SIZE, Embedded, Map, memberships
from masp.similarity.kinds import Evidence
from masp.similarity.matrix import as_matrix, batch_penalty, group_auc
from masp.similarity.metagradient import InnerStep

A, B, FEATURES = 5, 6, 3
numbers = st.floats(-3, 3, width=32)
maps = st.builds(
    lambda z, root: Map(z, jnp.einsum("kro,kso->krs", root, root)),
    hnp.arrays(np.float32, (A, SIZE), elements=numbers),
    hnp.arrays(np.float32, (3, SIZE, 2), elements=numbers),
)
jit_memberships = jax.jit(memberships)


def place(positions):
    """A map whose actions differ in the first number only, which only the first kind of outcome depends on."""
    embedding = np.zeros((len(positions), SIZE), np.float32)
    embedding[:, 0] = positions
    return Map(jnp.asarray(embedding), jnp.zeros((3, SIZE, SIZE)).at[0, 0, 0].set(1.0))


def test_memberships_by_hand():
    """Three actions have two landmarks, the first and the last; the third is at distance 0.5 from the first."""
    found = memberships(place([0.0, 0.0, 0.5]), jnp.log(jnp.array([2.0, 1.0, 1.0])))
    near = np.exp(-SHARPNESS * 2.0 * 0.25)
    row = np.array([1.0, near]) / np.sqrt(1 + near**2)
    np.testing.assert_allclose(found, [row, row, row[::-1]], rtol=1e-5)
    np.testing.assert_allclose(as_matrix(found)[0, 1:], [1.0, 2 * near / (1 + near**2)], rtol=1e-5)


def test_an_action_far_from_all_landmarks_is_like_no_other():
    positions = [0.0] * 40
    landmarks = np.linspace(0, 39, embedded.LANDMARKS).round().astype(int)
    positions[next(i for i in range(40) if i not in landmarks)] = 9.0
    similarity = np.asarray(as_matrix(memberships(place(positions), jnp.zeros(3))))
    lonely = positions.index(9.0)
    assert np.delete(similarity[lonely], lonely).max() < 1e-6
    assert np.delete(np.delete(similarity, lonely, 0), lonely, 1).min() == pytest.approx(1.0)


@settings(max_examples=50, deadline=None)
@given(maps, hnp.arrays(np.float32, 3, elements=numbers))
def test_memberships_make_a_similarity(place, log_weights):
    similarity = np.asarray(as_matrix(jit_memberships(place, log_weights)))
    assert similarity.min() >= 0 and similarity.max() <= 1 + 1e-5
    np.testing.assert_allclose(similarity, similarity.T, atol=1e-6)
    assert (np.diag(similarity) == 1).all()


def test_predictions_by_hand():
    rng = np.random.default_rng(0)
    model = {
        "shared": rng.normal(size=(FEATURES, 2)),
        "effects": rng.normal(size=(FEATURES, SIZE * 2)),
        "embedding": rng.normal(size=(A, SIZE)),
    }
    x, action = rng.normal(size=(B, FEATURES)), np.array([0, 4, 2, 2, 1, 3])
    predicted, _ = embedded.predict(jax.tree.map(jnp.asarray, model), jnp.asarray(x), action)
    for row, output in itertools.product(range(B), range(2)):
        expected = x[row] @ model["shared"][:, output]
        for r in range(SIZE):
            effect = x[row] @ model["effects"][:, r * 2 + output]
            expected += model["embedding"][action[row], r] * effect
        assert predicted[row, output] == pytest.approx(expected, rel=1e-4)


def kind_of(num_actions, optimiser=None):
    """The kind for linear values x W of observations that are features already."""

    def values(params, step):
        return step.observations @ params

    optimiser = optimiser or optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1, eps_root=1e-16))
    return Embedded(lambda x: x, values, optimiser, num_actions, "mean", "adam", 1, windows_are_single=True)


def bandit(rng, groups, count, contexts=4):
    """Decisions in contexts, each of which rewards the actions of one group."""
    context, action = rng.integers(0, contexts, count), rng.integers(0, len(groups), count)
    states = np.eye(contexts)[context]
    reward = (groups[action] == context % (groups.max() + 1)) * 1.0
    return Transition(states, action, reward, np.zeros(count), states)


def evidence_of(transition, updates, gradient=None, windows=None):
    count = len(transition.a_tm1)
    weight, rate = jnp.ones(count), jnp.asarray(0.01)
    return Evidence(transition, weight, windows or count, lambda: gradient, jnp.asarray(0.5), rate, updates)


def test_embeddings_find_the_groups_of_a_thousand_actions():
    """Every action is seen about 120 times; a reward says what its group is, in one context of four."""
    rng, groups = np.random.default_rng(0), np.repeat(np.arange(4), 250)
    kind = kind_of(len(groups), optax.sgd(0.1))
    params, states = jnp.asarray(rng.normal(size=(4, len(groups))), jnp.float32), jnp.ones((16, 4))
    step = InnerStep(params, kind.optimiser.init(params), params, states, params, None, params)
    state = kind.init(jax.random.PRNGKey(0), params, step)
    before = np.asarray(as_matrix(kind.context(state)))
    assert before.min() == pytest.approx(1.0, abs=1e-5)  # nothing was tried: all actions are alike

    @jax.jit
    def learn(state, transition, updates):
        return kind.learn(state, evidence_of(transition, updates, params))[0]

    for number in range(1000):
        batch = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), bandit(rng, groups, 128))
        state = learn(state, batch, number * embedded.PREDICTION_PERIOD_UPDATES)
    some = rng.permutation(len(groups))[:200]
    similarity = np.asarray(as_matrix(kind.context(state)))[np.ix_(some, some)]
    assert group_auc(similarity, groups[some]) > 0.95
    same = groups[some][:, None] == groups[some][None]
    assert similarity[same].mean() > similarity[~same].mean() + 0.3


@pytest.mark.parametrize("form", ["mean", "sum"])
def test_meta_gradient_equals_differentiating_through_the_update(form):
    """Also by finite differences; the loss of the held-out data is any function of the parameters."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(1)
        kind = dataclasses.replace(kind_of(A), form=form)
        params, states = jnp.asarray(rng.normal(size=(FEATURES, A))), jnp.asarray(rng.normal(size=(B, FEATURES)))
        opt_state = jax.tree.map(lambda x: x + 0.3 if x.shape else x, kind.optimiser.init(params))
        root = rng.normal(size=(3, SIZE, 2))
        spot = Map(jnp.asarray(0.1 * rng.normal(size=(A, SIZE))), jnp.einsum("kro,kso->krs", root, root))
        td, wanted = jnp.asarray(rng.normal(size=params.shape)), jnp.asarray(rng.normal(size=params.shape))
        evidence = evidence_of(Transition(states, np.zeros(B, int), states[:, 0], states[:, 0], states), 64)

        def penalty_gradient(log_weights):
            factors = memberships(spot, log_weights)
            return 0.5 * jax.grad(lambda p: batch_penalty(states @ p, factors, form))(params)

        def held_out(params):
            return jnp.sum(jnp.sin(params) * wanted)

        def after(log_weights):
            updates, _ = kind.optimiser.update(td + penalty_gradient(log_weights), opt_state, params)
            return params + updates

        log_weights = jnp.asarray([0.1, -0.2, 0.3])
        step = InnerStep(params, opt_state, td + penalty_gradient(log_weights), states, None, None, log_weights)
        state = kind.init(jax.random.PRNGKey(0), params, step)._replace(map=spot, log_weights=log_weights, recent=step)
        evidence = evidence._replace(held_out_gradient=lambda: jax.grad(held_out)(after(log_weights)))
        found = kind._meta_gradient(state, evidence)
        whole = jax.grad(lambda w: held_out(after(w)))(log_weights)
        np.testing.assert_allclose(found, whole, rtol=1e-6)
        for i, e in enumerate(1e-6 * np.eye(3)):
            difference = held_out(after(log_weights + e)) - held_out(after(log_weights - e))
            assert found[i] == pytest.approx(float(difference) / 2e-6, rel=1e-3, abs=1e-9)
        assert np.abs(found).min() > 0


def test_a_meta_step_follows_the_gradient_when_it_is_due():
    rng = np.random.default_rng(2)
    kind = kind_of(A, optax.sgd(0.1))
    params, states = jnp.asarray(rng.normal(size=(4, A)), jnp.float32), jnp.eye(4)
    step = InnerStep(params, kind.optimiser.init(params), params, states, None, None, params)
    state = kind.init(jax.random.PRNGKey(0), params, step)
    state = state._replace(map=place([0.0, 0.2, 0.4, 0.1, 0.3]))
    batch = jax.tree.map(jnp.asarray, bandit(rng, np.arange(A), 8))
    gradient = jnp.asarray(rng.normal(size=params.shape), jnp.float32)
    learn = jax.jit(lambda updates: kind.learn(state, evidence_of(batch, updates, gradient)))
    idle, norm = learn(63)
    assert norm == 0 and (idle.log_weights == state.log_weights).all()
    moved, norm = learn(64)
    change = np.asarray(moved.log_weights - state.log_weights)
    # The first step of Adam has the length of its rate against the sign of the gradient.
    gradient_in_w = kind._meta_gradient(state, evidence_of(batch, 64, gradient))
    assert norm == pytest.approx(float(jnp.linalg.norm(gradient_in_w)), rel=1e-4)
    assert change[0] == pytest.approx(-np.sign(gradient_in_w[0]) * embedded.WEIGHT_RATE * 0.01, rel=1e-2)
    assert (change[1:] == 0).all()  # the map says that the other kinds of outcome do not depend on the action


def test_windows_of_several_decisions_teach_only_where_there_is_nothing_better():
    kind = dataclasses.replace(kind_of(A), windows_are_single=False)
    params = jnp.zeros((4, A))
    step = InnerStep(params, kind.optimiser.init(params), params, jnp.eye(4), None, None, params)
    state = kind.init(jax.random.PRNGKey(0), params, step)
    rows = bandit(np.random.default_rng(3), np.arange(A), 8)
    other = rows._replace(r_t=np.where(np.arange(8) < 4, 7.0, rows.r_t))  # differs in the windows alone
    learned = [
        kind._predict_better(state, evidence_of(jax.tree.map(jnp.asarray, t), 0, windows=windows))
        for t, windows in ((rows, 4), (other, 4), (rows, 8), (other, 8))
    ]
    embeddings = [np.asarray(one.model["embedding"]) for one in learned]
    np.testing.assert_array_equal(embeddings[0], embeddings[1])
    assert (embeddings[2] != embeddings[3]).any()


def test_auto_chooses_by_the_number_of_actions():
    config = TrainConfig(env="planted-grid")
    assert not config.embeds(MATRIX_ACTIONS) and config.embeds(MATRIX_ACTIONS + 1)
    assert not replace(config, variant="macros").embeds(1000)
    assert not replace(config, similarity_form="matrix").embeds(1000)
    assert replace(config, similarity_form="embedded").embeds(20)
    for other in (
        {"meta_learning_rate": 0.0},
        {"similarity_start": "overlap"},
        {"trace_length": 2},
        {"init_from": "r"},
    ):
        assert not replace(config, **other).embeds(1000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"similarity_start": "overlap"}, "similarity_start overlap"),
        ({"meta_learning_rate": 0.0}, "meta_learning_rate 0"),
        ({"penalty_form": "literal"}, "penalty_form literal"),
        ({"entropy_weight": 0.1}, "entropy_weight"),
    ],
    ids=["start", "frozen", "literal", "entropy"],
)
def test_settings_that_it_cannot_have_are_refused(changes, message):
    with pytest.raises(UserError, match=f"embedded does not go with {message}"):
        replace(TrainConfig(env="planted-grid"), similarity_form="embedded", **changes)


def test_a_run_with_many_actions_is_trained_saved_and_opened(tmp_path):
    run = masp.train(
        "planted-grid", env_options=("size=4", "copies=70"), frames=3_000, min_replay_steps=500, eval_episodes=8,
        log_every_frames=1_000, eval_every_frames=0, out=tmp_path / "run", variant="masp",
    )  # fmt: skip
    assert run.similarity.shape == (280, 280)
    np.testing.assert_allclose(run.similarity, run.similarity.T, atol=1e-5)
    opened = masp.load_run(tmp_path / "run")
    np.testing.assert_array_equal(opened.similarity, run.similarity)
    assert opened.config.embeds(280)
    observation = np.zeros(16, np.float32)
    assert masp.load_agent(tmp_path / "run").values(observation).shape == (280,)
