"""Recorded play in memory: the actions of many episodes in one flat array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from masp.errors import UserError
from masp.macros.recording import MAX_ACTIONS

UNKNOWN = -1
"""Value in `Episodes.success` if the recording does not say whether the episode succeeded."""


@dataclass(frozen=True)
class Episodes:
    """E episodes with N actions in total, stored one after the other."""

    actions: np.ndarray
    """[N] in the smallest unsigned type that holds them, so that 50 million actions take 50 MB."""
    lengths: np.ndarray
    """[E] int64, number of actions of each episode; they sum to N."""
    scores: np.ndarray
    """[E] float64, the return of each episode; NaN where unknown."""
    success: np.ndarray
    """[E] int8, 1 or 0, or `UNKNOWN`."""

    @property
    def count(self) -> int:
        """E, the number of episodes."""
        return len(self.lengths)

    @property
    def starts(self) -> np.ndarray:
        """[E] where each episode begins in `actions`."""
        return np.cumsum(self.lengths) - self.lengths

    @classmethod
    def of(
        cls,
        episodes: Iterable[Sequence[int] | np.ndarray],
        scores: Sequence[float] | None = None,
        success: Sequence[int] | None = None,
    ) -> Episodes:
        """From one sequence of actions per episode."""
        arrays = [np.asarray(episode) for episode in episodes]
        for i, array in enumerate(arrays):
            if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
                actual = f"{array.dtype} {array.shape}"
                raise UserError(f"episode {i}: expected a flat sequence of integer actions, got {actual}")
            if array.size and array.min() < 0:
                raise UserError(f"episode {i}: action {array.min()} is negative; actions count from 0")
            if array.size and array.max() >= MAX_ACTIONS:
                raise UserError(
                    f"episode {i}: action {array.max()} is larger than {MAX_ACTIONS - 1}; are these actions?"
                )
        lengths = np.array([len(array) for array in arrays], np.int64)
        small = [array.astype(np.min_scalar_type(int(array.max(initial=0))), copy=False) for array in arrays]
        return cls(
            np.concatenate([np.zeros(0, np.uint8), *small]),
            lengths,
            np.full(len(arrays), np.nan) if scores is None else np.asarray(scores, np.float64),
            np.full(len(arrays), UNKNOWN, np.int8) if success is None else np.asarray(success, np.int8),
        )

    @classmethod
    def joined(cls, parts: Sequence[Episodes]) -> Episodes:
        """All episodes of `parts`, in order."""
        if not parts:
            return cls.of([])
        names = ("actions", "lengths", "scores", "success")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def take(self, keep: np.ndarray) -> Episodes:
        """The episodes where `keep` [E] is true."""
        if keep.all():
            return self
        rows = np.repeat(keep, self.lengths)
        return Episodes(self.actions[rows], self.lengths[keep], self.scores[keep], self.success[keep])

    def every(self, stride: int) -> Episodes:
        """Every `stride`-th action of each episode, its first one included."""
        if stride == 1:
            return self
        position = np.arange(len(self.actions)) - np.repeat(self.starts, self.lengths)
        lengths = -(-self.lengths // stride)
        return Episodes(self.actions[position % stride == 0], lengths, self.scores, self.success)
