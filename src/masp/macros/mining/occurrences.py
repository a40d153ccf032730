"""Where every sequence occurs: positions of play in the order of the windows that start there.

A suffix array cut at the longest length, in chunks, so that sorting stays linear: the occurrences of a sequence are one
slice of each chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masp.macros.mining.counting import Table, merge, starts_of_runs
from masp.macros.mining.windows import Alphabet

_WINDOWS_PER_CHUNK = 1 << 20
_PLACE_BITS = 20  # hold a place in a chunk


@dataclass(frozen=True)
class _Chunk:
    keys: np.ndarray  # [U] different windows, ascending
    starts: np.ndarray  # [U + 1] where the positions of each begin
    positions: np.ndarray  # [M] ascending within a window


class Occurrences:
    """All windows of a stream and their positions."""

    def __init__(self, alphabet: Alphabet, stream: np.ndarray, skip_constant: bool):
        """Index all of `stream`; `skip_constant` leaves out constant windows, most of run-heavy play."""
        self._alphabet = alphabet
        self._chunks = [
            _chunk(alphabet, stream, start, skip_constant) for start in range(0, len(stream), _WINDOWS_PER_CHUNK)
        ]

    @property
    def table(self) -> Table:
        """How often each window occurs, as `count_windows` counts them, but for those that were left out.

        Counts of shorter sequences follow from it all the same, unless they are constant.
        """
        tables = [Table(chunk.keys, np.diff(chunk.starts)) for chunk in self._chunks]
        return merge(tables) if tables else Table(np.zeros(0, self._alphabet.key_type), np.zeros(0, np.int64))

    def find(self, sequences: Sequence[tuple[int, int]]) -> list[np.ndarray]:
        """For each (packed sequence, length) the positions where it starts, ascending."""
        lengths = [length for _, length in sequences]
        ranges = [self._alphabet.window_range(key, length) for key, length in sequences]
        lowest, highest = np.array(ranges, self._alphabet.key_type).T
        parts = [self._find_in(chunk, lowest, highest, lengths) for chunk in self._chunks]
        return parts[0] if len(parts) == 1 else [np.concatenate(found) for found in zip(*parts, strict=True)]

    def _find_in(self, chunk: _Chunk, lowest: np.ndarray, highest: np.ndarray, lengths: list[int]) -> list[np.ndarray]:
        firsts = chunk.starts[chunk.keys.searchsorted(lowest, side="left")].tolist()
        lasts = chunk.starts[chunk.keys.searchsorted(highest, side="right")].tolist()
        found = [chunk.positions[first:last] for first, last in zip(firsts, lasts, strict=True)]
        # A sequence of the longest length is one window, whose positions ascend already.
        return [at if n == self._alphabet.length else np.sort(at) for at, n in zip(found, lengths, strict=True)]


def _chunk(alphabet: Alphabet, stream: np.ndarray, start: int, skip_constant: bool) -> _Chunk:
    """Windows that start in this chunk and in an episode."""
    keys = alphabet.keys(stream[start : start + _WINDOWS_PER_CHUNK + alphabet.length - 1])
    keep = stream[start : start + len(keys)] != 0
    if skip_constant and len(keys) > 1:
        keep[:-1] &= keys[:-1] != keys[1:]  # equal to its own shift: constant
    places = np.flatnonzero(keep)
    keys = keys[places]
    if alphabet.base**alphabet.length <= 1 << (64 - _PLACE_BITS):
        # Window and place in one number: sorting numbers is several times quicker than finding their order.
        both = np.sort((keys.astype(np.uint64) << np.uint64(_PLACE_BITS)) | places.astype(np.uint64))
        keys = (both >> np.uint64(_PLACE_BITS)).astype(alphabet.key_type)
        places = (both & np.uint64((1 << _PLACE_BITS) - 1)).astype(np.int64)
    else:
        order = np.argsort(keys, kind="stable")
        keys, places = keys[order], places[order]
    firsts = starts_of_runs(keys)
    positions = (start + places).astype(np.int32 if len(stream) < 2**31 else np.int64)
    return _Chunk(keys[firsts], np.append(firsts, len(keys)), positions)
