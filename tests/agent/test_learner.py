"""Whole updates of the learner against updates written out by hand, in double precision."""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.flatten_util import ravel_pytree

import naive_update as naive
from masp.agent.learner import Hyper, Learner, LearnerState, Metrics
from masp.agent.replay import Batch
from masp.config import TrainConfig, replace
from masp.similarity.kinds import Fixed, FixedState, Nothing
from masp.similarity.meta_learned import MetaLearned
from masp.similarity.outcomes import Outcomes

RATE = 0.5  # of the meta-step: large, so that the similarity moves visibly
DECAY, ENTROPY = 0.9, 0.01
SGD = {"meta_optimiser": "sgd", "meta_learning_rate": RATE}
KINDS = {
    "separate": {"held_out": "separate", **SGD},
    "next": {"held_out": "next", "meta_optimiser": "adam", "meta_learning_rate": 0.01},
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
    """Compiled: one update with a given held-out batch."""
    return jax.jit(lambda state, batch, held_out, key: learner.update(state, batch, lambda: held_out, key))


@cache
def noise_of(learner):
    """Compiled: the noise of an update for its own two passes, and for two passes on held-out data."""

    def draw(state, key):
        own, held_out = jax.random.split(key)
        return learner.draw_noise(state, own) + learner.draw_noise(state, held_out)

    return jax.jit(draw)


def plain_learner(**masp):
    """Scalar values, plain layers and heads, single Q: small."""
    return naive.make_learner(dueling=False, noisy=False, double=False, atoms=1, embedding=0, target_period=2, **masp)


BY_HAND = naive.make_learner(dueling=False)  # reads only what all kinds have in common


@partial(jax.jit, static_argnums=0)
def td_gradient(learner, state, batch, noise):
    """g' at the state's parameters, by hand."""

    def objective(params):
        context = naive.matrix_of(state)
        return naive.td_loss(learner, params, state.params, state.target_params, batch, context, noise)

    return jax.grad(objective)(state.params)


@partial(jax.jit, static_argnums=0)
def inner_update(learner, state, batch, noise, similarity, held_out_gradient):
    """Parameters after an update under `similarity`, and g'^T d(parameters)/d(similarity), by hand.

    The network sees the state's similarity in either case.
    """

    def after(similarity):
        return naive.params_after_update(learner, state, batch, noise, similarity)

    params, pull_back = jax.vjp(after, similarity)
    return params, pull_back(held_out_gradient)[0]


@jax.jit
def figures_by_hand(state, batch, noise, similarity):
    """The losses and metrics of an update whose penalty uses `similarity`."""
    context, windows = naive.matrix_of(state), batch.transition.s_tm1[: naive.BATCH]
    losses = naive.td_losses(BY_HAND, state.params, state.params, state.target_params, batch, context, noise)
    q = naive.values(naive.forward(state.params, windows, context, noise[0]), BY_HAND.support)
    rows = similarity / similarity.sum(axis=1, keepdims=True)
    gradient, _ = ravel_pytree(naive.gradient_of_update(BY_HAND, state, batch, noise, similarity))
    return {
        "losses": losses[: naive.BATCH],
        "td_loss": (batch.weight * losses).sum() / naive.BATCH,
        "penalty": naive.WEIGHT * ((q - q @ rows.T) ** 2).mean(),
        "q_mean": q.mean(),
        "q_max": q.max(axis=1).mean(),
        "q_spread": q.std(axis=1).mean(),
        "gradient_norm": jnp.sqrt((gradient**2).sum()),
    }


def bare(state):
    """Without what only some kinds have, so that all share one compilation."""
    return state._replace(similarity=FixedState(naive.matrix_of(state)))


def projected(similarity):
    moved = np.clip((similarity + similarity.T) / 2, 0.0, 1.0)
    np.fill_diagonal(moved, 1.0)
    return moved


class Update(NamedTuple):
    """One update of a run."""

    before: LearnerState
    batch: Batch
    held_out: Batch
    noise: list  # of the online and the target network: for the update, for the held-out data
    after: LearnerState
    losses: Array
    metrics: Metrics


def run(learner, updates, similarity=None, inside=0):
    """Some updates on random data."""
    rng = np.random.default_rng(4)
    state = naive.make_state(learner, rng, similarity, np.float64)
    history = []
    for i in range(updates):
        batch, held_out = (naive.make_batch(rng, np.float64, inside) for _ in range(2))
        key = jax.random.PRNGKey(i)
        noise = noise_of(learner)(state, key)
        after, losses, metrics = update_of(learner)(state, batch, held_out, key)
        history.append(Update(state, batch, held_out, noise, after, losses, metrics))
        state = after
    return history


def held_out_gradient(learner, kind, update):
    """g' at the parameters before `update`: on a batch of its own with its own noise, or on the update's batch."""
    if kind == "separate":
        return td_gradient(learner, bare(update.before), update.held_out, update.noise[2:])
    return td_gradient(learner, bare(update.before), update.batch, update.noise[:2])


def meta_gradient_by_hand(learner, kind, history, number, trace=1):
    """[A, A] through the `trace` updates before update `number`, each under the similarity that its penalty used."""
    slope = held_out_gradient(learner, kind, history[number])
    total = np.zeros((naive.ACTIONS, naive.ACTIONS))
    for back in range(trace):
        step = history[number - 1 - back]
        used = naive.matrix_of(step.after)
        _, one = inner_update(learner, bare(step.before), step.batch, step.noise[:2], used, slope)
        total += DECAY**back * np.asarray(one)
    return total


def assert_close(actual, expected, tolerance=1e-9):
    actual, expected = (np.asarray(ravel_pytree(tree)[0]) for tree in (actual, expected))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def assert_step(learner, update):
    """The parameters moved, and as they should under the similarity after the meta-step."""
    expected, _ = inner_update(
        learner,
        bare(update.before),
        update.batch,
        update.noise[:2],
        naive.matrix_of(update.after),
        jax.tree.map(jnp.zeros_like, update.before.params),
    )
    trees = (update.before.params, update.after.params, expected)
    start, actual, expected = (np.asarray(ravel_pytree(p)[0]) for p in trees)
    step = expected - start
    assert np.abs(step).max() > 1e-5
    np.testing.assert_allclose(actual - start, step, rtol=0, atol=1e-9 * np.abs(step).max())


def assert_meta_step(update, direction, rate):
    """The similarity moved, and to the projection of one step along `direction`."""
    before, after = (np.asarray(naive.matrix_of(state)) for state in (update.before, update.after))
    moved = after - before
    assert np.abs(moved).max() > 1e-5
    expected = projected(before - rate * direction)
    np.testing.assert_allclose(moved, expected - before, rtol=0, atol=1e-9 * np.abs(moved).max())


def assert_no_meta_step(update):
    np.testing.assert_array_equal(naive.matrix_of(update.before), naive.matrix_of(update.after))
    assert update.metrics.meta_gradient_norm == 0


def test_noise_of_an_update_is_drawn_for_each_pass_and_key():
    """The updates below are compared under the learner's own noise, so that it could be zero without a failure."""
    learner = learner_of("separate")
    state = naive.make_state(learner, np.random.default_rng(0), dtype=np.float64)
    noise = [*noise_of(learner)(state, jax.random.PRNGKey(0)), *noise_of(learner)(state, jax.random.PRNGKey(1))]
    flat = np.stack([ravel_pytree(one)[0] for one in noise])
    assert (flat != 0).all()
    assert flat.std() == pytest.approx(0.8**0.5, rel=0.5)  # f(e) = sign(e) sqrt|e| has the variance E|e| = 0.8
    assert len(np.unique(flat[:, 0])) == len(noise)


@pytest.mark.parametrize("inside", [0, 3])
def test_separate_learns_from_its_own_batch_through_the_step_before(inside):
    """Rows behind the windows add their loss to both batches; the penalty and the priorities concern the windows."""
    history = run(learner_of("separate"), 3, inside=inside)
    assert_no_meta_step(history[0])
    for number, update in enumerate(history):
        assert_step(BY_HAND, update)
        assert update.after.updates == number + 1
        if number:
            meta_gradient = meta_gradient_by_hand(BY_HAND, "separate", history, number)
            assert_meta_step(update, meta_gradient, RATE)
            assert update.metrics.meta_gradient_norm == pytest.approx(float(np.linalg.norm(meta_gradient)), rel=1e-9)
        used = naive.matrix_of(update.after)
        figures = figures_by_hand(bare(update.before), update.batch, update.noise[:2], used)
        assert update.losses.shape == (naive.BATCH,)
        assert_close(update.losses, figures.pop("losses"))
        for name, value in figures.items():
            assert getattr(update.metrics, name) == pytest.approx(float(value), rel=1e-9), name


@pytest.mark.parametrize("inside", [0, 3])
def test_next_learns_from_the_updates_batch_through_the_step_before(inside):
    """The network of an update saw the similarity from before its meta-step: its step is differentiated under that."""
    history = run(learner_of("next"), 5, inside=inside)
    assert_no_meta_step(history[0])
    m = v = np.zeros((naive.ACTIONS, naive.ACTIONS))
    for number, update in enumerate(history):
        assert_step(BY_HAND, update)
        if not number:
            continue
        meta_gradient = meta_gradient_by_hand(BY_HAND, "next", history, number)
        m, v = 0.9 * m + 0.1 * meta_gradient, 0.999 * v + 0.001 * meta_gradient**2
        direction = (m / (1 - 0.9**number)) / (np.sqrt(v / (1 - 0.999**number)) + 1e-8)
        assert_meta_step(update, direction, 0.01)


@pytest.mark.parametrize("kind", ["separate", "next"])
def test_meta_step_descends_the_held_out_loss_of_the_whole_update(kind):
    """Against finite differences of J'(S): update t - 1 under S from its start, then the held-out loss of update t."""
    earlier, update = run(learner_of(kind), 2)
    batch, noise = (update.held_out, update.noise[2:]) if kind == "separate" else (update.batch, update.noise[:2])
    used, context = naive.matrix_of(earlier.after), naive.matrix_of(update.before)

    @jax.jit
    @jax.vmap
    def held_out_loss(similarity):
        params = naive.params_after_update(BY_HAND, bare(earlier.before), earlier.batch, earlier.noise[:2], similarity)
        chooser = update.before.params
        return naive.td_loss(BY_HAND, params, chooser, update.before.target_params, batch, context, noise)

    shifts = 1e-5 * jnp.eye(naive.ACTIONS**2).reshape(-1, naive.ACTIONS, naive.ACTIONS)
    up, down = held_out_loss(used + shifts), held_out_loss(used - shifts)
    expected = np.asarray(up - down).reshape(naive.ACTIONS, naive.ACTIONS) / 2e-5
    assert update.metrics.meta_gradient_norm == pytest.approx(float(np.linalg.norm(expected)), rel=1e-5)
    if kind == "separate":  # SGD: the step is the gradient
        before, after = (np.asarray(naive.matrix_of(state)) for state in (update.before, update.after))
        np.testing.assert_allclose(after, projected(before - RATE * expected), atol=1e-5 * np.abs(after - before).max())


def entropy(similarity):
    """Mean entropy of the rows over log A."""
    p = similarity / similarity.sum(axis=1, keepdims=True)
    return -(p * jnp.log(p)).sum() / len(p) / jnp.log(len(p))


@pytest.mark.parametrize("kind", ["separate", "next"])
@pytest.mark.parametrize(("trace", "period"), [(3, 3), (3, 2), (2, 3), (1, 2)])
def test_trace_is_a_decayed_sum_and_the_period_skips(kind, trace, period):
    """With a trace longer than the period, meta-steps lie between the inner steps that are summed over."""
    changes = {"trace_length": trace, "meta_period_updates": period, "entropy_weight": ENTROPY}
    learner = plain_learner(held_out=kind, **SGD, **changes)
    history = run(learner, 7)
    due = [number for number in range(7) if number >= trace and number % period == 0]
    for number, update in enumerate(history):
        assert_step(learner, update)
        if number not in due:
            assert_no_meta_step(update)
            continue
        total = meta_gradient_by_hand(learner, kind, history, number, trace)
        direction = total - ENTROPY * np.asarray(jax.grad(entropy)(naive.matrix_of(update.before)))
        assert_meta_step(update, direction, RATE)
        assert update.metrics.meta_gradient_norm == pytest.approx(float(np.linalg.norm(total)), rel=1e-9)


@pytest.mark.parametrize("kind", ["separate", "next"])
def test_identity_is_never_left(kind):
    """The meta-gradient has the factor I - P: neither SGD nor Adam moves."""
    for update in run(learner_of(kind), 3, similarity=np.eye(naive.ACTIONS)):
        np.testing.assert_array_equal(naive.matrix_of(update.after), np.eye(naive.ACTIONS))


def test_frozen_similarity_never_changes_but_acts():
    learner = plain_learner(meta_learning_rate=0.0)
    for number, update in enumerate(run(learner, 4), start=1):
        assert_no_meta_step(update)
        assert_step(learner, update)
        assert update.metrics.penalty > 0
        # The target network is copied every second update.
        copied = update.after.params if number % 2 == 0 else update.before.target_params
        assert_close(update.after.target_params, copied, tolerance=0)


@pytest.mark.parametrize("double", [False, True])
def test_targets_choose_among_choosable_actions(double):
    """By hand, with NumPy: of four actions only the first two may be the next one."""
    settings = {"dueling": False, "noisy": False, "double": double, "atoms": 1, "embedding": 0, "penalty_weight": 0.0}
    unrestricted = naive.make_learner(**settings)
    learner = naive.make_learner(**settings, choosable=(True, True, False, False))
    rng = np.random.default_rng(5)
    state, batch = naive.make_state(learner, rng, dtype=np.float64), naive.make_batch(rng, np.float64)
    transition, plain = batch.transition, [None, None]
    online, target = (
        np.asarray(naive.forward(params, transition.s_t, naive.matrix_of(state))[..., 0])
        for params in (state.params, state.target_params)
    )
    chooser = online if double else target
    best = chooser[:, :2].argmax(axis=1)
    expected = transition.r_t + transition.discount_t * target[np.arange(naive.BATCH), best]
    targets = learner.td_targets(state, batch, plain)
    np.testing.assert_allclose(targets[:, 0], expected, rtol=1e-6)
    assert (chooser.argmax(axis=1) >= 2).any()  # otherwise this would prove nothing
    assert not np.allclose(targets, unrestricted.td_targets(state, batch, plain))


def test_without_weight_it_is_bitwise_plain_rainbow():
    """A penalty of weight 0 has no effect, be it switched off by the variant, by the setting or by the data."""
    plain, off, frozen = (
        plain_learner(variant="rainbow"),
        plain_learner(penalty_weight=0.0),
        plain_learner(meta_learning_rate=0.0),
    )
    rng = np.random.default_rng(1)
    start = naive.make_state(plain, rng, dtype=np.float64)
    weightless = start._replace(hyper=start.hyper._replace(penalty_weight=jnp.zeros(())))
    states = {plain: start, off: start, frozen: weightless}
    for i in range(3):
        batch = naive.make_batch(rng, np.float64)
        for learner, state in states.items():
            states[learner], _, metrics = update_of(learner)(state, batch, batch, jax.random.PRNGKey(i))
            assert metrics.penalty == 0
        for state in states.values():
            jax.tree.map(np.testing.assert_array_equal, state.params, states[plain].params)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), start.params, states[plain].params)
    assert all(jax.tree.leaves(changed))


