"""Which rows of play a macro set can reproduce: a row is covered if it lies in an occurrence of some macro."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masp.mining.windows import Alphabet

_WINDOWS_PER_CHUNK = 1 << 20


class CoverageIndex:
    """Where every sequence occurs, and which rows the chosen ones have covered so far.

    Positions are kept in the order of the windows that start there (a suffix array cut at the longest length), so
    the occurrences of any sequence are one slice. Each chunk of play has its own, which keeps the sort linear.
    """

    def __init__(self, alphabet: Alphabet, stream: np.ndarray, skip_constant: bool, ignore: int | None = None):
        """Index all of `stream`.

        Args:
          alphabet: how windows are packed.
          stream: symbols.
          skip_constant: leave out constant windows, most of run-heavy play; ask for no constant run then.
          ignore: an action whose rows do not count as play to cover.
        """
        self._alphabet = alphabet
        self._chunks = [
            _sorted_chunk(alphabet, stream, start, skip_constant) for start in range(0, len(stream), _WINDOWS_PER_CHUNK)
        ]
        self._all = stream != 0
        if ignore is not None and ignore in alphabet.actions:
            self._all &= stream != alphabet.pack((ignore,))
        # _before[i]: rows not covered before position i
        self._before = np.zeros(len(stream) + 1, np.int32 if len(stream) < 2**31 else np.int64)
        self.forget()

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
        np.cumsum(self._uncovered, out=self._before[1:])

    def forget(self) -> None:
        """Mark all rows as not covered."""
        self._uncovered = self._all.copy()
        np.cumsum(self._uncovered, out=self._before[1:])

    def _occurrences(self, key: int, length: int) -> np.ndarray:
        """Positions where the sequence starts, ascending."""
        low, high = self._alphabet.window_range(key, length)
        found = [np.zeros(0, np.int64)]
        for keys, positions in self._chunks:
            start = np.searchsorted(keys, low, side="left")
            stop = np.searchsorted(keys, high, side="right")
            if stop > start:
                found.append(np.sort(positions[start:stop]))
        return np.concatenate(found)


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


def _sorted_chunk(
    alphabet: Alphabet, stream: np.ndarray, start: int, skip_constant: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Packed windows that start in this chunk and in an episode, ascending, and where each starts."""
    keys = alphabet.keys(stream[start : start + _WINDOWS_PER_CHUNK + alphabet.length - 1])
    keep = stream[start : start + len(keys)] != 0
    if skip_constant and len(keys) > 1:
        keep[:-1] &= keys[:-1] != keys[1:]  # equal to its own shift: constant
    at = np.flatnonzero(keep)
    keys = keys[at]
    order = np.argsort(keys)
    positions = (start + at[order]).astype(np.int32 if len(stream) < 2**31 else np.int64)
    return keys[order], positions


def _share(part: np.ndarray, whole: np.ndarray) -> float:
    """How much of `whole` also lies in `part`."""
    return float((part & whole).sum() / whole.sum()) if whole.any() else 0.0
