"""Coverage of play by macros: a row (one step of play) is covered if it lies in an occurrence of some macro.

`Occurrences` finds the positions of any sequence, `Coverage` computes how many rows a further macro would cover, and
`covered_shares` measures a finished set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masp.macros.mining.counting import Alphabet, CountTable, merge, run_starts

_ROWS_PER_CHUNK = 1 << 20
_POSITION_BITS = 20  # hold a position inside a chunk


@dataclass(frozen=True)
class _Chunk:
    """The windows that start in one part of a stream."""

    keys: np.ndarray  # [U] distinct windows, ascending
    starts: np.ndarray  # [U + 1] where the positions of each window begin
    positions: np.ndarray  # [M] ascending within a window


class Occurrences:
    """An index from sequences to the positions where they start.

    A suffix array cut at the longest length, in chunks, so that sorting stays linear: the occurrences of a sequence
    are one slice of each chunk.
    """

    def __init__(self, alphabet: Alphabet, stream: np.ndarray, skip_constant: bool):
        """Index `stream`; `skip_constant` omits constant windows, which are most of play with long runs."""
        self._alphabet = alphabet
        self._chunks = [
            _index_chunk(alphabet, stream, start, skip_constant) for start in range(0, len(stream), _ROWS_PER_CHUNK)
        ]

    @property
    def table(self) -> CountTable:
        """The result of `count_windows`, except for constant windows if they are omitted.

        It gives the counts of all shorter sequences too, unless they are constant.
        """
        return merge([CountTable(chunk.keys, np.diff(chunk.starts)) for chunk in self._chunks], self._alphabet)

    def find(self, sequences: Sequence[tuple[int, int]]) -> list[np.ndarray]:
        """For each (packed sequence, length) the positions where it starts, ascending."""
        lengths = [length for _, length in sequences]
        ranges = [self._alphabet.window_range(key, length) for key, length in sequences]
        lowest, highest = np.array(ranges, self._alphabet.key_type).T
        parts = [self._find_in(chunk, lowest, highest, lengths) for chunk in self._chunks]
        return parts[0] if len(parts) == 1 else [np.concatenate(positions) for positions in zip(*parts, strict=True)]

    def _find_in(self, chunk: _Chunk, lowest: np.ndarray, highest: np.ndarray, lengths: list[int]) -> list[np.ndarray]:
        firsts = chunk.starts[chunk.keys.searchsorted(lowest, side="left")].tolist()
        lasts = chunk.starts[chunk.keys.searchsorted(highest, side="right")].tolist()
        slices = [chunk.positions[first:last] for first, last in zip(firsts, lasts, strict=True)]
        # A sequence of the longest length is a single window, whose positions are sorted already.
        return [
            positions if length == self._alphabet.length else np.sort(positions)
            for positions, length in zip(slices, lengths, strict=True)
        ]


def _index_chunk(alphabet: Alphabet, stream: np.ndarray, start: int, skip_constant: bool) -> _Chunk:
    """Index the windows that start in this chunk and inside an episode."""
    keys = alphabet.keys(stream[start : start + _ROWS_PER_CHUNK + alphabet.length - 1])
    keep = stream[start : start + len(keys)] != 0
    if skip_constant and len(keys) > 1:
        keep[:-1] &= keys[:-1] != keys[1:]  # a window that equals the next one is constant
    offsets = np.flatnonzero(keep)
    keys = keys[offsets]
    if alphabet.base**alphabet.length <= 1 << (64 - _POSITION_BITS):
        # Window and offset in one integer: sorting integers is several times faster than an argsort.
        both = np.sort((keys.astype(np.uint64) << np.uint64(_POSITION_BITS)) | offsets.astype(np.uint64))
        keys = (both >> np.uint64(_POSITION_BITS)).astype(alphabet.key_type)
        offsets = (both & np.uint64((1 << _POSITION_BITS) - 1)).astype(np.int64)
    else:
        order = np.argsort(keys, kind="stable")
        keys, offsets = keys[order], offsets[order]
    firsts = run_starts(keys)
    positions = (start + offsets).astype(np.int32 if len(stream) < 2**31 else np.int64)
    return _Chunk(keys[firsts], np.append(firsts, len(keys)), positions)


class Coverage:
    """The rows covered so far, and how many more a sequence would cover.

    Rows that are not covered are set bits of overlapping words: an occurrence adds as many rows as bits are set in
    its part of a word.
    """

    def __init__(self, alphabet: Alphabet, stream: np.ndarray, occurrences: Occurrences, ignore: int | None = None):
        """No row is covered; rows of the action `ignore` never count."""
        self._occurrences, self._length = occurrences, alphabet.length
        self._countable = stream != 0
        if ignore is not None and ignore in alphabet.actions:
            self._countable &= stream != alphabet.pack((ignore,))
        # A word begins at every eighth row, so an occurrence may begin up to 7 bits into it.
        bits = next(bits for bits in (16, 32, 64) if bits >= alphabet.length + 7)
        self._type = np.dtype(f"uint{bits}").type
        # _low_bits[n] has the lowest n bits set.
        self._low_bits = np.array([(1 << n) - 1 for n in range(alphabet.length + 1)], self._type)
        self.reset()

    def gains(self, sequences: Sequence[tuple[int, int]]) -> list[int]:
        """How many more rows each (packed sequence, length) would cover; each must occur."""
        position_lists = self._occurrences.find(sequences)
        sizes = [len(positions) for positions in position_lists]
        ends = np.cumsum(sizes)
        positions = np.concatenate(position_lists)
        rows = np.repeat(self._low_bits[[length for _, length in sequences]], sizes)
        to_next = positions[1:] - positions[:-1]
        to_next[ends[:-1] - 1] = self._length  # the next position belongs to another sequence
        overlapping = np.flatnonzero(to_next < self._length)
        rows[overlapping] &= self._low_bits[to_next[overlapping]]  # count rows of overlapping occurrences once
        rows &= self._words[positions >> 3] >> (positions & 7).astype(self._type)
        cumulative = np.cumsum(np.bitwise_count(rows), dtype=np.int64)
        return np.diff(cumulative[ends - 1], prepend=0).tolist()

    def cover(self, key: int, length: int) -> None:
        """Mark all rows of this sequence as covered."""
        (positions,) = self._occurrences.find([(key, length)])
        for offset in range(length):
            self._uncovered[positions + offset] = False
        self._pack()

    def reset(self) -> None:
        """Mark all rows as not covered."""
        self._uncovered = self._countable.copy()
        self._pack()

    def _pack(self) -> None:
        packed = np.packbits(self._uncovered, bitorder="little").astype(self._type)
        self._words = packed.copy()
        for byte in range(1, self._words.itemsize):
            self._words[:-byte] |= packed[byte:] * self._type(1 << 8 * byte)


def covered_shares(alphabet: Alphabet, stream: np.ndarray, sequences: Sequence[tuple[int, ...]]) -> tuple[float, float]:
    """(share of rows covered, share of action changes covered) by a set of sequences.

    A change is a pair of neighbouring rows with different actions; it is covered if both lie in one occurrence.
    Constant runs cover rows but never a change.
    """
    rows = np.zeros(len(stream), bool)
    pairs = np.zeros(len(stream), bool)  # pairs[i]: rows i and i + 1 lie in one occurrence
    occurring = [sequence for sequence in sequences if np.isin(sequence, alphabet.actions).all()]
    for length in {len(sequence) for sequence in occurring}:
        shorter = Alphabet(alphabet.actions, length)
        targets = np.array(sorted({shorter.pack(s) for s in occurring if len(s) == length}), shorter.key_type)
        for start in range(0, len(stream), _ROWS_PER_CHUNK):
            keys = shorter.keys(stream[start : start + _ROWS_PER_CHUNK + length - 1])
            positions = start + np.flatnonzero(np.isin(keys, targets))
            for offset in range(length):
                rows[positions + offset] = True
                if offset < length - 1:
                    pairs[positions + offset] = True
    changes = (stream[1:] != stream[:-1]) & (stream[1:] != 0) & (stream[:-1] != 0)
    return _share(rows, stream != 0), _share(pairs[:-1], changes)


def _share(part: np.ndarray, whole: np.ndarray) -> float:
    """The share of `whole` that also lies in `part`."""
    return float((part & whole).sum() / whole.sum()) if whole.any() else 0.0
