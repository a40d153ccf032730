"""Whole updates of the learner against updates written out by hand, in double precision."""

import dataclasses
from functools import cache, partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import naive_update as naive
from masp.agent.learner import Learner
from masp.config import SimilarityConfig, TrainConfig

RATE = 0.5  # of the meta-step: large, so that the similarity moves visibly
DECAY, ENTROPY = 0.7, 0.01
KINDS = {
    "separate": {"held_out": "separate", "meta_optimiser": "sgd", "meta_learning_rate": RATE},
    "next": {"held_out": "next", "meta_optimiser": "adam", "meta_learning_rate": 0.01},
}
TRACE = {
    "held_out": "separate",
    "meta_optimiser": "sgd",
    "meta_learning_rate": RATE,
    "trace_length": 3,
    "trace_decay": DECAY,
    "meta_period_updates": 3,
    "entropy_weight": ENTROPY,
}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@cache
def learner_of(kind):
    return naive.make_learner(dueling=False, **KINDS[kind])


@cache
def update_of(learner):
    """Compiled: one update with a given held-out sample."""
    return jax.jit(lambda state, sample, held_out, key: learner.update(state, sample, key, lambda: held_out))


@cache
def noise_of(learner):
    return jax.jit(lambda state, key: learner.noise(state, key, 4))


def plain_learner(**masp):
    """Scalar values, plain layers and heads, single Q: small."""
    return naive.make_learner(dueling=False, noisy=False, double=False, atoms=1, embedding=0, target_period=2, **masp)


BY_HAND = naive.make_learner(dueling=False)  # reads only what all kinds have in common


@partial(jax.jit, static_argnums=0)
def td_gradient(learner, state, sample, noise):
    """g' at the state's parameters, by hand."""

    def objective(params):
        return naive.td_loss(learner, params, state.params, state.target_params, sample, state.similarity, noise)

    return jax.grad(objective)(state.params)


@partial(jax.jit, static_argnums=0)
def inner_update(learner, state, sample, noise, similarity, held_out_gradient):
    """Parameters after an update under `similarity`, and g'^T d(parameters)/d(similarity), by hand.

    The network sees the state's similarity in either case.
    """

    def after(similarity):
        return naive.params_after_update(learner, state, sample, noise, similarity)

    params, pull_back = jax.vjp(after, similarity)
    return params, pull_back(held_out_gradient)[0]


@jax.jit
def by_hand(state, sample, noise):
    """What an update says about itself."""
    losses = naive.td_losses(BY_HAND, state.params, state.params, state.target_params, sample, state.similarity, noise)
    q = naive.values(naive.forward(state.params, sample.transition.s_tm1, state.similarity, noise[0]), BY_HAND.support)
    rows = state.similarity / state.similarity.sum(axis=1, keepdims=True)
    gradient, _ = ravel_pytree(naive.gradient_of_update(BY_HAND, state, sample, noise, state.similarity))
    return {
        "losses": losses,
        "td_loss": (sample.weight * losses).mean(),
        "penalty": 0.3 * ((q - q @ rows.T) ** 2).sum(axis=1).mean(),
        "q_mean": q.mean(),
        "q_max": q.max(axis=1).mean(),
        "q_spread": q.std(axis=1).mean(),
        "gradient_norm": jnp.sqrt((gradient**2).sum()),
    }


def bare(state):
    """Without what only some kinds have, so that all share one compilation."""
    return state._replace(recent=(), similarity_opt_state=())


def projected(similarity):
    moved = np.clip((similarity + similarity.T) / 2, 0.0, 1.0)
    np.fill_diagonal(moved, 1.0)
    return moved


def run(learner, updates, similarity=None):
    """Some updates on random data; per update (state before, sample, held-out sample, noise, state after, rest)."""
    rng = np.random.default_rng(4)
    state = naive.make_state(learner, rng, similarity, np.float64)
    history = []
    for i in range(updates):
        sample, held_out = naive.make_sample(rng, np.float64), naive.make_sample(rng, np.float64)
        key = jax.random.PRNGKey(i)
        noise = noise_of(learner)(state, key)
        after, losses, metrics = update_of(learner)(state, sample, held_out, key)
        history.append((state, sample, held_out, noise, after, losses, metrics))
        state = after
    return history


