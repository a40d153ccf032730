"""Learning by evidence, against sums written out by hand and against noise with and without a pull."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import naive_update as naive
from masp import evidence
from masp.config import TrainConfig, replace
from masp.errors import UserError


def after_steps(gradients, similarity):
    known, held = evidence.nothing(similarity), similarity
    for gradient in gradients:
        more = evidence.add(known, gradient)
        known, held = more, evidence.moved(held, known, more)
    return known, held


def test_by_hand():
    """Three steps that agree: z = 3 / sqrt(3); their size plays no part."""
    pull = jnp.array([[0.0, -1.0], [-1.0, 0.0]])
    start = jnp.array([[1.0, 0.2], [0.2, 1.0]])
    known, held = after_steps([pull, 100 * pull, 1e-6 * pull], start)
    # Two of four entries are not 0, so each step is scaled to sqrt(2) there.
    np.testing.assert_allclose(known.total[0, 1], -3 * np.sqrt(2), rtol=1e-6)
    np.testing.assert_allclose(known.squares[0, 1], 6.0, rtol=1e-6)
    odds = 0.2 / 0.8 * np.exp(1.5 * (np.sqrt(3) - 1.5))
    np.testing.assert_allclose(held[0, 1], odds / (1 + odds), rtol=1e-5)
    assert held[0, 0] == 1.0


def test_nothing_moves_below_the_threshold():
    pull = jnp.array([[0.0, -1.0], [-1.0, 0.0]])
    start = jnp.array([[1.0, 0.2], [0.2, 1.0]])
    _, held = after_steps([pull, pull, -pull, pull], start)  # z at most sqrt(2)
    np.testing.assert_array_equal(held, start)


def test_a_weak_pull_in_noise_is_found_and_the_rest_stays():
    """Of 20 actions two groups; the pull is a fifth of the noise."""
    rng = np.random.default_rng(0)
    groups = np.arange(20) % 2
    same = groups[:, None] == groups[None, :]
    gradients = rng.normal(size=(400, 20, 20)) - 0.2 * np.where(same, 1.0, 0.0)
    step = jax.jit(evidence.add)
    start = jnp.full((20, 20), 0.05)
    known = evidence.nothing(start)
    for gradient in gradients:
        known = step(known, jnp.asarray(gradient))
    held = np.asarray(evidence.moved(start, evidence.nothing(start), known))
    off = ~np.eye(20, dtype=bool)
    assert held[same & off].mean() > 0.4
    assert np.mean(held[~same] == np.float32(0.05)) > 0.7  # noise alone exceeds 1.5 in one case of eight


def test_steps_and_their_sum_agree():
    """What matters is the evidence, not on which way it came."""
    rng = np.random.default_rng(1)
    start = jnp.asarray(rng.uniform(0.01, 0.9, (6, 6)))
    start = (start + start.T) / 2
    known, held = after_steps([jnp.asarray(rng.normal(size=(6, 6)) - 0.5) for _ in range(50)], start)
    at_once = evidence.moved(start, evidence.nothing(start), known)
    off = ~np.eye(6, dtype=bool)
    assert np.abs(np.asarray(held - start))[off].max() > 0.1
    np.testing.assert_allclose(np.asarray(held)[off], np.asarray(at_once)[off], rtol=1e-3)


def test_what_was_not_alike_at_all_can_become_so():
    pull = jnp.array([[0.0, -1.0], [-1.0, 0.0]])
    _, held = after_steps([pull] * 100, jnp.eye(2))  # z = 10
    assert held[0, 1] > 0.9


@pytest.mark.parametrize("rate", [0.001, 0.0])
def test_in_an_update(rate):
    """The learner's step is the evidence of its meta-gradient; a rate of 0 freezes."""
    with jax.enable_x64(True):
        learner = naive.make_learner(
            dueling=False, noisy=False, meta_optimiser="evidence", held_out="separate", meta_learning_rate=rate
        )
        rng = np.random.default_rng(4)
        state = naive.make_state(learner, rng, None, np.float64)
        update = jax.jit(lambda s, sample, held_out, key: learner.update(s, sample, key, lambda: held_out)[0])
        start = np.asarray(state.similarity)
        sample, held_out = naive.make_sample(rng, np.float64), naive.make_sample(rng, np.float64)
        for number in range(6):  # the same data over and over: everything agrees
            before, state = state, update(state, sample, held_out, jax.random.PRNGKey(number))
            known = state.similarity_opt_state
            if rate:
                change = evidence.shift(known) - evidence.shift(before.similarity_opt_state)
                odds = np.log(before.similarity) - np.log1p(-np.minimum(before.similarity, 1 - 1e-3)) + change
                expected = np.where(change == 0, before.similarity, 1 / (1 + np.exp(-odds)))
                np.fill_diagonal(expected, 1.0)
                np.testing.assert_allclose(state.similarity, expected, rtol=1e-9)
        assert np.any(np.asarray(known.total) != 0)
        assert np.array_equal(state.similarity, start) == (rate == 0.0)


@pytest.mark.parametrize("other", [{"similarity_rank": 4}, {"entropy_weight": 0.1}])
def test_what_it_does_not_go_with(other):
    with pytest.raises(UserError, match="evidence does not go with"):
        replace(TrainConfig(env="planted-grid"), meta_optimiser="evidence", **other)
