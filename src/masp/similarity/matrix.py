"""The similarity of actions: how it starts, what it does to values, and what keeps it a similarity.

S is [A, A], symmetric, with entries in [0, 1] and ones on the diagonal. It acts on values through its row-stochastic
form P (`row`, the default), or as it is (`literal`, the paper's equation; see docs/deviations.md for why not).
Where there are many actions it may be held as factors [A, R] instead (`factored.py`): the shape tells which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.macros.overlap import overlap_matrix
from masp.similarity import factored

Form = Literal["row", "literal"]
Start = Literal["constant", "overlap", "random", "identity"]


def smoothing(similarity: Array, form: Form = "row") -> Array:
    """[A, A] the matrix that smooths values: rows of S divided by their sums, or S itself."""
    if form == "literal":
        return similarity
    return similarity / jnp.sum(similarity, axis=-1, keepdims=True)


def similarity_penalty(q: Array, smoothing: Array) -> Array:
    """How far action values are from their similarity-smoothed copy, eq. (2).

    Args:
      q: [A] action values of one state; receives gradient.
      smoothing: [A, A] from `smoothing`.
    """
    return jnp.sum(jnp.square(q - smoothing @ q))


def is_factored(similarity: Array | np.ndarray) -> bool:
    """Whether these are factors [A, R] rather than the matrix; R is below A."""
    return similarity.shape[0] != similarity.shape[1]


def as_matrix(similarity: Array | np.ndarray) -> Array:
    """[A, A] whichever way it is held."""
    held = jnp.asarray(similarity)
    return factored.matrix(held) if is_factored(held) else held


def batch_penalty(q: Array, similarity: Array, form: Form) -> Array:
    """[] the mean of `similarity_penalty` over values [B, A], as one product."""
    if is_factored(similarity):
        smoothed = factored.smooth(similarity, q, form == "row")
    else:
        smoothed = q @ smoothing(similarity, form).T
    return jnp.mean(jnp.sum(jnp.square(q - smoothed), axis=1))


def state_penalty(q: Array, alike: Array) -> Array:
    """[] the mean of `similarity_penalty` over values [B, A], each state with a similarity [B, A, A] of its own."""
    return jnp.mean(jax.vmap(similarity_penalty)(q, smoothing(alike)))


def project(similarity: Array) -> Array:
    """The nearest thing to `similarity` that is symmetric, in [0, 1] and one on the diagonal (appendix A.2)."""
    if is_factored(similarity):
        return factored.project(similarity)
    symmetric = (similarity + similarity.T) / 2
    return jnp.fill_diagonal(jnp.clip(symmetric, 0.0, 1.0), 1.0, inplace=False)


def row_entropy(similarity: Array) -> Array:
    """[] mean entropy of the rows of P, as a fraction of log A: 0 for the identity, 1 for all ones (appendix A.3).

    Of factors, too, it needs the whole matrix.
    """
    p = smoothing(as_matrix(similarity))
    # x log x has an infinite slope at 0; below 1e-6 it is continued by a line.
    terms = jnp.where(p > 1e-6, -p * jnp.log(jnp.maximum(p, 1e-6)), -p * jnp.log(1e-6))
    return jnp.mean(jnp.sum(terms, axis=-1)) / jnp.log(max(p.shape[-1], 2))


def start(kind: Start, sequences: Sequence[Sequence[int]], value: float, key: Array, rank: int = 0) -> Array:
    """[A, A] the similarity before anything was learned, or factors [A, rank] of it.

    Args:
      kind: `constant`: every pair is `value` alike; `random`: the mean of two draws from [0, 2 * value]; `overlap`:
        normalised longest common subsequence of the primitives, times `value` off the diagonal; `identity`: nothing is
        alike, which the meta-gradient cannot leave (it has the factor I - P): only for frozen use.
      sequences: the primitives of every action.
    """
    count = len(sequences)
    if rank:
        return _start_factored(kind, sequences, value, key, rank)
    if kind == "identity":
        raw = jnp.zeros((count, count))
    elif kind == "constant":
        raw = jnp.full((count, count), value)
    elif kind == "random":
        raw = jax.random.uniform(key, (count, count), maxval=2 * value)
    else:
        raw = jnp.asarray(value * overlap_matrix(sequences), jnp.float32)
    return project(raw)


def _start_factored(kind: Start, sequences: Sequence[Sequence[int]], value: float, key: Array, rank: int) -> Array:
    count = len(sequences)
    if kind == "identity":
        return jnp.zeros((count, rank))
    if kind == "overlap":
        return jnp.asarray(factored.factor(value * overlap_matrix(sequences), rank))
    if kind == "constant":
        return factored.constant(count, rank, value, key)
    # The mean of u_i . u_j is R times the square of the mean entry.
    return factored.project(jax.random.uniform(key, (count, rank), maxval=2 * (value / rank) ** 0.5))


def group_auc(similarity: np.ndarray, groups: np.ndarray) -> float:
    """ROC AUC of telling pairs of the same group [A] from other pairs by their similarity [A, A]; 0.5 is blind."""
    upper = np.triu_indices(len(groups), 1)
    scores = np.asarray(similarity)[upper]
    same = (groups[:, None] == groups[None, :])[upper]
    positives, negatives = int(same.sum()), int((~same).sum())
    if not positives or not negatives:
        raise ValueError("AUC needs pairs of the same group and pairs of different groups")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # tied scores share their mean rank
    return float((ranks[same].sum() - positives * (positives + 1) / 2) / (positives * negatives))
