"""TD targets and losses by hand and against a naive projection."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masp import ops
from masp.agent import losses

SUPPORT = jnp.linspace(-1.0, 1.0, 5)  # -1, -1/2, 0, 1/2, 1
HUGE = 50.0  # a logit that leaves the others nothing

target_of = jax.jit(losses.td_target)
project = jax.jit(losses.project_distribution)
loss_and_slope = jax.jit(jax.value_and_grad(losses.td_loss))


def certain(*atoms):
    """[A, 5] logits, each action sure of one atom."""
    return HUGE * jax.nn.one_hot(jnp.array(atoms), 5)


@pytest.mark.parametrize(
    ("reward", "discount", "atom", "expected"),
    [
        (0.0, 1.0, 3, [0, 0, 0, 1, 0]),  # on an atom
        (0.25, 1.0, 2, [0, 0, 0.5, 0.5, 0]),  # half-way between two atoms
        (0.1, 0.5, 4, [0, 0, 0, 0.8, 0.2]),  # 0.1 + 0.5 * 1 = 0.6
        (-0.4, 0.5, 1, [0.3, 0.7, 0, 0, 0]),  # -0.4 - 0.5 * 0.5 = -0.65
        (9.0, 0.9, 2, [0, 0, 0, 0, 1]),  # above the support
        (-9.0, 0.9, 4, [1, 0, 0, 0, 0]),  # below it
        (-0.5, 0.0, 4, [0, 1, 0, 0, 0]),  # terminated: only the reward counts
    ],
)
def test_categorical_target_by_hand(reward, discount, atom, expected):
    target = target_of(reward, discount, certain(atom, 0), jnp.array([1.0, 0.0]), SUPPORT)
    np.testing.assert_allclose(target, expected, atol=1e-6)


def test_projection_by_hand():
    """Masses between, on and beyond the atoms, which need not be those of the support."""
    locations, probabilities = jnp.array([-3.0, -0.75, 0.1, 2.0]), jnp.array([0.1, 0.2, 0.3, 0.4])
    # -3 goes to -1; -0.75 to -1 and -0.5 in halves; 0.1 to 0 with 0.8 and to 0.5 with 0.2; 2 to 1.
    expected = [0.1 + 0.1, 0.1, 0.24, 0.06, 0.4]
    np.testing.assert_allclose(project(locations, probabilities, SUPPORT), expected, atol=1e-6)


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
def test_target_agrees_with_atom_by_atom_and_conserves_probability(seed, reward, discount):
    logits = np.random.default_rng(seed).normal(size=(2, 5)).astype(np.float32)
    probabilities = np.exp(logits[1]) / np.exp(logits[1]).sum()
    target = np.asarray(target_of(reward, discount, jnp.asarray(logits), jnp.array([0.0, 1.0]), SUPPORT))
    np.testing.assert_allclose(target, naive_projection(probabilities, reward, discount), atol=1e-5)
    assert target.sum() == pytest.approx(1.0, abs=1e-5) and target.min() >= 0


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(-0.25, 0.25, width=32), st.floats(0, 0.75, width=32))
def test_projection_preserves_the_mean_inside_the_support(seed, reward, discount):
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(5)).astype(np.float32)
    projected = project(reward + discount * SUPPORT, probabilities, SUPPORT)
    assert projected @ SUPPORT == pytest.approx(float(reward + discount * probabilities @ SUPPORT), abs=1e-5)


@pytest.mark.parametrize("num_actions", [2, losses.FEW_ACTIONS + 1])
def test_categorical_loss_is_a_cross_entropy_of_the_chosen_action(num_actions):
    """All mass on atom 3, to which the outputs give 1/2: -log 1/2; the slope is softmax minus target."""
    probabilities = jnp.full((num_actions, 5), 0.2).at[1].set(jnp.array([0.125, 0.125, 0.125, 0.5, 0.125]))
    target = jax.nn.one_hot(3, 5)
    loss, slope = loss_and_slope(jnp.log(probabilities), 1, target)
    assert loss == pytest.approx(np.log(2), rel=1e-5)
    expected = np.zeros((num_actions, 5))
    expected[1] = np.asarray(probabilities[1] - target)
    np.testing.assert_allclose(slope, expected, atol=1e-6)


def test_selector_chooses_and_the_target_network_evaluates():
    """The selector prefers action 1, the target network action 0: action 1 is evaluated, by the target network."""
    outputs = certain(4, 1)
    for selector, atom in (([0.0, 1.0], 1), ([1.0, 0.0], 4), ([-np.inf, -9.0], 1)):
        target = target_of(0.0, 1.0, outputs, jnp.array(selector), SUPPORT)
        np.testing.assert_allclose(target, jax.nn.one_hot(atom, 5), atol=1e-6)


@pytest.mark.parametrize(
    ("value", "expected", "slope"),
    [
        (1.6, 0.5 * 0.4**2, -0.4),
        (-1.0, 3 - 0.5, -1.0),  # Huber: linear beyond 1
        (5.0, 3 - 0.5, 1.0),
    ],
)
def test_scalar_huber_by_hand(value, expected, slope):
    """The target is 1 + 0.5 * 2 = 2, from action 1, which the selector chose."""
    target = target_of(1.0, 0.5, jnp.array([[10.0], [2.0]]), jnp.array([0.0, 1.0]), jnp.zeros(1))
    assert target.tolist() == [2.0]
    loss, slopes = loss_and_slope(jnp.array([[7.0], [value]]), 1, target)
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(slopes, [[0.0], [slope]], rtol=1e-5)


@pytest.mark.parametrize("atoms", [1, 5])
def test_targets_receive_no_gradient(atoms):
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(3, atoms)).astype(np.float32)
    support = jnp.linspace(-1.0, 1.0, atoms)

    def target(outputs, selector):
        return jnp.sum(losses.td_target(0.3, 0.9, outputs, selector, support) * jnp.arange(1.0, atoms + 1))

    slopes = jax.grad(target, argnums=(0, 1))(jnp.asarray(outputs), jnp.array([0.1, 0.2, 0.3]))
    assert all((np.asarray(slope) == 0).all() for slope in slopes)


def test_expected_values():
    outputs = jnp.log(jnp.array([[0.5, 0.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 0.75, 0.25]]))
    np.testing.assert_allclose(ops.expected_values(outputs, SUPPORT), [0.0, 0.625], atol=1e-6)
    np.testing.assert_array_equal(ops.expected_values(jnp.array([[3.0], [-4.0]]), jnp.zeros(1)), [3.0, -4.0])