def test_fresh_state():
    learner = plain_learner(trace_length=2)
    similarity = naive.make_similarity(np.random.default_rng(0), np.float64)
    hyper = Hyper(jnp.asarray(0.125), jnp.asarray(0.25))
    init = jax.jit(learner.init)
    state = init(jax.random.PRNGKey(0), jnp.zeros((1, naive.INPUTS)), similarity, hyper)
    assert_close(state.target_params, state.params, tolerance=0)
    np.testing.assert_array_equal(naive.matrix_of(state), similarity)
    assert state.updates == 0 and state.hyper == hyper
    assert state.similarity.recent.observations.shape == (2, naive.BATCH, naive.INPUTS)
    other = init(jax.random.PRNGKey(1), jnp.zeros((1, naive.INPUTS)), similarity, hyper)
    assert not np.array_equal(ravel_pytree(state.params)[0], ravel_pytree(other.params)[0])


@pytest.mark.parametrize(
    ("variant", "changes", "kind"),
    [
        ("rainbow", {}, Nothing),
        ("macros", {}, Nothing),
        ("masp", {}, MetaLearned),
        ("masp", {"meta_learning_rate": 0.0}, Fixed),
        ("masp", {"penalty_weight": 0.0}, Nothing),
        ("outcomes", {"n_step": 1}, Outcomes),
        ("outcomes", {"n_step": 1, "penalty_weight": 0.0}, Nothing),
    ],
)
def test_variant_decides_the_kind_of_similarity(variant, changes, kind):
    config = replace(TrainConfig(env="planted-grid"), variant=variant, **changes).resolved()
    learner = Learner(naive.make_learner().network, config, (True,) * naive.ACTIONS)
    assert type(learner.similarity) is kind
