"""Similarity from outcomes: values by hand, a small world with walls, and whole updates against autodiff."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import masp
import naive_update as naive
from masp.agent.replay import Transition
from masp.config import TrainConfig, replace
from masp.errors import UserError
from masp.similarity import outcomes
from masp.training.train import train


def transitions(x, a, x_next, reward=None, ended=None):
    """Features before and after (the first of them 1), and the rest as the replay has it."""
    nothing = np.zeros(len(a))
    reward, ended = (nothing if values is None else np.asarray(values, float) for values in (reward, ended))
    x, x_next = jnp.asarray(x, jnp.float32), jnp.asarray(x_next, jnp.float32)
    return x, x_next, Transition(x, jnp.asarray(a), jnp.asarray(reward), jnp.asarray(0.9 * (1 - ended)), x_next)


def learned(known, x, a, x_next, reward=None, ended=None, weight=None, times=1):
    x, x_next, seen = transitions(x, a, x_next, reward, ended)
    weight = jnp.ones(len(a)) if weight is None else jnp.asarray(weight)
    step = jax.jit(outcomes.learn)
    for _ in range(times):
        known = step(known, x, x_next, seen, weight)
    return known


def fresh(actions, size):
    return outcomes.init(jax.random.PRNGKey(0), actions, size)


def predicted(known, x):
    """[A, O] what each action is predicted to bring, written out."""
    return np.asarray(known.shared) @ x + np.asarray(known.own) @ x


def test_one_transition_by_hand():
    """One feature, the constant: reward 2 of action 1, then the share of each weight by its variance."""
    known = learned(fresh(2, 1), [[1.0], [1.0]], [1, 0], [[1.0], [1.0]], reward=[2.0, 0.0])
    # Mean reward 1, variance 1, all of which was unforeseen in mean square 2: noise min(2, 1) = 1. Every variance is 1.
    # For either transition: shared part 1 * 2 (both have it), own part 1 * 1, noise 1: total 4.
    np.testing.assert_allclose(known.shared[1], [2.0 / 4 + 0.0], rtol=1e-6)
    np.testing.assert_allclose(known.own[:, 1, 0], [0.0, 2.0 / 4], rtol=1e-6)
    # What was seen of a weight: one over the variance of all else, 1 / (4 - 2) twice, 1 / (4 - 1) once.
    np.testing.assert_allclose(known.shared_precision[1], [1.0], rtol=1e-6)
    np.testing.assert_allclose(known.own_precision[:, 1, 0], [1 / 3, 1 / 3], rtol=1e-6)
    np.testing.assert_array_equal(known.shared[0], [0.0])  # the place never changed


def test_means_of_noisy_rewards():
    """Two contexts, three actions: what is predicted comes to the mean reward, and what is drawn often weighs less."""
    rng = np.random.default_rng(1)
    pay = np.array([[0.9, 0.1], [0.1, 0.8], [0.9, 0.1]])  # [A, contexts]
    known = fresh(3, 3)
    for _ in range(400):
        context, a = rng.integers(0, 2, 32), rng.integers(0, 3, 32)
        reward = rng.uniform(size=32) < pay[a, context]
        # Ones are seen four times as often as they come, and count a quarter.
        often = np.where(reward, 4, 1)
        rows = np.repeat(np.arange(32), often)
        x = np.concatenate([np.ones((32, 1)), np.eye(2)[context]], axis=1)
        keep = rng.permutation(rows)[:32]
        weight = np.where(reward, 0.25, 1.0)[keep]
        known = learned(known, x[keep], a[keep], x[keep], reward[keep], weight=weight)
    found = np.stack([predicted(known, np.array([1.0, *np.eye(2)[c]]))[:, -2] for c in range(2)], axis=1)
    np.testing.assert_allclose(found, pay, atol=0.06)
    alike = np.asarray(outcomes.predicted_similarity(known, jnp.array([[1.0, 1.0, 0.0]])))[0]
    assert alike[0, 2] > 0.9 > 0.3 > alike[0, 1]


def test_predicted_similarity_by_hand():
    """Distances of each kind count by one over the variance, the explained share."""
    known = fresh(3, 2)._replace(
        own=jnp.array(
            [np.zeros((4, 2)), [[0, 0.3], [0, 0], [0, 0], [0, 0]], [[0, 0], [0, 0], [0, 0.1], [0, 0.1]]], float
        ),
        mean=jnp.array([1.0, 0.0, 1.0, 0.5]),
        square=jnp.array([2.0, 3.0, 5.0, 0.5]),  # variances 1 + 3, 4, 0.25
        error=jnp.array([1.0, 1.0, 1.0, 0.25]),  # explained: half, three quarters, nothing, which counts as 0.01
    )
    x = jnp.array([[1.0, 2.0]])
    place, reward = 5 * 0.6**2 * 0.5 / 4, 5 * 0.2**2 * (0.75 / 4 + 0.01 / 0.25)  # and its end
    expected = np.exp(-np.array([[0, place, reward], [place, 0, place + reward], [reward, place + reward, 0]]))
    np.testing.assert_allclose(outcomes.predicted_similarity(known, x)[0], expected, rtol=1e-5)


def test_before_any_data_all_actions_are_alike():
    for x in (jnp.ones((3, 4)), jnp.zeros((3, 4))):
        np.testing.assert_array_equal(outcomes.predicted_similarity(fresh(5, 4), x), np.ones((3, 5, 5)))
    known = learned(fresh(5, 4), np.zeros((2, 4)), [0, 1], np.zeros((2, 4)))
    np.testing.assert_array_equal(known.own, np.zeros((5, 6, 4)))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(known))


def test_finds_what_leads_to_the_same_cell_in_each_cell():
    """A corridor of 5 cells: left, right, left twice, right then left; against a wall others are alike."""
    sequences, cells, rng = [(-1,), (1,), (-1, -1), (1, -1)], 5, np.random.default_rng(0)

    def end(cell, sequence):
        for move in sequence:
            cell = min(max(cell + move, 0), cells - 1)
        return cell

    def features(cell):
        return np.concatenate([np.ones((len(cell), 1)), np.eye(cells)[cell]], axis=1)

    known = fresh(4, cells + 1)
    for _ in range(100):
        cell, action = rng.integers(0, cells, 16), rng.integers(0, 4, 16)
        reached = np.array([end(c, sequences[a]) for c, a in zip(cell, action, strict=True)])
        known = learned(known, features(cell), action, features(reached))
    found = np.asarray(outcomes.predicted_similarity(known, jnp.asarray(features(np.arange(cells)))))
    for cell in range(cells):
        ends = [end(cell, sequence) for sequence in sequences]
        same = np.equal.outer(ends, ends)
        assert found[cell][same].min() > 0.99 and found[cell][~same].max() < 0.1
    assert found[0][0, 2] > 0.99 > 0.1 > found[3][0, 2]  # left and left twice: alike at the wall only


def test_many_features_are_projected():
    """Projections preserve distances: actions that turn on the same of 200 features are alike, others are not."""
    rng, size = np.random.default_rng(0), 200
    known, turned = fresh(4, size), np.array([5, 5, 80, 150])
    assert known.own.shape == (4, outcomes.NUM_PROJECTIONS + 2, size)
    for _ in range(60):
        x = np.concatenate([np.ones((32, 1)), rng.uniform(size=(32, size - 1)) < 0.1], axis=1)
        a = rng.integers(0, 4, 32)
        x[:, turned] = 0
        after = x.copy()
        after[np.arange(32), turned[a]] = 1
        known = learned(known, x, a, after)
    found = np.asarray(outcomes.predicted_similarity(known, jnp.asarray(x[:4])))
    assert found[:, 0, 1].min() > 0.5 > 0.2 > max(found[:, 0, 2].max(), found[:, 1, 3].max(), found[:, 2, 3].max())


PLAIN = {"dueling": False, "noisy": False, "double": False, "atoms": 1, "embedding": 0}


def make_case(rng, n_step, inside):
    """A learner whose similarity comes from outcomes, a state with a model of some of them, and three batches."""
    learner = naive.make_learner(**PLAIN, n_step=n_step, variant="outcomes", penalty_weight=0.7)
    state = naive.make_state(learner, rng, None, np.float64)
    batches = [naive.make_batch(rng, np.float64, inside) for _ in range(3)]
    model = outcomes.init(jax.random.PRNGKey(0), naive.ACTIONS, naive.INPUTS + 1)
    for batch in batches[1:]:
        model = learned_from(learner, model, batch, slice(None))
    model = model._replace(error=0.1 * model.error)  # so that something is explained of every kind
    return learner, state._replace(similarity=state.similarity._replace(model=model)), batches


def learned_from(learner, model, batch, rows):
    """The model after some rows of a batch."""
    transition, weight = jax.tree.map(lambda column: column[rows], (batch.transition, batch.weight))
    x_tm1, x_t = learner.similarity.features(transition.s_tm1), learner.similarity.features(transition.s_t)
    return outcomes.learn(model, x_tm1, x_t, transition, weight)


def alike_by_hand(known, states):
    """[B, A, A] written out in loops over states and pairs."""
    x = np.concatenate([np.ones((len(states), 1)), states], axis=1)
    variance = np.asarray(known.square) - np.asarray(known.mean) ** 2
    kinds = [slice(0, -2), slice(-2, -1), slice(-1, None)]
    found = []
    for row in x:
        f = np.asarray(known.own) @ row
        distance = 0.0
        for kind in kinds:
            total = variance[kind].sum()
            share = np.clip(1 - np.asarray(known.error)[kind].sum() / total, 0.01, 1)
            gaps = ((f[:, None, kind] - f[None, :, kind]) ** 2).sum(-1)
            distance = distance + gaps * share / total
        found.append(np.exp(-5 * distance))
    return np.stack(found)


def penalty_by_hand(learner, params, states, alike):
    """The mean over states and actions, times the weight."""
    q = naive.values(naive.forward(params, states, None), learner.support)
    smooth = alike / alike.sum(axis=2, keepdims=True)
    return 0.7 * jnp.mean((q - jnp.einsum("bij,bj->bi", smooth, q)) ** 2)


@pytest.mark.parametrize(
    ("n_step", "inside", "rows"),
    [(1, 0, slice(None)), (1, 3, slice(None)), (3, 3, slice(naive.BATCH, None))],
    ids=["windows", "windows-and-inside", "only-inside"],
)
def test_a_whole_update(n_step, inside, rows):
    """The model learns first, from rows that are single decisions; the penalty uses it on the states of the windows."""
    with jax.enable_x64(True):
        learner, state, (batch, *_) = make_case(np.random.default_rng(3), n_step, inside)
        after, _, metrics = jax.jit(lambda: learner.update(state, batch, lambda: batch, jax.random.PRNGKey(0)))()
        model = learned_from(learner, state.similarity.model, batch, rows)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12), after.similarity.model, model)
        assert not np.allclose(model.own, state.similarity.model.own)

        states = batch.transition.s_tm1[: naive.BATCH]
        alike = alike_by_hand(model, np.asarray(states))
        expected_mean = 0.99 * np.asarray(state.similarity.mean) + 0.01 * alike.mean(axis=0)
        np.testing.assert_allclose(after.similarity.mean, expected_mean, rtol=1e-9)

        def objective(params):
            nets = (params, state.params, state.target_params)
            td = naive.td_loss(learner, *nets, batch, None, [None, None])
            return td + penalty_by_hand(learner, params, states, alike)

        step = naive.clip_and_adam(learner, jax.grad(objective)(state.params), state.opt_state)
        expected = jax.tree.map(jnp.add, state.params, step)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-12), after.params, expected)
        penalty = penalty_by_hand(learner, state.params, states, alike)
        assert metrics.penalty == pytest.approx(float(penalty), rel=1e-9) and float(penalty) > 0


def test_a_run_learns_with_it(tmp_path):
    small = {"hidden": 16, "frames": 4_000, "log_every_frames": 1_000, "eval_every_frames": 2_000, "eval_episodes": 8}
    config = replace(
        masp.TrainConfig(env="planted-grid", env_options=("size=4", "sequences=12", "max_steps=8"), num_envs=8),
        **small, num_atoms=1, noisy=False, n_step=1, embedding=0, min_replay_steps=200, replay_steps=4_000,
        steps_per_update=8, learning_rate=1e-3, penalty_weight=1.6, variant="outcomes",
    )  # fmt: skip
    run = masp.load_run(train(replace(config, out=str(tmp_path / "run"))).run_dir)
    np.testing.assert_allclose(run.similarity, run.similarity.T, atol=1e-5)
    np.testing.assert_allclose(np.diag(run.similarity), 1.0, atol=1e-5)
    assert run.metrics[-1]["similarity_auc"] > 0.75  # walls are near everywhere, which the static truth ignores


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"similarity_form": "embedded"},
            "embedded belong to a meta-learned similarity: --variant masp",
        ),
        ({"penalty_form": "literal"}, "belong to a meta-learned similarity: --variant masp"),
        ({"n_step": 3}, "add --n-step 1 or --intra-option"),
        ({"similarity_start": "some.safetensors"}, "takes none from a bundle"),
    ],
)
def test_settings_that_exclude_it_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        replace(TrainConfig(env="planted-grid"), **{"n_step": 1, **settings}, variant="outcomes")
