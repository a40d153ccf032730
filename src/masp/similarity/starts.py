"""Similarities to start from that need no random numbers, in NumPy: JAX and PyTorch begin with the same ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masp.macros.overlap import overlap_matrix

START_MASS = 1.0
"""Sum of the off-diagonal entries of a row of the `constant` start: an action then is as similar to all others together
as to itself, however many there are."""


def mean_entry(count: int) -> float:
    """The off-diagonal entries of the `constant` start of so many actions."""
    return min(START_MASS / max(count - 1, 1), 0.5)


def starting_matrix(kind: str, sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """[A, A] for `constant`, `overlap` or `identity`; `sequences` are the primitives of every action."""
    count = len(sequences)
    if kind == "overlap":
        return overlap_matrix(sequences)
    return np.where(np.eye(count, dtype=bool), 1.0, mean_entry(count) if kind == "constant" else 0.0)
