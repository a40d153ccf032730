"""Choosing macros among the candidates: by frequency, or by the play they add to what is covered."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

import numpy as np

from masp.mining.candidates import Candidates
from masp.mining.coverage import CoverageIndex
from masp.mining.effect import effect
from masp.mining.settings import MiningSettings

Progress = Callable[[int, int], None]
"""Called with (chosen so far, wanted)."""


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
    candidates: Candidates, selection: Selection, index: CoverageIndex, progress: Progress | None = None
) -> None:
    """Offer, again and again, the candidate that covers most rows not covered yet; ties by rank.

    When none adds a row, coverage starts afresh with the candidates that are left. Gains only shrink while rows
    get covered, so an old gain is an upper bound and few candidates are ever looked at twice (lazy greedy).
    """
    left = np.ones(len(candidates), bool)
    while left.any() and not selection.full:
        waiting = _best_bound_first(candidates, left)
        upcoming = next(waiting, None)
        heap: list[tuple[int, int, int]] = []  # (-gain or its bound, rank, number of covers when it was computed)
        covers = 0
        while not selection.full and (heap or upcoming):
            while upcoming and (not heap or upcoming < heap[0][:2]):
                heapq.heappush(heap, (*upcoming, -1))
                upcoming = next(waiting, None)
            bound, rank, computed = heapq.heappop(heap)
            if computed < covers:
                gain = index.gain(int(candidates.keys[rank]), int(candidates.lengths[rank]))
                heapq.heappush(heap, (-gain, rank, covers))
            elif bound == 0:
                index.forget()
                break
            else:
                left[rank] = False
                if selection.offer(rank):
                    index.cover(int(candidates.keys[rank]), int(candidates.lengths[rank]))
                    covers += 1
                    if progress:
                        progress(len(selection.ranks), selection.wanted)


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
