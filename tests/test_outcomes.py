"""Similarity from outcomes: values by hand, a small world with walls, and whole updates against autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import masp
import naive_update as naive
from masp import losses, outcomes
from masp.cli.main import main
from masp.config import TrainConfig, replace
from masp.errors import UserError
from masp.replay import Transition
from masp.training.train import train


def transitions(s, a, s_next):
    nothing = jnp.zeros(len(a))
    return Transition(jnp.asarray(s, jnp.float32), jnp.asarray(a), nothing, nothing, jnp.asarray(s_next, jnp.float32))


def test_learning_by_hand():
    maps = outcomes.learn(outcomes.init(2, 2), transitions([[2.0, 0.0]], [1], [[0.0, 2.0]]))
    np.testing.assert_array_equal(maps[0], np.eye(2))
    # error (-2, 2), state (2, 0) of square 4: 0.3 * error * state / 4 is added to the first column
    np.testing.assert_allclose(maps[1], [[0.7, 0.0], [0.3, 1.0]], rtol=1e-6)
    again = transitions([[2.0, 0.0]] * 2, [1, 1], [[0.0, 2.0]] * 2)
    np.testing.assert_allclose(outcomes.learn(outcomes.init(2, 2), again), maps, rtol=1e-6)  # one step, shared


def test_alike_by_hand():
    """Two actions that turn (1, 0) to (0, 1), one that stays: m = (2 + 2 + 0) / 3, all others 2 apart."""
    turn = [[0.0, -1.0], [1.0, 0.0]]
    maps = jnp.array([turn, turn, np.eye(2)])
    found = outcomes.alike(maps, jnp.array([[1.0, 0.0]]))[0]
    far = np.exp(-5 * 2 / (4 / 3))
    np.testing.assert_allclose(found, [[1, 1, far], [1, 1, far], [far, far, 1]], rtol=1e-5)
    np.testing.assert_allclose(outcomes.alike(maps, jnp.array([[100.0, 0.0]]))[0], found, rtol=1e-5)


def test_before_anything_was_seen_all_are_alike():
    for states in (jnp.ones((3, 4)), jnp.zeros((3, 4))):
        np.testing.assert_array_equal(outcomes.alike(outcomes.init(5, 4), states), np.ones((3, 5, 5)))
    unseen = outcomes.learn(outcomes.init(5, 4), transitions(np.zeros((2, 4)), [0, 1], np.zeros((2, 4))))
    np.testing.assert_array_equal(unseen, outcomes.init(5, 4))


def test_finds_what_leads_to_the_same_cell_in_each_cell():
    """A corridor of 5 cells: left, right, left twice, right then left; against a wall others are alike."""
    sequences, cells, rng = [(-1,), (1,), (-1, -1), (1, -1)], 5, np.random.default_rng(0)

    def end(cell, sequence):
        for move in sequence:
            cell = min(max(cell + move, 0), cells - 1)
        return cell

    maps, step = outcomes.init(4, cells), jax.jit(outcomes.learn)
    for _ in range(100):
        cell, action = rng.integers(0, cells, 16), rng.integers(0, 4, 16)
        reached = [end(c, sequences[a]) for c, a in zip(cell, action, strict=True)]
        maps = step(maps, transitions(np.eye(cells)[cell], action, np.eye(cells)[reached]))
    found = np.asarray(outcomes.alike(maps, jnp.eye(cells)))
    for cell in range(cells):
        ends = [end(cell, sequence) for sequence in sequences]
        same = np.equal.outer(ends, ends)
        assert found[cell][same].min() > 0.99 and found[cell][~same].max() < 0.05
    assert found[0][0, 2] > 0.99 > 0.05 > found[3][0, 2]  # left and left twice: alike at the wall only


def test_a_whole_update():
    """Parameters by autodiff of TD loss + penalty written out; maps and the shown similarity by their own functions."""
    with jax.enable_x64(True):
        plain = {"dueling": False, "noisy": False, "double": False, "atoms": 1, "embedding": 0, "n_step": 1}
        learner = naive.make_learner(**plain, similarity_from="outcomes", penalty_weight=0.7)
        rng = np.random.default_rng(3)
        state = naive.make_state(learner, rng, None, np.float64)
        sample = naive.make_sample(rng, np.float64)
        actions, size = naive.ACTIONS, sample.transition.s_tm1.shape[1]
        maps = jnp.asarray(rng.normal(size=(actions, size, size)))
        state = state._replace(outcomes=maps)
        after, _, metrics = jax.jit(lambda: learner.update(state, sample, jax.random.PRNGKey(0), lambda: sample))()

        states = np.asarray(sample.transition.s_tm1)
        looked_at = min(len(states), outcomes.STATES)
        alike = np.zeros((looked_at, actions, actions))
        places = np.einsum("aij,bj->bai", maps, states[:looked_at])
        scale = np.mean(np.sum((places - states[:looked_at, None]) ** 2, axis=-1))
        for b in range(looked_at):
            for i in range(actions):
                for j in range(actions):
                    alike[b, i, j] = np.exp(-5 * np.sum((places[b, i] - places[b, j]) ** 2) / scale)
        smoothing = alike / alike.sum(axis=2, keepdims=True)

        def objective(params):
            outputs = learner.outputs(params, sample.transition.s_tm1, state.similarity, None)
            td = jnp.mean(sample.weight * learner.td_losses(outputs, state, sample, [None, None]))
            q = losses.expected_values(outputs, learner.support)[:looked_at]
            pull = jnp.mean(jnp.sum((q - jnp.einsum("bij,bj->bi", smoothing, q)) ** 2, axis=1))
            return td + 0.7 * pull, pull

        gradient, pull = jax.grad(objective, has_aux=True)(state.params)
        updates, _ = learner.optimiser.update(gradient, state.opt_state, state.params)
        expected = optax.apply_updates(state.params, updates)
        for found, by_hand in zip(jax.tree.leaves(after.params), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(found, by_hand, rtol=1e-9, atol=1e-12)
        assert metrics.penalty == pytest.approx(0.7 * float(pull), rel=1e-9) and float(pull) > 0
        np.testing.assert_allclose(after.outcomes, outcomes.learn(maps, sample.transition), rtol=1e-12)
        assert not np.allclose(after.outcomes, maps)
        expected_shown = 0.99 * np.asarray(state.similarity) + 0.01 * alike.mean(axis=0)
        np.testing.assert_allclose(after.similarity, expected_shown, rtol=1e-9)


def test_a_run_learns_with_it(tmp_path):
    small = {"hidden": 16, "frames": 4_000, "log_every_frames": 1_000, "eval_every_frames": 2_000, "eval_episodes": 8}
    config = replace(
        masp.TrainConfig(env="planted-grid", env_options=("size=4", "sequences=12", "max_steps=8"), num_envs=8),
        **small, num_atoms=1, noisy=False, n_step=1, embedding=0, min_replay_steps=200, replay_steps=4_000,
        steps_per_update=8, learning_rate=1e-3, penalty_weight=0.1, similarity_from="outcomes",
    )  # fmt: skip
    run = masp.load_run(train(replace(config, out=str(tmp_path / "run"))).run_dir)
    np.testing.assert_allclose(run.similarity, run.similarity.T, atol=1e-5)
    np.testing.assert_allclose(np.diag(run.similarity), 1.0, atol=1e-5)
    assert run.metrics[-1]["similarity_auc"] > 0.75  # walls are near everywhere, which the static truth ignores


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learn_similarity": False}, "does not go with --no-learn-similarity"),
        ({"similarity_rank": 4}, "without similarity_rank"),
        ({"n_step": 3}, "set n_step to 1, or intra_option"),
    ],
)
def test_what_it_does_not_go_with(settings, message):
    with pytest.raises(UserError, match=message):
        replace(TrainConfig(env="planted-grid"), **{"n_step": 1, **settings}, similarity_from="outcomes")


def test_what_it_cannot_see(capsys):
    given = ["DoorKey-5x5", "--similarity-from", "outcomes", "--n-step", "1", "--frames", "100"]
    assert main(["train", *given, "--out", "unused"]) == 2
    assert "needs observations that are vectors" in capsys.readouterr().err


def test_without_a_penalty_there_is_none():
    config = replace(TrainConfig(env="planted-grid"), n_step=1, similarity_from="outcomes", variant="macros")
    assert not config.resolved().similarity.from_outcomes
