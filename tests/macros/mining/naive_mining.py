"""Reference implementation of mining with collections.Counter and plain loops."""

import math
from collections import Counter

from hypothesis import strategies as st


def count(episodes, min_length, max_length):
    """How often each subsequence occurs; none crosses the end of an episode."""
    counts = Counter()
    for episode in episodes:
        for n in range(min_length, max_length + 1):
            counts.update(tuple(episode[i : i + n]) for i in range(len(episode) - n + 1))
    return counts


def rank(counts):
    """Higher count first, then longer first, then smaller actions first."""
    return sorted(counts, key=lambda s: (-counts[s], -len(s), s))


def contains(longer, shorter):
    return any(longer[i : i + len(shorter)] == shorter for i in range(len(longer) - len(shorter) + 1))


def effect(sequence, noop):
    """Strip NOOPs at both ends, shorten pauses inside to one NOOP."""
    if noop is None or set(sequence) == {noop}:
        return sequence
    trimmed = list(sequence)
    while trimmed[0] == noop:
        trimmed.pop(0)
    while trimmed[-1] == noop:
        trimmed.pop()
    return tuple(a for i, a in enumerate(trimmed) if not (a == noop and trimmed[i - 1] == noop))


def covered_rows(episodes, sequence):
    """(episode, row) of every row in an occurrence."""
    return {
        (e, i + j)
        for e, episode in enumerate(episodes)
        for i in range(len(episode) - len(sequence) + 1)
        if tuple(episode[i : i + len(sequence)]) == sequence
        for j in range(len(sequence))
    }


def offer(selected, sequence, counts, settings, noop):
    """Select `sequence` unless a selected one makes it redundant; it may replace shorter ones."""
    if settings.drop_same_effect:
        new_effect = effect(sequence, noop)
        if len(new_effect) == 1 or new_effect in [effect(other, noop) for other in selected]:
            return False
    if not settings.keep_contained:
        ratio = settings.contained_ratio
        if any(contains(m, sequence) and counts[m] >= ratio * counts[sequence] for m in selected):
            return False
        for m in list(selected):
            if contains(sequence, m) and counts[sequence] >= ratio * counts[m]:
                selected.remove(m)
    selected.append(sequence)
    return True


def mine(episodes, settings, noop=None, scores=None, success=None):
    """[(sequence, count)] that `masp.mine_macros` should return."""
    keep = list(range(len(episodes)))
    if settings.only_successful:
        keep = [i for i in keep if success[i]]
    if settings.top_scoring is not None:
        number = math.ceil(settings.top_scoring * len(keep) - 1e-9)
        keep = sorted(sorted(keep, key=lambda i: (-scores[i], i))[:number])
    episodes = [list(episodes[i][:: settings.stride]) for i in keep]
    counts = count(episodes, settings.min_length, settings.max_length)
    candidates = [s for s in rank(counts) if counts[s] >= settings.min_count]
    if not settings.keep_constant:
        candidates = [s for s in candidates if len(set(s)) > 1]
    if not settings.keep_noop:
        candidates = [s for s in candidates if set(s) != {noop}]
    selected = []
    if not settings.diverse:
        for s in candidates:
            if len(selected) < settings.k:
                offer(selected, s, counts, settings, noop)
    else:
        idle = {(e, i) for e, episode in enumerate(episodes) for i, a in enumerate(episode) if a == noop}
        rows = {s: covered_rows(episodes, s) - (set() if settings.keep_noop else idle) for s in candidates}
        covered = set()
        while candidates and len(selected) < settings.k:
            best = max(candidates, key=lambda s: len(rows[s] - covered))  # ties: the first, which has the best rank
            if not rows[best] - covered:
                covered = set()
                continue
            candidates.remove(best)
            if offer(selected, best, counts, settings, noop):
                covered |= rows[best]
    return [(s, counts[s]) for s in selected]


def _runs(number_of_actions):
    run = st.tuples(st.integers(0, number_of_actions - 1), st.integers(1, 5))
    return st.lists(run, max_size=8).map(lambda runs: [a for a, n in runs for _ in range(n)])


plays = st.integers(1, 4).flatmap(lambda n: st.lists(_runs(n), min_size=1, max_size=4))
"""Small random episodes with runs of one action, as in human play."""
