"""TD losses by hand and against a naive projection."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masp.agent import losses

SUPPORT = jnp.linspace(-1.0, 1.0, 5)  # -1, -1/2, 0, 1/2, 1
HUGE = 50.0  # a logit that leaves the others nothing

loss = jax.jit(losses.td_loss)
loss_and_slope = jax.jit(jax.value_and_grad(losses.td_loss))


def certain(*atoms):
    """[A, 5] logits, each action sure of one atom."""
    return HUGE * jax.nn.one_hot(jnp.array(atoms), 5)


def goal_of(reward, discount, target_outputs, selector):
    """The distribution [5] that the loss pulls action 0 to: softmax minus slope, of a cross entropy."""
    outputs = jnp.zeros((target_outputs.shape[0], 5))
    _, slope = loss_and_slope(outputs, 0, reward, discount, target_outputs, selector, SUPPORT)
    assert (np.asarray(slope[1:]) == 0).all()  # other actions are left alone
    return 0.2 - np.asarray(slope[0])


@pytest.mark.parametrize(
    ("reward", "discount", "atom", "expected"),
    [
        (0.0, 1.0, 3, [0, 0, 0, 1, 0]),  # stays where it is
        (0.25, 1.0, 2, [0, 0, 0.5, 0.5, 0]),  # half-way between two atoms
        (0.1, 0.5, 4, [0, 0, 0, 0.8, 0.2]),  # 0.1 + 0.5 * 1 = 0.6
        (9.0, 0.9, 2, [0, 0, 0, 0, 1]),  # beyond the support
        (-9.0, 0.9, 4, [1, 0, 0, 0, 0]),
        (-0.5, 0.0, 4, [0, 1, 0, 0, 0]),  # terminated: only the reward counts
    ],
)
def test_projection_by_hand(reward, discount, atom, expected):
    found = goal_of(reward, discount, certain(atom, 0), jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def naive_projection(probabilities, reward, discount):
    """Atom by atom."""
    out, support = np.zeros(5), [-1, -0.5, 0, 0.5, 1]
    for p, z in zip(probabilities, support, strict=True):
        place = (min(1.0, max(-1.0, reward + discount * z)) + 1) / 0.5
        low = min(int(np.floor(place)), 3)
        out[low] += p * (low + 1 - place)
        out[low + 1] += p * (place - low)
    return out


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.floats(-2, 2, width=32), st.floats(0, 1, width=32))
def test_projection_agrees_with_atom_by_atom(seed, reward, discount):
    logits = np.random.default_rng(seed).normal(size=(2, 5)).astype(np.float32)
    shares = np.exp(logits[1]) / np.exp(logits[1]).sum()
    found = goal_of(reward, discount, jnp.asarray(logits), jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(found, naive_projection(shares, reward, discount), atol=1e-5)
    assert found.sum() == pytest.approx(1.0, abs=1e-5)


def test_categorical_loss_is_a_cross_entropy():
    """All on atom 3, of which the outputs give 1/2: -log 1/2."""
    outputs = jnp.log(jnp.array([[0.2] * 5, [0.125, 0.125, 0.125, 0.5, 0.125]]))
    found = loss(outputs, 1, 0.0, 1.0, certain(3, 0), jnp.array([1.0, 0.0]), SUPPORT)
    assert found == pytest.approx(np.log(2), rel=1e-5)


def test_selector_chooses_and_target_values():
    """The selector prefers action 1, the target network action 0: action 1 is valued, by the target network."""
    target = certain(4, 1)
    np.testing.assert_allclose(goal_of(0.0, 1.0, target, jnp.array([0.0, 1.0])), [0, 1, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(goal_of(0.0, 1.0, target, jnp.array([1.0, 0.0])), [0, 0, 0, 0, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("value", "expected", "slope"),
    [
        (1.6, 0.5 * 0.4**2, -0.4),  # target 1 + 0.5 * 2 = 2 from action 1, which the selector chose
        (-1.0, 3 - 0.5, -1.0),  # Huber: linear beyond 1
        (5.0, 3 - 0.5, 1.0),
    ],
)
def test_scalar_huber_by_hand(value, expected, slope):
    outputs, target = jnp.array([[7.0], [value]]), jnp.array([[10.0], [2.0]])
    support = jnp.zeros(1)
    found, slopes = loss_and_slope(outputs, 1, 1.0, 0.5, target, jnp.array([0.0, 1.0]), support)
    assert found == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(slopes, [[0.0], [slope]], rtol=1e-5)


@pytest.mark.parametrize("atoms", [1, 5])
def test_only_the_online_outputs_receive_gradient(atoms):
    rng = np.random.default_rng(0)
    outputs, target = rng.normal(size=(2, 3, atoms)).astype(np.float32)
    support = jnp.linspace(-1.0, 1.0, atoms)
    slopes = jax.grad(losses.td_loss, argnums=(0, 4, 5))(
        outputs, jnp.array(2), jnp.array(0.3), jnp.array(0.9), target, jnp.array([0.1, 0.2, 0.3]), support
    )
    assert np.abs(slopes[0]).max() > 0
    assert (np.asarray(slopes[1]) == 0).all() and (np.asarray(slopes[2]) == 0).all()


def test_projection_conserves_probability_and_clipped_mean():
    """For atoms inside the support the mean stays; atoms outside count as its ends."""
    probabilities = jnp.array([0.1, 0.2, 0.3, 0.4])
    inside, outside = jnp.array([-0.9, -0.2, 0.3, 0.85]), jnp.array([-7.0, -0.2, 0.3, 1.5])
    for atoms in (inside, outside):
        projected = losses.project(atoms, probabilities, SUPPORT)
        assert projected.sum() == pytest.approx(1.0, abs=1e-6) and (projected >= 0).all()
        mean = np.sum(np.clip(atoms, -1, 1) * np.asarray(probabilities))
        assert np.sum(projected * SUPPORT) == pytest.approx(mean, abs=1e-6)


def test_projection_onto_itself_is_the_identity():
    probabilities = jnp.array([0.1, 0.2, 0.3, 0.15, 0.25])
    np.testing.assert_allclose(losses.project(SUPPORT, probabilities, SUPPORT), probabilities, atol=1e-6)


def test_projection_with_discount_zero_is_one_point():
    """All atoms coincide at the reward 0.125, a quarter of the way from 0 to 1/2."""
    atoms = 0.125 + 0.0 * SUPPORT
    projected = losses.project(atoms, jnp.full(5, 0.2), SUPPORT)
    np.testing.assert_allclose(projected, [0, 0, 0.75, 0.25, 0], atol=1e-6)


@pytest.mark.parametrize(("x", "expected"), [(0.0, 0.0), (0.5, 0.125), (-1.0, 0.5), (3.0, 2.5), (-3.0, 2.5)])
def test_huber_by_hand(x, expected):
    assert losses.huber(jnp.asarray(x)) == pytest.approx(expected)
