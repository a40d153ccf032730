"""Which rows of play a macro set can reproduce: a row is covered if it lies in an occurrence of some macro."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masp.macros.mining.occurrences import Occurrences
from masp.macros.mining.windows import Alphabet

_WINDOWS_PER_CHUNK = 1 << 20


class Coverage:
    """Which rows are covered so far, and how many more a sequence would add.

    Rows are bits: what an occurrence adds is the number of bits that are still set in its part of a word.
    """

    def __init__(self, alphabet: Alphabet, stream: np.ndarray, occurrences: Occurrences, ignore: int | None = None):
        """Nothing is covered; rows of the action `ignore` do not count as play to cover."""
        self._occurrences, self._length = occurrences, alphabet.length
        self._play = stream != 0
        if ignore is not None and ignore in alphabet.actions:
            self._play &= stream != alphabet.pack((ignore,))
        # A word begins at every eighth row, so an occurrence may begin 7 bits into it.
        bits = next(bits for bits in (16, 32, 64) if bits >= alphabet.length + 7)
        self._type = np.dtype(f"uint{bits}").type
        # _lowest[n]: the lowest n bits
        self._lowest = np.array([(1 << n) - 1 for n in range(alphabet.length + 1)], self._type)
        self.forget()

    def gains(self, sequences: Sequence[tuple[int, int]]) -> list[int]:
        """How many rows each (packed sequence, length) would cover that are not covered yet; each must occur."""
        found = self._occurrences.find(sequences)
        sizes = [len(at) for at in found]
        ends = np.cumsum(sizes)
        at = np.concatenate(found)
        rows = np.repeat(self._lowest[[length for _, length in sequences]], sizes)
        to_next = at[1:] - at[:-1]
        to_next[ends[:-1] - 1] = self._length  # another sequence follows
        close = np.flatnonzero(to_next < self._length)
        rows[close] &= self._lowest[to_next[close]]  # rows of overlapping occurrences count once
        rows &= self._words[at >> 3] >> (at & 7).astype(self._type)
        added = np.cumsum(np.bitwise_count(rows), dtype=np.int64)
        return np.diff(added[ends - 1], prepend=0).tolist()

    def cover(self, key: int, length: int) -> None:
        """Mark all rows of this sequence as covered."""
        (at,) = self._occurrences.find([(key, length)])
        for offset in range(length):
            self._uncovered[at + offset] = False
        self._pack()

    def forget(self) -> None:
        """Mark all rows as not covered."""
        self._uncovered = self._play.copy()
        self._pack()

    def _pack(self) -> None:
        packed = np.packbits(self._uncovered, bitorder="little").astype(self._type)
        self._words = packed.copy()
        for byte in range(1, self._words.itemsize):
            self._words[:-byte] |= packed[byte:] * self._type(1 << 8 * byte)


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


def _share(part: np.ndarray, whole: np.ndarray) -> float:
    """How much of `whole` also lies in `part`."""
    return float((part & whole).sum() / whole.sum()) if whole.any() else 0.0
