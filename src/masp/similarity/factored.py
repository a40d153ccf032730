"""A similarity of low rank: S = U U^T off the diagonal, ones on it, with U [A, R] non-negative.

Symmetric by construction; rows of U no longer than one keep every entry in [0, 1]. Nothing of size A x A is built to
smooth values, so time and memory grow linearly with the number of actions: the paper's matrix grows with its square.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def smooth(factors: Array, q: Array, by_row: bool = True) -> Array:
    """[..., A] P q for values [..., A], without P: what `similarity.smoothing(matrix(factors)) @ q` gives."""
    own = 1.0 - jnp.sum(jnp.square(factors), axis=1)  # the diagonal is one, not |u|^2
    smoothed = q * own + (q @ factors) @ factors.T
    return smoothed / (own + factors @ jnp.sum(factors, axis=0)) if by_row else smoothed


def inside_unit_ball(rows: Array) -> Array:
    """[A, R] non-negative rows, those longer than one shortened to one."""
    return rows / jnp.sqrt(jnp.maximum(jnp.sum(jnp.square(rows), axis=1, keepdims=True), 1.0))


def matrix(factors: Array) -> Array:
    """[A, A] the similarity itself, to look at."""
    return jnp.fill_diagonal(factors @ factors.T, 1.0, inplace=False)