def assert_close(found, expected, tolerance=1e-9):
    found, expected = (np.asarray(ravel_pytree(tree)[0]) for tree in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def assert_step(state, after, expected):
    """The parameters moved, and by what they should have."""
    start, found, expected = (np.asarray(ravel_pytree(p)[0]) for p in (state.params, after.params, expected))
    step = expected - start
    assert np.abs(step).max() > 1e-5
    np.testing.assert_allclose(found - start, step, rtol=0, atol=1e-9 * np.abs(step).max())


def assert_moved(before, after, expected_after):
    """The similarity moved, and by what it should have."""
    moved = np.asarray(after) - np.asarray(before)
    assert np.abs(moved).max() > 1e-5
    np.testing.assert_allclose(moved, expected_after - np.asarray(before), rtol=0, atol=1e-9 * np.abs(moved).max())


def test_separate_moves_parameters_and_similarity_as_by_hand():
    learner = learner_of("separate")
    for state, sample, held_out, noise, after, losses, metrics in run(learner, 3):
        slope = td_gradient(BY_HAND, bare(state._replace(params=after.params)), held_out, noise[2:])
        params, meta_gradient = inner_update(BY_HAND, bare(state), sample, noise[:2], state.similarity, slope)
        assert_step(state, after, params)
        expected = projected(np.asarray(state.similarity - RATE * meta_gradient))
        assert_moved(state.similarity, after.similarity, expected)
        assert after.updates == state.updates + 1
        assert metrics.meta_gradient_norm == pytest.approx(float(np.linalg.norm(meta_gradient)), rel=1e-9)

        said = by_hand(bare(state), sample, noise[:2])
        assert_close(losses, said.pop("losses"))
        for name, value in said.items():
            assert getattr(metrics, name) == pytest.approx(float(value), rel=1e-9), name


def test_next_uses_the_following_batch_through_the_step_before_it():
    """Update i learns the similarity from its own TD gradient, through update i - 1, then applies it in its penalty.

    The network of update i saw the similarity from before that: through it the step of update i must be differentiated.
    """
    learner = learner_of("next")
    history = run(learner, 5)
    first = history[0]
    np.testing.assert_array_equal(first[0].similarity, first[4].similarity)  # nothing to learn from yet
    m = v = np.zeros((naive.ACTIONS, naive.ACTIONS))
    for count, (earlier, now) in enumerate(pairwise(history), start=1):
        state, sample, _, noise, after, _, _ = now
        slope = td_gradient(BY_HAND, bare(state), sample, noise[:2])
        # `state.similarity` is what the earlier update's penalty used, `earlier[0].similarity` what its network saw.
        _, meta_gradient = inner_update(BY_HAND, bare(earlier[0]), earlier[1], earlier[3][:3], state.similarity, slope)
        meta_gradient = np.asarray(meta_gradient)
        m, v = 0.9 * m + 0.1 * meta_gradient, 0.999 * v + 0.001 * meta_gradient**2
        direction = (m / (1 - 0.9**count)) / (np.sqrt(v / (1 - 0.999**count)) + 1e-8)
        expected = projected(np.asarray(state.similarity) - 0.01 * direction)
        assert_moved(state.similarity, after.similarity, expected)
        params, _ = inner_update(BY_HAND, bare(state), sample, noise[:2], after.similarity, slope)
        assert_step(state, after, params)


def test_transitions_from_inside_windows_add_their_loss():
    """Their gradient is part of the step, so the meta-gradient goes through it; its objective is without them."""
    learner = naive.make_learner(dueling=False, held_out="next", meta_optimiser="sgd", meta_learning_rate=RATE)
    rng = np.random.default_rng(5)
    update = jax.jit(lambda state, sample, key, inside: learner.update(state, sample, key, lambda: sample, inside))

    @jax.jit
    def step_by_hand(state, sample, inside, noise, similarity, slope):
        credit = td_gradient(BY_HAND, state, inside, noise)

        def after(similarity):
            gradient = naive.gradient_of_update(BY_HAND, state, sample, noise, similarity)
            total = jax.tree.map(jnp.add, gradient, credit)
            return jax.tree.map(jnp.add, state.params, naive.clip_and_adam(BY_HAND, total, state.opt_state))

        params, pull_back = jax.vjp(after, similarity)
        return params, pull_back(slope)[0]

    state, before = naive.make_state(learner, rng, dtype=np.float64), None
    for i in range(3):
        sample, inside = naive.make_sample(rng, np.float64), naive.make_sample(rng, np.float64)
        noise = noise_of(learner)(state, jax.random.PRNGKey(i))[:2]
        slope = td_gradient(BY_HAND, bare(state), sample, noise)
        after, losses, _ = update(state, sample, jax.random.PRNGKey(i), inside)
        assert_close(losses, by_hand(bare(state), sample, noise)["losses"])
        if before is not None:
            _, meta_gradient = step_by_hand(*before, state.similarity, slope)
            expected = projected(np.asarray(state.similarity - RATE * meta_gradient))
            assert_moved(state.similarity, after.similarity, expected)
        params, _ = step_by_hand(bare(state), sample, inside, noise, after.similarity, slope)
        assert_step(state, after, params)
        state, before = after, (bare(state), sample, inside, noise)


def entropy(similarity):
    """Mean entropy of the rows over log A."""
    p = similarity / similarity.sum(axis=1, keepdims=True)
    return -(p * jnp.log(p)).sum() / len(p) / jnp.log(len(p))


def test_trace_is_the_decayed_sum_over_three_steps_and_the_period_skips():
    learner = plain_learner(**TRACE)
    history = run(learner, 7)
    for number, (state, _, held_out, noise, after, _, metrics) in enumerate(history, start=1):
        if number % 3:
            np.testing.assert_array_equal(state.similarity, after.similarity)
            assert metrics.meta_gradient_norm == 0
            continue
        slope = td_gradient(learner, bare(state._replace(params=after.params)), held_out, noise[2:])
        total = np.zeros((naive.ACTIONS, naive.ACTIONS))
        for back in range(3):
            before, sample, _, its_noise, _, _, _ = history[number - 1 - back]
            _, one = inner_update(learner, bare(before), sample, its_noise[:2], state.similarity, slope)
            total += DECAY**back * np.asarray(one)
        direction = total - ENTROPY * np.asarray(jax.grad(entropy)(state.similarity))
        assert_moved(state.similarity, after.similarity, projected(np.asarray(state.similarity) - RATE * direction))
        assert metrics.meta_gradient_norm == pytest.approx(float(np.linalg.norm(total)), rel=1e-9)


def test_next_reaches_back_over_the_steps_before_a_meta_update_that_is_due():
    learner = plain_learner(
        held_out="next",
        meta_optimiser="sgd",
        meta_learning_rate=RATE,
        trace_length=2,
        trace_decay=DECAY,
        meta_period_updates=3,
    )
    history = run(learner, 7)
    for number, (state, sample, _, noise, after, _, metrics) in enumerate(history):
        if number % 3 or not number:
            np.testing.assert_array_equal(state.similarity, after.similarity)
            assert metrics.meta_gradient_norm == 0
            continue
        slope = td_gradient(learner, bare(state), sample, noise[:2])
        total = np.zeros((naive.ACTIONS, naive.ACTIONS))
        for back in range(2):
            before, its_sample, _, its_noise, _, _, _ = history[number - 1 - back]
            _, one = inner_update(learner, bare(before), its_sample, its_noise[:2], state.similarity, slope)
            total += DECAY**back * np.asarray(one)
        assert_moved(state.similarity, after.similarity, projected(np.asarray(state.similarity) - RATE * total))


@pytest.mark.parametrize("kind", ["separate", "next"])
def test_identity_is_never_left(kind):
    """The meta-gradient has the factor I - P: neither SGD nor Adam moves."""
    for *_, after, _, _ in run(learner_of(kind), 3, similarity=np.eye(naive.ACTIONS)):
        np.testing.assert_array_equal(after.similarity, np.eye(naive.ACTIONS))


def test_frozen_similarity_never_changes_but_acts():
    learner = plain_learner(learn_similarity=False)

    @jax.jit
    def update_by_hand(state, sample):
        nothing = [None] * 3
        params = naive.params_after_update(learner, state, sample, nothing, state.similarity)
        return params, naive.td_losses(
            learner, state.params, state.params, state.target_params, sample, state.similarity, nothing
        )

    for number, (state, sample, _, _, after, losses, metrics) in enumerate(run(learner, 4), start=1):
        np.testing.assert_array_equal(state.similarity, after.similarity)
        params, expected_losses = update_by_hand(state, sample)
        assert_step(state, after, params)
        assert_close(losses, expected_losses)
        assert metrics.penalty > 0 and metrics.meta_gradient_norm == 0
        # The target network is copied every second update.
        copied = after.params if number % 2 == 0 else state.target_params
        assert_close(after.target_params, copied, tolerance=0)


@pytest.mark.parametrize("double", [False, True])
def test_where_macros_are_for_exploring_targets_are_the_best_of_primitives(double):
    """By hand, with NumPy: of four actions the first two are primitives, and only they may be the next one."""
    everything = naive.make_learner(dueling=False, noisy=False, double=double, atoms=1, embedding=0, penalty_weight=0.0)
    agent = dataclasses.replace(everything.agent, macros_for="exploring")
    learner = Learner(everything.network, agent, everything.similarity, num_primitives=2)
    rng = np.random.default_rng(5)
    state, sample = naive.make_state(learner, rng, dtype=np.float64), naive.make_sample(rng, np.float64)
    seen, plain = sample.transition, [None, None]
    q, online, target = (
        np.asarray(naive.forward(params, states, state.similarity)[..., 0])
        for params, states in ((state.params, seen.s_tm1), (state.params, seen.s_t), (state.target_params, seen.s_t))
    )
    chooser = online if double else target
    rows = np.arange(naive.BATCH)
    goal = np.asarray(seen.r_t + seen.discount_t * target[rows, chooser[:, :2].argmax(axis=1)])
    error = np.abs(goal - q[rows, seen.a_tm1])
    outputs = learner.outputs(state.params, seen.s_tm1, state.similarity, None)
    found = learner.td_losses(outputs, state, sample, plain)
    np.testing.assert_allclose(found, np.where(error < 1, error**2 / 2, error - 0.5), rtol=1e-6)
    assert (chooser.argmax(axis=1) >= 2).any()  # otherwise this would say nothing
    assert not np.allclose(found, everything.td_losses(outputs, state, sample, plain))


def test_without_weight_it_is_bitwise_plain_rainbow():
    """A penalty of weight 0 leaves no trace, be it switched off by config or by the number itself."""
    rainbow = TrainConfig(env="planted-grid", variant="rainbow").resolved().similarity
    plain = plain_learner()
    plain = Learner(plain.network, plain.agent, rainbow)
    off, silent = plain_learner(penalty_weight=0.0), plain_learner(learn_similarity=False)
    assert not off.similarity.learns and not off.similarity.active
    rng = np.random.default_rng(1)
    start = naive.make_state(plain, rng, dtype=np.float64)
    hushed = start._replace(hyper=start.hyper._replace(penalty_weight=jnp.zeros(())))
    states = {plain: start, off: start, silent: hushed}
    for i in range(3):
        sample = naive.make_sample(rng, np.float64)
        for learner, state in states.items():
            states[learner], _, metrics = update_of(learner)(state, sample, sample, jax.random.PRNGKey(i))
            assert metrics.penalty == 0
        expected = states[plain]
        for state in states.values():
            for found, want in zip(jax.tree.leaves(state.params), jax.tree.leaves(expected.params), strict=True):
                np.testing.assert_array_equal(found, want)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), start.params, states[plain].params)
    assert all(jax.tree.leaves(changed))


