"""Means of categorical distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.ops import expected_values

SUPPORT = jnp.linspace(-1.0, 1.0, 5)


@pytest.mark.parametrize("forward_mode", [False, True])
def test_by_hand(forward_mode):
    logits = jnp.log(jnp.array([[0.5, 0.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 0.75, 0.25]]))
    np.testing.assert_allclose(expected_values(logits, SUPPORT, forward_mode), [0.0, 0.625], atol=1e-6)


def test_a_single_atom_is_the_value():
    np.testing.assert_array_equal(expected_values(jnp.array([[3.0], [-4.0]]), jnp.zeros(1)), [3.0, -4.0])


def test_both_modes_have_the_same_tangent():
    logits, direction = jax.random.normal(jax.random.PRNGKey(0), (2, 4, 5))
    tangents = [jax.jvp(lambda z: expected_values(z, SUPPORT, mode), (logits,), (direction,))[1] for mode in (0, 1)]
    np.testing.assert_allclose(*tangents, rtol=1e-4, atol=1e-6)
