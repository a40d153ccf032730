"""Factors of the similarity against the matrix that they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from masp.similarity import factored
from masp.similarity.matrix import as_matrix, batch_penalty, smoothing

A, R = 6, 3
raw_factors = hnp.arrays(np.float32, (A, R), elements=st.floats(0, 2, width=32))
jit_project, jit_matrix = jax.jit(factored.inside_unit_ball), jax.jit(factored.matrix)


@settings(max_examples=100, deadline=None)
@given(raw_factors)
def test_projected_factors_make_a_similarity(raw):
    found = jit_project(raw)
    matrix = np.asarray(jit_matrix(found))
    assert np.asarray(found).min() >= 0
    assert matrix.min() >= 0 and matrix.max() <= 1 + 1e-6
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-7)
    assert (np.diag(matrix) == 1).all()
    np.testing.assert_allclose(jit_project(found), found, atol=1e-6)


@pytest.mark.parametrize("form", ["mean", "sum", "literal"])
def test_penalty_equals_that_of_the_matrix(form):
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        factors = factored.inside_unit_ball(jnp.asarray(rng.uniform(0, 0.8, (A, R))))
        q = jnp.asarray(rng.normal(size=(4, A)))
        p = smoothing(as_matrix(factors), form)
        expected = np.mean([jnp.square(values - p @ values).sum() for values in q]) / (A if form == "mean" else 1)
        np.testing.assert_allclose(batch_penalty(q, factors, form), expected, rtol=1e-12)
        np.testing.assert_allclose(factored.smooth(factors, q, form != "literal"), q @ p.T, rtol=1e-12)
        # ... and so does its slope, by the chain rule through the matrix.
        slope = jax.grad(lambda u: batch_penalty(q, u, form))(factors)
        of_matrix = jax.grad(lambda s: batch_penalty(q, s, form))(as_matrix(factors))
        off = np.where(np.eye(A, dtype=bool), 0.0, of_matrix)
        np.testing.assert_allclose(slope, (off + off.T) @ factors, rtol=1e-10)
