"""Counting all subsequences of recorded play, for a whole range of lengths with one sort.

Play becomes a stream of symbols: the actions that occur, numbered from 1 in ascending order, and 0 in the gap after
each episode. A window of L symbols is packed into the integer whose digits they are, in base (symbols + 1). Therefore

- sorting the integers sorts the sequences;
- dividing by the base drops the last symbol, so the counts of all shorter sequences follow from those of length L;
- the gap is L - 1 symbols wide, so a window that touches it starts or ends in it, and its first or last digit shows
  whether the sequence would cross the end of an episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from masp.errors import UserError
from masp.macros.episodes import Episodes

MAX_LENGTH = 57
"""The longest sequence; longer ones would fit into 64 bits only if a single action occurs."""
_ROWS_PER_CHUNK = 1 << 20


@dataclass(frozen=True)
class Alphabet:
    """The actions that occur, and how windows of them are packed."""

    actions: np.ndarray
    """[S] the actions that occur, ascending; actions[i] is symbol i + 1."""
    length: int
    """L, the length of a window: the longest sequence that is counted."""

    @cached_property
    def base(self) -> int:
        """Number of symbols, the gap included."""
        return len(self.actions) + 1

    @cached_property
    def key_type(self) -> np.dtype:
        """Type of a packed window; 32 bits, where they suffice, sort almost twice as fast as 64."""
        return np.dtype(np.uint32 if self.base**self.length <= 2**32 else np.uint64)

    @classmethod
    def over(cls, sources: list[Episodes], length: int) -> Alphabet:
        """The actions of all sources; raises `UserError` if a window does not fit into 64 bits."""
        occurring = [np.flatnonzero(_occurrence_mask(source.actions)) for source in sources]
        actions = np.unique(np.concatenate(occurring)) if occurring else np.zeros(0, np.int64)
        alphabet = cls(actions, length)
        longest = max(n for n in range(1, MAX_LENGTH + 1) if alphabet.base**n <= 2**64)
        if length > longest:
            raise UserError(
                f"max_length {length} is too long for play with {len(actions)} different actions; "
                f"at most {longest} fit into the 64 bits that a sequence is packed in"
            )
        return alphabet

    def stream(self, episodes: Episodes) -> np.ndarray:
        """[N + gaps] symbols of all episodes, each followed by a gap."""
        dtype = np.min_scalar_type(self.base)
        symbol_of = np.zeros(int(self.actions.max(initial=0)) + 1, dtype)
        symbol_of[self.actions] = np.arange(1, self.base)
        is_dense = len(symbol_of) == len(self.actions)  # then a symbol is its action plus one; no look-up needed
        gap = self.length - 1
        stream = np.zeros(len(episodes.actions) + gap * episodes.count, dtype)
        ends = np.cumsum(episodes.lengths)
        first = 0
        while first < episodes.count:  # one chunk: as many whole episodes as fit, at least one
            row = int(ends[first] - episodes.lengths[first])
            last = max(first + 1, int(np.searchsorted(ends, row + _ROWS_PER_CHUNK, side="right")))
            lengths = episodes.lengths[first:last]
            actions = episodes.actions[row : int(ends[last - 1])]
            symbols = actions.astype(dtype) + dtype.type(1) if is_dense else symbol_of[actions]
            start = row + gap * first
            if last == first + 1:
                stream[start : start + len(symbols)] = symbols
            else:
                stream[start + np.arange(len(symbols)) + gap * np.repeat(np.arange(last - first), lengths)] = symbols
            first = last
        return stream

    def keys(self, stream: np.ndarray) -> np.ndarray:
        """[M] packed windows that start at the first M = len(stream) - L + 1 positions of `stream`."""
        packed: np.ndarray | None = None  # windows of the first `packed_width` symbols
        packed_width = 0
        power, width = stream, 1  # windows of `width` symbols, where width is a power of two
        for bit in bin(self.length)[:1:-1]:  # binary digits of L, lowest first: about 2 log2(L) passes, not L
            if bit == "1":
                packed = power if packed is None else _join(packed, packed_width, power, width, self.base)
                packed_width += width
            if packed_width < self.length:
                power, width = _join(power, width, power, width, self.base), 2 * width
        assert packed is not None
        return packed.astype(self.key_type, copy=False)

    def pack(self, sequence: tuple[int, ...]) -> int:
        """The key of one sequence of actions, all of which must occur."""
        key = 0
        for symbol in np.searchsorted(self.actions, sequence):
            key = key * self.base + int(symbol) + 1
        return key

    def window_range(self, key: int, length: int) -> tuple[np.unsignedinteger, np.unsignedinteger]:
        """The smallest and the largest window of L symbols that begins with a packed sequence."""
        unit = self.base ** (self.length - length)
        dtype = self.key_type.type
        return dtype(key * unit), dtype(key * unit + unit - 1)

    def unpack(self, keys: np.ndarray, length: int) -> np.ndarray:
        """[K, length] actions of packed sequences of one length."""
        digits = np.empty((len(keys), length), np.int64)
        for position in range(length - 1, -1, -1):
            digits[:, position] = keys % self.base
            keys = keys // self.base
        return self.actions[digits - 1]


@dataclass(frozen=True)
class CountTable:
    """The distinct packed sequences of one length, and their counts."""

    keys: np.ndarray
    """[U] ascending."""
    counts: np.ndarray
    """[U] int64, all positive."""

    def count_of(self, alphabet: Alphabet, sequence: tuple[int, ...]) -> int:
        """How often a sequence occurs that is at most as long as the windows in this table."""
        if not np.isin(sequence, alphabet.actions).all():
            return 0
        low, high = alphabet.window_range(alphabet.pack(sequence), len(sequence))
        start = np.searchsorted(self.keys, low, side="left")
        stop = np.searchsorted(self.keys, high, side="right")
        return int(self.counts[start:stop].sum())


def count_windows(alphabet: Alphabet, stream: np.ndarray) -> CountTable:
    """Count the windows of a stream that start inside an episode; they may end in a gap.

    Works in chunks. Tables of similar size are merged, which keeps the cost linear and the memory proportional to the
    number of distinct windows.
    """
    tables: list[CountTable] = []
    for start in range(0, len(stream), _ROWS_PER_CHUNK):
        keys = alphabet.keys(stream[start : start + _ROWS_PER_CHUNK + alphabet.length - 1])
        tables.append(_count_sorted(np.sort(keys), alphabet))
        while len(tables) > 1 and len(tables[-2].keys) <= 2 * len(tables[-1].keys):
            tables[-2:] = [merge(tables[-2:], alphabet)]
    return merge(tables, alphabet)


def merge(tables: list[CountTable], alphabet: Alphabet) -> CountTable:
    """The sum of several tables."""
    if not tables:
        return CountTable(np.zeros(0, alphabet.key_type), np.zeros(0, np.int64))
    if len(tables) == 1:
        return tables[0]
    keys = np.concatenate([table.keys for table in tables])
    order = np.argsort(keys, kind="stable")
    return _sum_equal_keys(keys[order], np.concatenate([table.counts for table in tables])[order])


def by_length(alphabet: Alphabet, table: CountTable, shortest: int) -> Iterator[tuple[int, CountTable]]:
    """(n, counts of the sequences of length n inside one episode), from the longest length to the shortest.

    Every occurrence of a short sequence is the beginning of exactly one window of length L, so dropping last
    digits and adding counts gives all lengths.
    """
    base = alphabet.key_type.type(alphabet.base)
    for length in range(alphabet.length, shortest - 1, -1):
        inside = table.keys % base != 0
        yield length, CountTable(table.keys[inside], table.counts[inside])
        table = _sum_equal_keys(table.keys // base, table.counts)


def run_starts(sorted_keys: np.ndarray) -> np.ndarray:
    """The index at which each run of equal keys begins."""
    if not len(sorted_keys):
        return np.zeros(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(sorted_keys[1:] != sorted_keys[:-1]) + 1])


def _count_sorted(sorted_keys: np.ndarray, alphabet: Alphabet) -> CountTable:
    """Count equal neighbours, without windows that start in a gap."""
    first_inside = alphabet.key_type.type(alphabet.base ** (alphabet.length - 1))
    keys = sorted_keys[np.searchsorted(sorted_keys, first_inside) :]
    starts = run_starts(keys)
    return CountTable(keys[starts], np.diff(starts, append=len(keys)))


def _sum_equal_keys(sorted_keys: np.ndarray, counts: np.ndarray) -> CountTable:
    """Add the counts of equal neighbours."""
    starts = run_starts(sorted_keys)
    if not len(starts):
        return CountTable(sorted_keys, counts)
    return CountTable(sorted_keys[starts], np.add.reduceat(counts, starts))


def _join(left: np.ndarray, left_width: int, right: np.ndarray, right_width: int, base: int) -> np.ndarray:
    """Windows of `left_width + right_width` symbols from those of either width."""
    size = max(0, len(left) - right_width)
    # Memory traffic decides the speed, so the result has the smallest type that holds it.
    joined = left[:size].astype(np.min_scalar_type(base ** (left_width + right_width) - 1))
    joined *= joined.dtype.type(base**right_width)
    joined += right[left_width : left_width + size]
    return joined


def _occurrence_mask(actions: np.ndarray) -> np.ndarray:
    """[largest + 1] whether each action occurs."""
    mask = np.zeros(int(actions.max(initial=0)) + 1, bool)
    for start in range(0, len(actions), _ROWS_PER_CHUNK):
        mask |= np.bincount(actions[start : start + _ROWS_PER_CHUNK], minlength=len(mask)) > 0
    return mask
