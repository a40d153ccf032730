"""How often each sequence of actions occurs, for a whole range of lengths from one sort."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from masp.macros.mining.windows import Alphabet

_WINDOWS_PER_CHUNK = 1 << 20


@dataclass(frozen=True)
class Table:
    """Different packed sequences of one length, and their counts."""

    keys: np.ndarray
    """[U] ascending."""
    counts: np.ndarray
    """[U] int64, all positive."""

    def count_of(self, alphabet: Alphabet, sequence: tuple[int, ...]) -> int:
        """How often a sequence occurs, of at most the length of the windows in this table."""
        if not np.isin(sequence, alphabet.actions).all():
            return 0
        low, high = alphabet.window_range(alphabet.pack(sequence), len(sequence))
        start = np.searchsorted(self.keys, low, side="left")
        stop = np.searchsorted(self.keys, high, side="right")
        return int(self.counts[start:stop].sum())


def count_windows(alphabet: Alphabet, stream: np.ndarray) -> Table:
    """The windows of L symbols of a stream, with those that end in a gap but without those that start in one.

    Works in chunks; tables are merged when they are of like size, so that the cost stays linear and the memory
    that of the different windows.
    """
    tables: list[Table] = []
    for start in range(0, len(stream), _WINDOWS_PER_CHUNK):
        keys = alphabet.keys(stream[start : start + _WINDOWS_PER_CHUNK + alphabet.length - 1])
        tables.append(_table_of(np.sort(keys), alphabet))
        while len(tables) > 1 and len(tables[-2].keys) <= 2 * len(tables[-1].keys):
            tables[-2:] = [merge(tables[-2:])]
    return merge(tables) if tables else Table(np.zeros(0, alphabet.key_type), np.zeros(0, np.int64))


def merge(tables: list[Table]) -> Table:
    """The sum of several tables."""
    if len(tables) == 1:
        return tables[0]
    keys = np.concatenate([table.keys for table in tables])
    order = np.argsort(keys, kind="stable")
    return _summed(keys[order], np.concatenate([table.counts for table in tables])[order])


def by_length(alphabet: Alphabet, table: Table, shortest: int) -> Iterator[tuple[int, Table]]:
    """(n, sequences of length n that lie inside one episode) from the longest length to the shortest.

    Every occurrence of a short sequence is the beginning of exactly one window of length L, so dropping last
    digits and adding counts gives all lengths.
    """
    base = alphabet.key_type.type(alphabet.base)
    for length in range(alphabet.length, shortest - 1, -1):
        inside = table.keys % base != 0
        yield length, Table(table.keys[inside], table.counts[inside])
        table = _summed(table.keys // base, table.counts)


def _table_of(sorted_keys: np.ndarray, alphabet: Alphabet) -> Table:
    """Count equal neighbours, leaving out windows that start in a gap."""
    first_inside = alphabet.key_type.type(alphabet.base ** (alphabet.length - 1))
    keys = sorted_keys[np.searchsorted(sorted_keys, first_inside) :]
    starts = starts_of_runs(keys)
    return Table(keys[starts], np.diff(starts, append=len(keys)))


def _summed(sorted_keys: np.ndarray, counts: np.ndarray) -> Table:
    """Add the counts of equal neighbours."""
    starts = starts_of_runs(sorted_keys)
    if not len(starts):
        return Table(sorted_keys, counts)
    return Table(sorted_keys[starts], np.add.reduceat(counts, starts))


def starts_of_runs(sorted_keys: np.ndarray) -> np.ndarray:
    """Where each run of equal keys begins."""
    if not len(sorted_keys):
        return np.zeros(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(sorted_keys[1:] != sorted_keys[:-1]) + 1])
