"""Choosing macros among the candidates: by frequency, or by the play they add to what is covered."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

import numpy as np

from masp.macros.mining.candidates import Candidates
from masp.macros.mining.coverage import Coverage
from masp.macros.mining.effect import effect
from masp.macros.mining.settings import MiningSettings

Progress = Callable[[int, int], None]
"""Called with (chosen so far, wanted)."""
_BATCH = 16


class Selection:
    """The macros chosen so far; takes in or turns away one candidate at a time."""

    def __init__(self, candidates: Candidates, settings: MiningSettings, noop: int | None):
        self._candidates, self._settings, self._noop = candidates, settings, noop
        self.ranks: list[int] = []
        """Chosen candidates, in the order they were chosen."""
        self._texts: dict[int, str] = {}  # rank to sequence, one character per action: `in` finds a part
        self._effects: dict[int, tuple[int, ...]] = {}

    @property
    def wanted(self) -> int:
        """How many macros to choose at most."""
        return self._settings.k

    @property
    def full(self) -> bool:
        """Whether k macros are chosen."""
        return len(self.ranks) >= self.wanted

    def offer(self, rank: int) -> bool:
        """Choose this candidate unless a chosen one makes it needless; returns whether it was chosen.

        If it makes shorter chosen ones needless (they lie inside it and occur hardly more often), it takes their
        place.
        """
        sequence = self._candidates.sequence(rank)
        if self._settings.drop_same_effect:
            does = effect(sequence, self._noop)
            if len(does) == 1 or does in self._effects.values():
                return False  # the same as a primitive, or as a chosen macro
            self._effects[rank] = does
        if not self._settings.keep_contained:
            text = "".join(map(chr, sequence))
            if any(text in longer and self._as_often(other, rank) for other, longer in self._texts.items()):
                self._effects.pop(rank, None)
                return False
            replaced = [o for o, shorter in self._texts.items() if shorter in text and self._as_often(rank, o)]
            for other in replaced:
                self._drop(other)
            self._texts[rank] = text
        self.ranks.append(rank)
        return True

    def _as_often(self, longer: int, shorter: int) -> bool:
        counts = self._candidates.counts
        return bool(counts[longer] >= self._settings.contained_ratio * counts[shorter])

    def _drop(self, rank: int) -> None:
        self.ranks.remove(rank)
        del self._texts[rank]
        self._effects.pop(rank, None)


def by_frequency(candidates: Candidates, selection: Selection) -> None:
    """Offer candidates from the most frequent down until the selection is full."""
    for rank in range(len(candidates)):
        if selection.full:
            return
        selection.offer(rank)


def by_coverage(
    candidates: Candidates, selection: Selection, coverage: Coverage, progress: Progress | None = None
) -> None:
    """Offer, again and again, the candidate that covers most rows not covered yet; ties by rank.

    When none adds a row, coverage starts afresh with the candidates that are left. Gains only shrink while rows
    get covered, so an old gain is an upper bound and few candidates are ever looked at twice (lazy greedy).
    """
    left = np.ones(len(candidates), bool)
    while left.any() and not selection.full:
        queue = _Queue(candidates, left)
        while not selection.full and (best := queue.best(coverage)):
            gain, rank = best
            if gain == 0:
                coverage.forget()
                break
            left[rank] = False
            if selection.offer(rank):
                coverage.cover(*candidates.packed(rank))
                queue.now_old()
                if progress:
                    progress(len(selection.ranks), selection.wanted)


class _Queue:
    """Candidates by what they would add, of which at first only bounds are known."""

    def __init__(self, candidates: Candidates, left: np.ndarray):
        self._candidates = candidates
        self._waiting = _best_bound_first(candidates, left)
        self._upcoming = next(self._waiting, None)
        self._heap: list[tuple[int, int, int]] = []  # (-gain or its bound, rank, age when it was computed)
        self._age = 0

    def now_old(self) -> None:
        """Gains computed so far have become bounds."""
        self._age += 1

    def best(self, coverage: Coverage) -> tuple[int, int] | None:
        """Take out (gain, rank) of the candidate that adds most."""
        while top := self._top():
            if top[2] == self._age:
                heapq.heappop(self._heap)
                return -top[0], top[1]
            ranks: list[int] = []
            # Several at a time: most of the work is in the calls, and those next in line will mostly be needed.
            while len(ranks) < _BATCH and (top := self._top()) and top[2] != self._age:
                ranks.append(heapq.heappop(self._heap)[1])
            gains = coverage.gains([self._candidates.packed(rank) for rank in ranks])
            for gain, rank in zip(gains, ranks, strict=True):
                heapq.heappush(self._heap, (-gain, rank, self._age))
        return None

    def _top(self) -> tuple[int, int, int] | None:
        """The first of the heap, after all that might come before it were put there."""
        while self._upcoming and (not self._heap or self._upcoming < self._heap[0][:2]):
            heapq.heappush(self._heap, (*self._upcoming, -1))
            self._upcoming = next(self._waiting, None)
        return self._heap[0] if self._heap else None


def _best_bound_first(candidates: Candidates, left: np.ndarray) -> Iterator[tuple[int, int]]:
    """(-bound, rank) of the candidates left, best first; a sequence covers at most count x length rows."""
    ranks = np.flatnonzero(left)
    bounds = candidates.counts[ranks] * candidates.lengths[ranks]
    size = 1024
    done = 0
    while done < len(ranks):  # sort the best few first: hardly ever are all of them needed
        if size < len(ranks):
            best = np.flatnonzero(bounds > np.partition(bounds, -size)[-size])
        else:
            best = np.arange(len(ranks))
        order = best[np.argsort(-bounds[best], kind="stable")]
        for i in order[done:]:
            yield -int(bounds[i]), int(ranks[i])
        done = len(order)
        size *= 16
