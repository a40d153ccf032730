"""The sequences that may become macros, most frequent first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masp.macros.mining.counting import Table, by_length
from masp.macros.mining.settings import MiningSettings
from masp.macros.mining.windows import Alphabet


@dataclass(frozen=True)
class Candidates:
    """[C] sequences by rank: higher count first, then longer first, then smaller actions first."""

    alphabet: Alphabet
    keys: np.ndarray
    """[C] packed sequences."""
    lengths: np.ndarray
    """[C] int64."""
    counts: np.ndarray
    """[C] int64."""

    def __len__(self) -> int:
        return len(self.keys)

    def packed(self, rank: int) -> tuple[int, int]:
        """The candidate at `rank` as a packed sequence and its length."""
        return int(self.keys[rank]), int(self.lengths[rank])

    def sequence(self, rank: int) -> tuple[int, ...]:
        """The actions of the candidate at `rank`."""
        return tuple(self.alphabet.unpack(self.keys[rank : rank + 1], int(self.lengths[rank]))[0].tolist())


def find_candidates(alphabet: Alphabet, table: Table, settings: MiningSettings, noop: int | None) -> Candidates:
    """All sequences that pass the filters that look at one sequence alone.

    Args:
      alphabet: how `table` is packed.
      table: windows of the longest length.
      settings: lengths, minimum count, constant runs, runs of NOOP.
      noop: the action that does nothing, if there is one.
    """
    levels = []
    for length, level in by_length(alphabet, table, settings.min_length):
        level = _filtered(alphabet, level, length, settings, noop)
        if settings.only_counts_matter:
            level = _most_frequent(level, settings.k)
        levels.append((level, np.full(len(level.keys), length, np.int64)))
    keys = np.concatenate([level.keys for level, _ in levels])
    lengths = np.concatenate([lengths for _, lengths in levels])
    counts = np.concatenate([level.counts for level, _ in levels])
    # Levels go from long to short and keys ascend within them, so a stable sort leaves ties as documented.
    rank = np.argsort(-counts, kind="stable")
    return Candidates(alphabet, keys[rank], lengths[rank], counts[rank])


def _filtered(alphabet: Alphabet, level: Table, length: int, settings: MiningSettings, noop: int | None) -> Table:
    keep = level.counts >= settings.min_count
    # A constant sequence of symbol q is q times the number 11...1 in this base.
    ones = alphabet.key_type.type(sum(alphabet.base**place for place in range(length)))
    if not settings.keep_constant:
        keep &= level.keys % ones != 0
    if not settings.keep_noop and noop is not None and noop in alphabet.actions:
        keep &= level.keys != ones * alphabet.key_type.type(alphabet.pack((noop,)))
    return Table(level.keys[keep], level.counts[keep])


def _most_frequent(level: Table, k: int) -> Table:
    """The k most frequent sequences of one length, ties by smaller actions; keys stay ascending."""
    if len(level.keys) <= k:
        return level
    threshold = np.partition(level.counts, -k)[-k]
    keep = level.counts > threshold
    tied = np.flatnonzero(level.counts == threshold)[: k - int(keep.sum())]
    keep[tied] = True
    return Table(level.keys[keep], level.counts[keep])