def test_fresh_state():
    learner = plain_learner(held_out="next", trace_length=2, meta_learning_rate=0.25, penalty_weight=0.125)
    similarity = naive.make_similarity(np.random.default_rng(0), np.float64)
    state = jax.jit(learner.init)(jax.random.PRNGKey(0), jnp.zeros((1, naive.INPUTS)), similarity)
    assert_close(state.target_params, state.params, tolerance=0)
    np.testing.assert_array_equal(state.similarity, similarity)
    assert state.updates == 0
    assert (state.hyper.penalty_weight, state.hyper.meta_learning_rate) == (0.125, 0.25)
    assert state.recent.observations.shape == (2, naive.BATCH, naive.INPUTS)
    other = jax.jit(learner.init)(jax.random.PRNGKey(1), jnp.zeros((1, naive.INPUTS)), similarity)
    assert not np.array_equal(ravel_pytree(state.params)[0], ravel_pytree(other.params)[0])


@pytest.mark.parametrize(
    ("masp", "kept"),
    [
        ({"held_out": "separate"}, 0),
        ({"held_out": "separate", "trace_length": 3}, 2),
        ({"held_out": "next"}, 1),
        ({"held_out": "next", "trace_length": 3}, 3),
        ({"held_out": "next", "learn_similarity": False}, 0),
        ({"held_out": "next", "penalty_weight": 0.0}, 0),
    ],
)
def test_keeps_no_more_steps_than_needed(masp, kept):
    learner = naive.make_learner(**masp)
    square = jax.ShapeDtypeStruct((naive.ACTIONS, naive.ACTIONS), np.float64)
    observation = jax.ShapeDtypeStruct((1, naive.INPUTS), np.float64)
    state = jax.eval_shape(learner.init, jax.random.PRNGKey(0), observation, square)
    assert {leaf.shape[0] for leaf in jax.tree.leaves(state.recent)} == ({kept} if kept else set())


def test_learns_only_with_a_penalty():
    assert SimilarityConfig().learns
    assert not SimilarityConfig(penalty_weight=0.0).learns
    assert not SimilarityConfig(learn_similarity=False).learns
