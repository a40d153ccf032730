"""The similarity of actions: how it starts, how it smooths action values, and the projection that keeps it valid.

S is [A, A], symmetric, with entries in [0, 1] and ones on the diagonal. It acts on values through its row-stochastic
form P, except in the paper's `literal` equation (docs/deviations.md says why that one collapses). With many actions, S
may be held as factors [A, R] instead (`factored.py`); the shape tells which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.errors import UserError
from masp.similarity import factored
from masp.similarity.starts import mean_entry, starting_matrix

Form = Literal["mean", "sum", "literal"]
Start = Literal["constant", "overlap", "random", "identity"]


def smoothing(similarity: Array, form: Form = "mean") -> Array:
    """[A, A] the matrix that smooths values: S with rows that sum to one, or S itself for `literal`."""
    if form == "literal":
        return similarity
    return similarity / jnp.sum(similarity, axis=-1, keepdims=True)


def similarity_penalty(q: Array, similarity: Array, literal: bool = False) -> Array:
    """How far action values are from their similarity-smoothed copy, eq. (2), summed over actions.

    Examples:
      >>> round(float(similarity_penalty([1.0, 3.0], [[1.0, 0.5], [0.5, 1.0]])), 4)  # (1 - 5/3)^2 + (3 - 7/3)^2
      0.8889

    Args:
      q: [A] action values of one state; receives gradient.
      similarity: [A, A] similarities, such as `run.similarity`. Its rows are divided by their sums, so a matrix whose
        rows sum to one already counts as it is.
      literal: whether to leave the rows as they are, the paper's equation as printed (docs/deviations.md).
    """
    q, similarity = jnp.asarray(q), jnp.asarray(similarity)
    if q.ndim != 1 or similarity.shape != 2 * q.shape:
        raise UserError(
            f"expected values [A] of one state and a similarity [A, A], got shapes {list(q.shape)} and "
            f"{list(similarity.shape)}; jax.vmap goes over the states of a batch"
        )
    return jnp.sum(jnp.square(q - smoothing(similarity, "literal" if literal else "sum") @ q))


def batch_penalty(q: Array, similarity: Array, form: Form) -> Array:
    """[] mean over the batch of the penalty of values [B, A]; `similarity` is [A, A], [B, A, A] or factors [A, R]."""
    if similarity.ndim == 2 and is_factored(similarity):
        smoothed = factored.smooth(similarity, q, form != "literal")
    elif similarity.ndim == 2:
        smoothed = q @ smoothing(similarity, form).T
    else:
        smoothed = jnp.einsum("bac,bc->ba", smoothing(similarity, form), q)
    penalties = jnp.sum(jnp.square(q - smoothed), axis=1)  # [B]
    return jnp.mean(penalties) / (q.shape[1] if form == "mean" else 1)


def is_factored(similarity: Array | np.ndarray) -> bool:
    """Whether these are factors [A, R] rather than the matrix; R is below A."""
    return similarity.shape[0] != similarity.shape[1]


def as_matrix(similarity: Array | np.ndarray) -> Array | np.ndarray:
    """[A, A] the similarity, from the matrix itself or from its factors."""
    return factored.matrix(jnp.asarray(similarity)) if is_factored(similarity) else similarity


def project(similarity: Array) -> Array:
    """The nearest similarity that is symmetric, in [0, 1] and one on the diagonal (appendix A.2)."""
    symmetric = (similarity + similarity.T) / 2
    return jnp.fill_diagonal(jnp.clip(symmetric, 0.0, 1.0), 1.0, inplace=False)


def row_entropy(similarity: Array) -> Array:
    """[] mean entropy of the rows of P, as a fraction of log A: 0 for the identity, 1 for all ones (appendix A.3)."""
    p = smoothing(jnp.asarray(as_matrix(similarity)))
    # x log x has an infinite slope at 0; below 1e-6 it is continued by a line.
    terms = jnp.where(p > 1e-6, -p * jnp.log(jnp.maximum(p, 1e-6)), -p * jnp.log(1e-6))
    return jnp.mean(jnp.sum(terms, axis=-1)) / jnp.log(max(p.shape[-1], 2))


def start(kind: Start, sequences: Sequence[Sequence[int]], key: Array) -> Array:
    """[A, A] the similarity before anything was learned.

    Args:
      kind: `constant`: all pairs are equally similar, each row sums to one plus `starts.START_MASS`; `random`: entries
        drawn uniformly with that mean; `overlap`: normalised longest common subsequence of the primitives; `identity`:
        no pair is similar, which the meta-gradient cannot leave (it has the factor I - P): only for frozen use.
      sequences: the primitives of every action.
    """
    count = len(sequences)
    mean = mean_entry(count)
    if kind == "random":
        return project(jax.random.uniform(key, (count, count), maxval=2 * mean))
    return starting_matrix(kind, sequences).astype(np.float32)  # type: ignore[return-value]


def group_auc(similarity: np.ndarray, groups: np.ndarray) -> float:
    """ROC AUC of telling pairs of the same group [A] from other pairs by their similarity [A, A]; 0.5 is chance."""
    upper = np.triu_indices(len(groups), 1)
    scores = np.asarray(similarity)[upper]
    same = (groups[:, None] == groups[None, :])[upper]
    positives, negatives = int(same.sum()), int((~same).sum())
    if not positives or not negatives:
        raise ValueError("AUC needs pairs of the same group and pairs of different groups")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # tied scores share their mean rank
    return float((ranks[same].sum() - positives * (positives + 1) / 2) / (positives * negatives))
