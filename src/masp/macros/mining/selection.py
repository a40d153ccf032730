"""Selecting macros: candidates by rank, filters, and the greedy choice by frequency or by coverage."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from masp.macros.mining.counting import Alphabet, CountTable, by_length
from masp.macros.mining.coverage import Coverage
from masp.macros.mining.settings import MiningSettings

SelectionProgress = Callable[[int, int], None]
"""Called with (macros selected so far, maximum number of macros)."""
_GAINS_PER_CALL = 16


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


def find_candidates(alphabet: Alphabet, table: CountTable, settings: MiningSettings, noop: int | None) -> Candidates:
    """All sequences that pass the filters on single sequences.

    Args:
      alphabet: the packing of `table`.
      table: counts of the windows of the longest length.
      settings: lengths, minimum count, whether constant sequences and NOOPs are allowed.
      noop: the action that does nothing, if there is one.
    """
    levels = []
    for length, level in by_length(alphabet, table, settings.min_length):
        level = _filtered(alphabet, level, length, settings, noop)
        if settings.is_top_k:
            level = _most_frequent(level, settings.k)
        levels.append((level, np.full(len(level.keys), length, np.int64)))
    keys = np.concatenate([level.keys for level, _ in levels])
    lengths = np.concatenate([lengths for _, lengths in levels])
    counts = np.concatenate([level.counts for level, _ in levels])
    # Lengths descend and keys ascend within a length, so a stable sort resolves ties as documented.
    rank = np.argsort(-counts, kind="stable")
    return Candidates(alphabet, keys[rank], lengths[rank], counts[rank])


def _filtered(
    alphabet: Alphabet, level: CountTable, length: int, settings: MiningSettings, noop: int | None
) -> CountTable:
    """The sequences of one length that the settings allow."""
    keep = level.counts >= settings.min_count
    # The key of a constant sequence of symbol q is q times the number 11...1 in this base.
    ones = alphabet.key_type.type(sum(alphabet.base**position for position in range(length)))
    if not settings.keep_constant:
        keep &= level.keys % ones != 0
    if not settings.keep_noop and noop is not None and noop in alphabet.actions:
        keep &= level.keys != ones * alphabet.key_type.type(alphabet.pack((noop,)))
    return CountTable(level.keys[keep], level.counts[keep])


def _most_frequent(level: CountTable, k: int) -> CountTable:
    """The k most frequent sequences of one length, ties by smaller actions; keys stay ascending."""
    if len(level.keys) <= k:
        return level
    threshold = np.partition(level.counts, -k)[-k]
    keep = level.counts > threshold
    tied = np.flatnonzero(level.counts == threshold)[: k - int(keep.sum())]
    keep[tied] = True
    return CountTable(level.keys[keep], level.counts[keep])


def effect(sequence: tuple[int, ...], noop: int | None) -> tuple[int, ...]:
    """The sequence without leading and trailing NOOPs, each pause inside shortened to one NOOP.

    Sequences with the same effect give the same commands in the same order and differ only in waiting. A pause is kept
    because releasing and pressing again differs from holding: FIRE NOOP FIRE shoots twice. Repeats of other actions
    are kept because holding a direction longer moves further. Without a NOOP, or with nothing else, a sequence is
    its own effect.
    """
    if noop is None or all(action == noop for action in sequence):
        return sequence
    result: list[int] = []
    for action in sequence:
        if action != noop or (result and result[-1] != noop):
            result.append(action)
    return tuple(result[:-1] if result[-1] == noop else result)


class Selection:
    """The macros selected so far; accepts or rejects one candidate at a time."""

    def __init__(self, candidates: Candidates, settings: MiningSettings, noop: int | None):
        self._candidates, self._settings, self._noop = candidates, settings, noop
        self.ranks: list[int] = []
        """Ranks of the selected candidates, in the order of selection."""
        # Per rank, the sequence with one character per action, so that `in` tests containment.
        self._texts: dict[int, str] = {}
        self._effects: dict[int, tuple[int, ...]] = {}

    @property
    def capacity(self) -> int:
        """Maximum number of macros."""
        return self._settings.k

    @property
    def is_full(self) -> bool:
        """Whether k macros are selected."""
        return len(self.ranks) >= self.capacity

    def offer(self, rank: int) -> bool:
        """Select this candidate unless a selected macro makes it redundant; returns whether it was selected.

        It replaces selected macros that it contains and that occur hardly more often.
        """
        sequence = self._candidates.sequence(rank)
        if self._settings.drop_same_effect:
            new_effect = effect(sequence, self._noop)
            if len(new_effect) == 1 or new_effect in self._effects.values():
                return False  # same effect as a primitive or a selected macro
            self._effects[rank] = new_effect
        if not self._settings.keep_contained:
            text = "".join(map(chr, sequence))
            if any(text in longer and self._as_frequent(other, rank) for other, longer in self._texts.items()):
                self._effects.pop(rank, None)
                return False
            contained = [o for o, shorter in self._texts.items() if shorter in text and self._as_frequent(rank, o)]
            for other in contained:
                self._drop(other)
            self._texts[rank] = text
        self.ranks.append(rank)
        return True

    def _as_frequent(self, longer: int, shorter: int) -> bool:
        """Whether the longer candidate occurs at least `contained_ratio` times as often as the shorter one."""
        counts = self._candidates.counts
        return bool(counts[longer] >= self._settings.contained_ratio * counts[shorter])

    def _drop(self, rank: int) -> None:
        self.ranks.remove(rank)
        del self._texts[rank]
        self._effects.pop(rank, None)


def select_by_frequency(candidates: Candidates, selection: Selection) -> None:
    """Offer candidates from the most frequent down until the selection is full."""
    for rank in range(len(candidates)):
        if selection.is_full:
            return
        selection.offer(rank)


def select_by_coverage(
    candidates: Candidates, selection: Selection, coverage: Coverage, progress: SelectionProgress | None = None
) -> None:
    """Repeatedly offer the candidate that covers most additional rows; ties by rank.

    When no candidate adds a row, coverage is reset and selection continues with the remaining candidates. Gains only
    shrink while rows get covered, so an old gain is an upper bound and few gains are computed twice (lazy greedy).
    """
    remaining = np.ones(len(candidates), bool)
    while remaining.any() and not selection.is_full:
        queue = _GainQueue(candidates, remaining)
        while not selection.is_full and (best := queue.pop(coverage)):
            gain, rank = best
            if gain == 0:
                coverage.reset()
                break
            remaining[rank] = False
            if selection.offer(rank):
                coverage.cover(*candidates.packed(rank))
                queue.invalidate()
                if progress:
                    progress(len(selection.ranks), selection.capacity)


class _GainQueue:
    """Candidates by the rows that they would add; gains are computed only when an upper bound does not decide."""

    def __init__(self, candidates: Candidates, remaining: np.ndarray):
        self._candidates = candidates
        self._bounds = _descending_bounds(candidates, remaining)
        self._next_bound = next(self._bounds, None)
        self._heap: list[tuple[int, int, int]] = []  # (-gain or -bound, rank, round in which the gain was computed)
        self._round = 0

    def invalidate(self) -> None:
        """Coverage has changed: the gains computed so far are now upper bounds."""
        self._round += 1

    def pop(self, coverage: Coverage) -> tuple[int, int] | None:
        """Remove the candidate with the largest gain; returns (gain, rank)."""
        while top := self._top():
            if top[2] == self._round:
                heapq.heappop(self._heap)
                return -top[0], top[1]
            ranks: list[int] = []
            # Several per call, because the call dominates the cost and the next candidates will mostly be needed.
            while len(ranks) < _GAINS_PER_CALL and (top := self._top()) and top[2] != self._round:
                ranks.append(heapq.heappop(self._heap)[1])
            gains = coverage.gains([self._candidates.packed(rank) for rank in ranks])
            for gain, rank in zip(gains, ranks, strict=True):
                heapq.heappush(self._heap, (-gain, rank, self._round))
        return None

    def _top(self) -> tuple[int, int, int] | None:
        """The first entry of the heap, after moving all larger bounds there."""
        while self._next_bound and (not self._heap or self._next_bound < self._heap[0][:2]):
            heapq.heappush(self._heap, (*self._next_bound, -1))
            self._next_bound = next(self._bounds, None)
        return self._heap[0] if self._heap else None


def _descending_bounds(candidates: Candidates, remaining: np.ndarray) -> Iterator[tuple[int, int]]:
    """(-bound, rank) of the remaining candidates, largest bound first; the bound is count x length rows."""
    ranks = np.flatnonzero(remaining)
    bounds = candidates.counts[ranks] * candidates.lengths[ranks]
    size = 1024
    done = 0
    while done < len(ranks):  # sort only the largest bounds at first: rarely are all of them needed
        if size < len(ranks):
            largest = np.flatnonzero(bounds > np.partition(bounds, -size)[-size])
        else:
            largest = np.arange(len(ranks))
        order = largest[np.argsort(-bounds[largest], kind="stable")]
        for i in order[done:]:
            yield -int(bounds[i]), int(ranks[i])
        done = len(order)
        size *= 16
