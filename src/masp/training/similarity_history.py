"""The similarity of a run over training time, small enough to keep: one byte per pair, a bounded number of snapshots.

A snapshot holds the pairs above the diagonal as bytes and their largest value, which 255 stands for. Snapshots are
taken every `stride` rows of the metrics. When the file is full, every second one is dropped and the stride doubles, so
the file is bounded and its snapshots stay evenly spaced. It is replaced whole or not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from masp.errors import UserError
from masp.training import array_file

FORMAT, VERSION = "masp-similarity-history", 1
MOST_SNAPSHOTS = 64
MOST_BYTES = 4_000_000


class Snapshots(NamedTuple):
    """K snapshots of the similarity of A actions, oldest first."""

    frames: np.ndarray  # [K] int64
    scales: np.ndarray  # [K] float32, the value of byte 255
    pairs: np.ndarray  # [K, A (A - 1) / 2] uint8, rows of the upper triangle

    def matrix(self, index: int) -> np.ndarray:
        """[A, A] the similarity of one snapshot; quantised, so off by up to 1/510 of its largest pair."""
        values = self.pairs[index] * np.float32(self.scales[index] / 255)
        count = _num_actions(self.pairs.shape[1])
        similarity = np.eye(count, dtype=np.float32)
        upper = np.triu_indices(count, 1)
        similarity[upper] = similarity[upper[::-1]] = values
        return similarity

    def joined(self, later: Snapshots) -> Snapshots:
        """These and the ones after them."""
        return Snapshots(*(np.concatenate(parts) for parts in zip(self, later, strict=True)))

    def chosen(self, which: np.ndarray | slice) -> Snapshots:
        """Some of the snapshots."""
        return Snapshots(*(part[which] for part in self))


def quantised(frames: int, similarity: np.ndarray) -> Snapshots:
    """One snapshot of a similarity [A, A]."""
    values = np.clip(similarity[np.triu_indices(len(similarity), 1)], 0, 1)
    scale = float(values.max()) if values.size else 0.0
    pairs = np.round(values * (255 / scale)) if scale > 0 else np.zeros_like(values)
    return Snapshots(np.array([frames]), np.array([scale], np.float32), pairs.astype(np.uint8)[None])


class SimilarityHistory:
    """Keeps the history of one run in its file; goes on with the one that is there."""

    def __init__(self, path: Path, num_actions: int, keep_to_frames: int | None):
        """Snapshots after `keep_to_frames` are removed: they are newer than the checkpoint of the run."""
        pairs = num_actions * (num_actions - 1) // 2
        self._path = path
        self._most = int(np.clip(MOST_BYTES // max(pairs, 1), 2, MOST_SNAPSHOTS))
        self._stride = 1
        self._kept = Snapshots(np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros((0, pairs), np.uint8))
        if keep_to_frames is None:
            path.unlink(missing_ok=True)
            return
        try:
            earlier = read_history(path, num_actions)
        except UserError:  # a history that cannot be read is no reason not to train
            earlier = None
        if earlier is not None:
            self._stride = (array_file.read_about(path) or {}).get("stride", 1)
            self._kept = earlier.chosen(earlier.frames <= keep_to_frames)

    def add(self, row: int, frames: int, similarity: np.ndarray) -> None:
        """Keep the similarity [A, A] after so many rows of the metrics, if this row has a snapshot."""
        if row % self._stride or (len(self._kept.frames) and frames <= self._kept.frames[-1]):
            return
        self._kept = self._kept.joined(quantised(frames, similarity))
        if len(self._kept.frames) > self._most:
            self._kept, self._stride = self._kept.chosen(slice(None, None, 2)), 2 * self._stride
        about = {"format": FORMAT, "version": VERSION, "stride": self._stride}
        array_file.save(self._path, self._kept._asdict(), about)


def read_history(path: Path, num_actions: int) -> Snapshots | None:
    """The history in a file, or a `UserError` that says why it cannot be used; None: there is none."""
    if not path.exists():
        return None
    arrays, about = array_file.read(path)
    if about.get("format") != FORMAT or about.get("version") != VERSION:
        raise UserError(f"{path}: not a history of similarities of version {VERSION}")
    if set(arrays) != set(Snapshots._fields):
        raise UserError(f"{path}: a history of similarities has {', '.join(Snapshots._fields)}")
    history, pairs = Snapshots(**arrays), num_actions * (num_actions - 1) // 2
    count = history.frames.size
    if history.pairs.shape != (count, pairs) or history.scales.shape != (count,) or history.pairs.dtype != np.uint8:
        raise UserError(f"{path}: the history does not fit {num_actions} actions")
    stride = about.get("stride", 1)
    if history.frames.shape != (count,) or history.frames.dtype.kind != "i" or type(stride) is not int or stride < 1:
        raise UserError(f"{path}: the moments of the history are not whole numbers")
    if not np.isfinite(history.scales).all():
        raise UserError(f"{path}: the history has a scale that is not a finite number")
    return history if count else None


def _num_actions(pairs: int) -> int:
    return round((1 + (1 + 8 * pairs) ** 0.5) / 2)
