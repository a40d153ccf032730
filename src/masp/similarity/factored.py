"""A similarity of low rank: S = U U^T off the diagonal, ones on it, with U [A, R] non-negative.

Symmetric by construction; rows of U no longer than one keep every entry in [0, 1]. Nothing of size A x A is built to
smooth values, so time and memory grow linearly with the number of actions: the paper's matrix grows with its square.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def smooth(factors: Array, q: Array, by_row: bool = True) -> Array:
    """[..., A] P q for values [..., A], without P: what `similarity.smoothing(matrix(factors)) @ q` gives."""
    own = 1.0 - jnp.sum(jnp.square(factors), axis=1)  # the diagonal is one, not |u|^2
    smoothed = q * own + (q @ factors) @ factors.T
    return smoothed / (own + factors @ jnp.sum(factors, axis=0)) if by_row else smoothed


def project(factors: Array) -> Array:
    """The nearest factors that are not negative and whose rows are not longer than one."""
    positive = jnp.maximum(factors, 0.0)
    squared = jnp.sum(jnp.square(positive), axis=1, keepdims=True)
    return positive / jnp.sqrt(jnp.maximum(squared, 1.0))


def matrix(factors: Array) -> Array:
    """[A, A] the similarity itself, to look at."""
    return jnp.fill_diagonal(factors @ factors.T, 1.0, inplace=False)


def constant(count: int, rank: int, value: float, key: Array) -> Array:
    """[A, R] every pair about `value` alike; not exactly, because equal columns of U would stay equal for ever."""
    directions = jax.random.uniform(key, (count, rank), minval=0.5, maxval=1.5)
    return value**0.5 * directions / jnp.linalg.norm(directions, axis=1, keepdims=True)


def factor(similarity: np.ndarray, rank: int, seed: int = 0, rounds: int = 300) -> np.ndarray:
    """[A, R] factors near a similarity [A, A], its diagonal left out.

    Multiplicative updates of symmetric non-negative factorisation (Ding, He & Simon 2005), which never leave the
    non-negative numbers; the diagonal is taken to be whatever U U^T has there.
    """
    target = np.array(similarity, np.float64)
    mean = target[~np.eye(len(target), dtype=bool)].mean() if len(target) > 1 else 0.0
    u = np.random.default_rng(seed).uniform(0.5, 1.5, (len(target), rank)) * np.sqrt(max(mean, 1e-6) / rank)
    for _ in range(rounds):
        np.fill_diagonal(target, np.sum(u * u, axis=1))
        u *= 0.5 + 0.5 * (target @ u) / np.maximum(u @ (u.T @ u), 1e-12)
    return np.asarray(project(jnp.asarray(u, jnp.float32)))
