"""Packing and counting windows; coverage; effects."""

import naive_mining
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_mining import plays

from masp.macros.episodes import Episodes
from masp.macros.mining.counting import Alphabet, by_length, count_windows
from masp.macros.mining.coverage import covered_shares
from masp.macros.mining.selection import effect

slow_ok = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def test_pack_by_hand():
    alphabet = Alphabet(np.array([2, 5]), 3)  # base 3: action 2 is digit 1, action 5 is digit 2
    assert alphabet.pack((2, 5, 2)) == 1 * 9 + 2 * 3 + 1
    assert alphabet.unpack(np.array([16]), 3).tolist() == [[2, 5, 2]]
    stream = alphabet.stream(Episodes.of([[2, 5], [5]]))
    assert stream.tolist() == [1, 2, 0, 0, 2, 0, 0]
    assert alphabet.keys(stream).tolist() == [1 * 9 + 2 * 3, 2 * 9, 2, 2 * 3, 2 * 9]


@pytest.mark.parametrize("length", range(1, 12))
def test_keys_are_digits_in_base_symbols_plus_one(length):
    symbols = np.random.default_rng(length).integers(1, 4, 50).astype(np.uint8)
    keys = Alphabet(np.arange(3), length).keys(symbols)
    expected = [int("".join(map(str, symbols[i : i + length])), 4) for i in range(50 - length + 1)]
    assert keys.tolist() == expected
    assert len(Alphabet(np.arange(3), length).keys(symbols[: length - 1])) == 0


def test_windows_that_use_all_64_bits():
    alphabet = Alphabet(np.arange(255), 8)
    sequence = (254,) * 8
    table = count_windows(alphabet, alphabet.stream(Episodes.of([sequence])))
    assert alphabet.pack(sequence) == 2**64 - 1
    assert table.count_of(alphabet, sequence) == 1
    assert table.count_of(alphabet, sequence[:3]) == 6


@slow_ok
@given(plays, st.integers(1, 9))
def test_counts_equal_collections_counter(chunk_size, episodes, longest):
    pool = Episodes.of(episodes)
    alphabet = Alphabet.over([pool], longest)
    table = count_windows(alphabet, alphabet.stream(pool))
    counts = {
        tuple(sequence): count
        for n, level in by_length(alphabet, table, 1)
        for sequence, count in zip(alphabet.unpack(level.keys, n).tolist(), level.counts.tolist(), strict=True)
    }
    expected = naive_mining.count(episodes, 1, longest)
    assert counts == dict(expected)
    for sequence in [*expected, (77,)]:
        assert table.count_of(alphabet, sequence) == expected[sequence]


@slow_ok
@given(plays, st.integers(1, 5))
def test_stride_applies_within_each_episode(episodes, stride):
    pool = Episodes.joined([Episodes.of([episode]) for episode in episodes]).every(stride)
    assert pool.actions.tolist() == [a for episode in episodes for a in episode[::stride]]
    assert pool.lengths.tolist() == [len(episode[::stride]) for episode in episodes]


@slow_ok
@given(plays, st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple), max_size=4))
def test_covered_shares_equal_naive(chunk_size, episodes, sequences):
    pool = Episodes.of(episodes)
    alphabet = Alphabet.over([pool], 4)
    rows, changes = covered_shares(alphabet, alphabet.stream(pool), sequences)
    covered = set().union(*(naive_mining.covered_rows(episodes, s) for s in sequences)) if sequences else set()
    assert rows == pytest.approx(len(covered) / max(1, sum(map(len, episodes))))
    at = [(e, i) for e, episode in enumerate(episodes) for i in range(len(episode) - 1) if episode[i] != episode[i + 1]]
    inside = [
        any(
            tuple(episodes[e][j : j + len(s)]) == s
            for s in sequences
            for j in range(max(0, i + 2 - len(s)), min(i, len(episodes[e]) - len(s)) + 1)
        )
        for e, i in at
    ]
    assert changes == pytest.approx(sum(inside) / max(1, len(at)))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple), st.sampled_from([None, 0, 1]))
def test_effect_equals_naive(sequence, noop):
    assert effect(sequence, noop) == naive_mining.effect(sequence, noop)


def test_effect_by_hand():
    assert effect((0, 0, 1, 0, 0, 1, 1, 0), 0) == (1, 0, 1, 1)
    assert effect((0, 0, 0), 0) == (0, 0, 0)
    assert effect((0, 1, 0), None) == (0, 1, 0)
