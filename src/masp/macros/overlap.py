"""Overlap of macros: the normalised length of their longest common subsequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_ROWS_PER_BLOCK = 256  # bounds memory: one block holds (longest + 1) arrays of [256, A]


def overlap_matrix(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """[A, A] float64: LCS(a, b) / max(len(a), len(b)); symmetric, in [0, 1], ones on the diagonal.

    The longest common subsequence keeps the order of actions but may skip some, so shifted copies of one
    pattern (`R R U U`, `R U U U`) have a high overlap. One vectorised dynamic programme computes all pairs.
    """
    if any(len(sequence) == 0 for sequence in sequences):
        raise ValueError("cannot compute the overlap of an empty sequence")
    if not len(sequences):
        return np.zeros((0, 0))
    lengths = np.array([len(sequence) for sequence in sequences])
    padded = np.full((len(sequences), int(lengths.max())), -1, np.int64)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    symbols = np.unique(padded, return_inverse=True)[1].reshape(padded.shape).astype(np.int32)
    symbols[padded < 0] = -1
    blocks = range(0, len(sequences), _ROWS_PER_BLOCK)
    common = np.concatenate([_common_lengths(symbols[i : i + _ROWS_PER_BLOCK], symbols) for i in blocks])
    return common / np.maximum(lengths[:, None], lengths[None, :])


def _common_lengths(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """[B, A] longest common subsequences of the rows of [B, L] with those of [A, L], padded with -1."""
    right = np.where(right < 0, -2, right)  # padding never equals padding
    length = left.shape[1]
    dtype = np.int8 if length < 128 else np.int32
    # best[j] = LCS of the first i symbols on the left with the first j on the right, [B, A] each
    best = [np.zeros((len(left), len(right)), dtype) for _ in range(length + 1)]
    for i in range(length):
        diagonal = best[0]
        for j in range(length):
            above = best[j + 1]
            equal = left[:, i, None] == right[None, :, j]
            best[j + 1] = np.maximum(np.maximum(above, best[j]), diagonal + equal.astype(dtype))
            diagonal = above
    return best[length]
