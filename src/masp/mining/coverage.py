"""Which rows of play a macro set can reproduce: a row is covered if it lies in an occurrence of some macro."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masp.mining.windows import Alphabet

_WINDOWS_PER_CHUNK = 1 << 20


class CoverageIndex:
    """Where every sequence occurs, and which rows the chosen ones have covered so far.

    Positions are kept in the order of the windows that start there (a suffix array cut at the longest length), so
    the occurrences of any sequence are one slice.
    """

    def __init__(self, alphabet: Alphabet, stream: np.ndarray, skip_constant: bool):
        """`skip_constant` leaves out constant windows, most of run-heavy play; ask for no constant run then."""
        self._alphabet = alphabet
        keys, positions = _windows(alphabet, stream, skip_constant)
        order = np.argsort(keys)
        self._keys, self._positions = keys[order], positions[order]
        self._uncovered = stream != 0
        self._all = self._uncovered.copy()
        self._count_uncovered()

    def gain(self, key: int, length: int) -> int:
        """How many rows this sequence would cover that are not covered yet."""
        at = self._occurrences(key, length)
        if not len(at):
            return 0
        ends = at + length
        starts = at.copy()
        np.maximum(starts[1:], ends[:-1], out=starts[1:])  # overlapping occurrences count once
        return int((self._before[ends] - self._before[starts]).sum())

    def cover(self, key: int, length: int) -> None:
        """Mark all rows of this sequence as covered."""
        at = self._occurrences(key, length)
        for offset in range(length):
            self._uncovered[at + offset] = False
        self._count_uncovered()

    def forget(self) -> None:
        """Mark all rows as not covered."""
        self._uncovered[:] = self._all
        self._count_uncovered()

    def _occurrences(self, key: int, length: int) -> np.ndarray:
        """Positions where the sequence starts, ascending."""
        low, high = self._alphabet.window_range(key, length)
        start = np.searchsorted(self._keys, low, side="left")
        stop = np.searchsorted(self._keys, high, side="right")
        return np.sort(self._positions[start:stop])

    def _count_uncovered(self) -> None:
        """`_before[i]` = uncovered rows before position i."""
        dtype = np.int32 if len(self._uncovered) < 2**31 else np.int64
        self._before = np.zeros(len(self._uncovered) + 1, dtype)
        np.cumsum(self._uncovered, out=self._before[1:])


def measure(alphabet: Alphabet, stream: np.ndarray, sequences: Sequence[tuple[int, ...]]) -> tuple[float, float]:
    """(share of rows covered, share of action changes covered) by a set of sequences.

    A change is a pair of neighbouring rows with different actions; it is covered if both lie in one occurrence.
    Constant runs cover rows but never a change.
    """
    rows = np.zeros(len(stream), bool)
    pairs = np.zeros(len(stream), bool)  # pairs[i]: rows i and i + 1 lie in one occurrence
    known = [s for s in sequences if np.isin(s, alphabet.actions).all()]
    for length in {len(s) for s in known}:
        shorter = Alphabet(alphabet.actions, length)
        wanted = np.array(sorted({shorter.pack(s) for s in known if len(s) == length}), shorter.key_type)
        for start in range(0, len(stream), _WINDOWS_PER_CHUNK):
            keys = shorter.keys(stream[start : start + _WINDOWS_PER_CHUNK + length - 1])
            at = start + np.flatnonzero(np.isin(keys, wanted))
            for offset in range(length):
                rows[at + offset] = True
                if offset < length - 1:
                    pairs[at + offset] = True
    changes = (stream[1:] != stream[:-1]) & (stream[1:] != 0) & (stream[:-1] != 0)
    return _share(rows, stream != 0), _share(pairs[:-1], changes)


def _windows(alphabet: Alphabet, stream: np.ndarray, skip_constant: bool) -> tuple[np.ndarray, np.ndarray]:
    """Packed windows that start in an episode, and where."""
    dtype = np.int32 if len(stream) < 2**31 else np.int64
    keys, positions = [np.zeros(0, alphabet.key_type)], [np.zeros(0, dtype)]
    for start in range(0, len(stream), _WINDOWS_PER_CHUNK):
        chunk = alphabet.keys(stream[start : start + _WINDOWS_PER_CHUNK + alphabet.length - 1])
        keep = stream[start : start + len(chunk)] != 0
        if skip_constant and len(chunk) > 1:
            keep[:-1] &= chunk[:-1] != chunk[1:]  # equal to its own shift: constant
        at = np.flatnonzero(keep)
        keys.append(chunk[at])
        positions.append((start + at).astype(dtype))
    return np.concatenate(keys), np.concatenate(positions)


def _share(part: np.ndarray, whole: np.ndarray) -> float:
    """How much of `whole` also lies in `part`."""
    return float((part & whole).sum() / whole.sum()) if whole.any() else 0.0
