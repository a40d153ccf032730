"""Play as a stream of symbols, and every window of it packed into one integer.

Symbols are the actions that occur, numbered from 1 in their own order; 0 fills the gap after each episode. A
window of L symbols becomes the number whose digits they are, in base (symbols + 1). Two things follow:
sorting the numbers sorts the sequences, and dividing by the base drops the last symbol, so the counts of all
shorter sequences come from those of the longest one.

The gap is L - 1 symbols wide: a window that touches it either starts in it or ends in it, so one look at the first
or last digit tells that a sequence would cross the end of an episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from masp.errors import UserError
from masp.macros.mining.episodes import Episodes

LONGEST = 57
"""The longest sequence; more would fit into 64 bits only if a single action occurs."""
_ROWS_PER_CHUNK = 1 << 20


@dataclass(frozen=True)
class Alphabet:
    """The actions that occur, and how windows of them are packed."""

    actions: np.ndarray
    """[S] the actions that occur, ascending; action i is symbol i + 1."""
    length: int
    """L, the longest sequence that is counted."""

    @cached_property
    def base(self) -> int:
        """Symbols and the gap."""
        return len(self.actions) + 1

    @cached_property
    def key_type(self) -> np.dtype:
        """The smaller of two unsigned types that holds a window; half the bytes sort almost twice as fast."""
        return np.dtype(np.uint32 if self.base**self.length <= 2**32 else np.uint64)

    @classmethod
    def over(cls, sources: list[Episodes], length: int) -> Alphabet:
        """The actions of all sources; raises `UserError` if a window does not fit into 64 bits."""
        used = [np.flatnonzero(_used(source.actions)) for source in sources]
        actions = np.unique(np.concatenate(used)) if used else np.zeros(0, np.int64)
        alphabet = cls(actions, length)
        longest = max(n for n in range(1, LONGEST + 1) if alphabet.base**n <= 2**64)
        if length > longest:
            raise UserError(
                f"max_length {length} is too long for play with {len(actions)} different actions; "
                f"at most {longest} fit into the 64 bits that a sequence is packed in"
            )
        return alphabet

    def stream(self, episodes: Episodes) -> np.ndarray:
        """[N + gaps] symbols of all episodes, each followed by a gap."""
        dtype = np.min_scalar_type(self.base)
        number = np.zeros(int(self.actions.max(initial=0)) + 1, dtype)
        number[self.actions] = np.arange(1, self.base)
        gapless = len(number) == len(self.actions)  # then a symbol is an action plus one, quicker than a look-up
        gap = self.length - 1
        stream = np.zeros(len(episodes.actions) + gap * episodes.count, dtype)
        ends = np.cumsum(episodes.lengths)
        first = 0
        while first < episodes.count:  # as many whole episodes at a time as fit into a chunk, at least one
            row = int(ends[first] - episodes.lengths[first])
            last = max(first + 1, int(np.searchsorted(ends, row + _ROWS_PER_CHUNK, side="right")))
            lengths = episodes.lengths[first:last]
            played = episodes.actions[row : int(ends[last - 1])]
            symbols = played.astype(dtype) + dtype.type(1) if gapless else number[played]
            at = row + gap * first
            if last == first + 1:
                stream[at : at + len(symbols)] = symbols
            else:
                stream[at + np.arange(len(symbols)) + gap * np.repeat(np.arange(last - first), lengths)] = symbols
            first = last
        return stream

    def keys(self, stream: np.ndarray) -> np.ndarray:
        """[M] packed windows of the M positions of `stream` that have all their L symbols."""
        packed: np.ndarray | None = None  # windows of the symbols taken so far
        taken = 0
        power, width = stream, 1  # windows of `width` symbols
        for bit in bin(self.length)[:1:-1]:  # binary digits of L, lowest first: about 2 log2(L) passes, not L
            if bit == "1":
                packed = power if packed is None else _join(packed, taken, power, width, self.base)
                taken += width
            if taken < self.length:
                power, width = _join(power, width, power, width, self.base), 2 * width
        assert packed is not None
        return packed.astype(self.key_type, copy=False)

    def pack(self, sequence: tuple[int, ...]) -> int:
        """The number of one sequence of actions, which must all occur."""
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
        for place in range(length - 1, -1, -1):
            digits[:, place] = keys % self.base
            keys = keys // self.base
        return self.actions[digits - 1]


def _join(left: np.ndarray, left_width: int, right: np.ndarray, right_width: int, base: int) -> np.ndarray:
    """Windows of `left_width + right_width` symbols from those of either width."""
    size = max(0, len(left) - right_width)
    # The smallest type that holds them: what is moved through memory decides the speed.
    joined = left[:size].astype(np.min_scalar_type(base ** (left_width + right_width) - 1))
    joined *= joined.dtype.type(base**right_width)
    joined += right[left_width : left_width + size]
    return joined


def _used(actions: np.ndarray) -> np.ndarray:
    """[largest + 1] whether each action occurs."""
    used = np.zeros(int(actions.max(initial=0)) + 1, bool)
    for start in range(0, len(actions), _ROWS_PER_CHUNK):
        used |= np.bincount(actions[start : start + _ROWS_PER_CHUNK], minlength=len(used)) > 0
    return used
