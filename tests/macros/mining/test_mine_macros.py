"""Mining equals the naive reference for every option, and hand-computed values."""

from dataclasses import replace

import naive_mining
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_mining import plays

import masp
from masp.macros.episodes import Episodes
from masp.macros.mining import MiningSettings, mine_macros
from masp.macros.mining.mine import mine
from masp.macros.mining.sources import Source
from masp.macros.recording import RecordingHeader

slow_ok = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

all_options = st.builds(
    lambda shortest, extra, **rest: MiningSettings(min_length=shortest, max_length=shortest + extra, **rest),
    shortest=st.integers(1, 4),
    extra=st.integers(0, 5),
    k=st.integers(1, 12),
    stride=st.integers(1, 3),
    min_count=st.integers(1, 3),
    keep_constant=st.booleans(),
    keep_noop=st.booleans(),
    keep_contained=st.booleans(),
    contained_ratio=st.sampled_from([0.3, 0.5, 0.9, 1.0]),
    drop_same_effect=st.booleans(),
    diverse=st.booleans(),
)


def sequences_and_counts(actions):
    return [(macro.actions, macro.count) for macro in actions.macros]


def source(episodes, scores=None, success=None, name="memory"):
    return Source(name, RecordingHeader("", 4), Episodes.of(episodes, scores, success), 0)


@slow_ok
@given(plays, all_options, st.sampled_from([None, 0, 1]))
def test_equals_naive_for_every_option(chunk_size, episodes, options, noop):
    if not any(episodes):
        return
    result = mine([source(episodes)], options, noop=noop)
    assert sequences_and_counts(result.actions) == naive_mining.mine(episodes, options, noop)


@slow_ok
@given(st.lists(st.lists(st.integers(0, 1), max_size=60), min_size=1, max_size=3), st.integers(9, 38), st.booleans())
def test_long_macros_equal_naive(episodes, longest, diverse):
    if not any(episodes):
        return
    options = MiningSettings(k=5, min_length=longest - 8, max_length=longest, min_count=1, diverse=diverse)
    assert sequences_and_counts(mine([source(episodes)], options).actions) == naive_mining.mine(episodes, options)


@slow_ok
@given(plays, st.integers(1, 40), st.integers(1, 3))
def test_literal_equals_counter(chunk_size, episodes, k, stride):
    if not any(episodes):
        return
    strided = [episode[::stride] for episode in episodes]
    counts = naive_mining.count(strided, 3, 8)
    expected = [(s, counts[s]) for s in naive_mining.rank(counts)[:k]]
    assert sequences_and_counts(mine_macros(episodes, k=k, stride=stride, literal=True)) == expected


@slow_ok
@given(plays, st.data(), st.booleans(), st.sampled_from([None, 0.2, 0.5, 1.0]))
def test_episode_filters_equal_naive(chunk_size, episodes, data, only_successful, top_scoring):
    flags = data.draw(st.lists(st.booleans(), min_size=len(episodes), max_size=len(episodes)))
    scores = data.draw(st.lists(st.integers(0, 3), min_size=len(episodes), max_size=len(episodes)))
    options = replace(MiningSettings.literal(), only_successful=only_successful, top_scoring=top_scoring)
    try:
        result = mine([source(episodes, scores, flags)], options)
    except masp.UserError as error:
        assert "no episode is left" in str(error)
        assert naive_mining.mine(episodes, options, None, scores, flags) == []
        return
    assert sequences_and_counts(result.actions) == naive_mining.mine(episodes, options, None, scores, flags)


@slow_ok
@given(plays, plays)
def test_sources_are_pooled(a, b):
    if not any(a + b):
        return
    options = MiningSettings(min_length=2, max_length=4)
    apart = mine([source(a), source(b)], options)
    together = mine([source(a + b)], options)
    assert apart.actions == together.actions


def test_by_hand():
    # 0 1 occurs three times, 1 0 twice; 0 1 0 and 1 0 1 twice; nothing crosses to the second episode
    actions = mine_macros([[0, 1, 0, 1, 0], [0, 1]], min_length=2, max_length=3, literal=True, k=4)
    assert sequences_and_counts(actions) == [((0, 1), 3), ((0, 1, 0), 2), ((1, 0), 2), ((1, 0, 1), 1)]


def test_coverage_prefers_new_behaviour_to_shifts_of_one_pattern():
    play = [0, 0, 0, 1, 1, 1] * 20 + [2, 3, 2, 3] * 3
    by_frequency = mine_macros([play], k=2, min_length=3, max_length=3, diverse=False)
    by_coverage = mine_macros([play], k=3, min_length=3, max_length=3)
    assert all(set(macro.actions) == {0, 1} for macro in by_frequency.macros)
    assert any(set(macro.actions) == {2, 3} for macro in by_coverage.macros)


def test_longer_macro_replaces_its_parts():
    play = [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert sequences_and_counts(mine_macros(play, k=8, min_length=2, max_length=4, diverse=False)) == [
        ((0, 1, 2, 3), 3)
    ]


def test_macros_that_differ_only_in_waiting_are_dropped():
    play = [[0, 0, 1, 2, 0]] * 3 + [[1, 0, 2]] * 2
    names = ("NOOP", "A", "B")
    options = {"min_length": 3, "max_length": 3, "diverse": False, "drop_same_effect": True}
    actions = mine_macros(play, primitive_names=names, num_primitives=3, **options)
    # 0 1 2 and 1 2 0 have the effect "A B", 0 0 1 that of the primitive A; a pause between A and B is different
    assert sequences_and_counts(actions) == [((0, 1, 2), 3), ((1, 0, 2), 2)]


def test_longest_macro_of_a_single_action():
    actions = mine_macros([[0] * 80], k=1, min_length=57, max_length=57, keep_constant=True)
    assert sequences_and_counts(actions) == [((0,) * 57, 24)]
    with pytest.raises(masp.UserError, match="at most 57 fit"):
        mine_macros([[0] * 80], max_length=58)


def test_thousand_different_actions():
    play = np.arange(3000) % 1000
    assert mine_macros(play, k=1, max_length=3, literal=True).macros[0].count == 3
    with pytest.raises(masp.UserError, match="at most 6 fit"):
        mine_macros(play, max_length=8)


def test_accepts_lists_tuples_and_arrays():
    expected = mine_macros([[0, 1, 2, 0, 1, 2]], literal=True)
    for play in (
        [0, 1, 2, 0, 1, 2],
        np.array([0, 1, 2, 0, 1, 2]),
        np.array([[0, 1, 2, 0, 1, 2]]),
        ((0, 1, 2, 0, 1, 2),),
    ):
        assert mine_macros(play, literal=True) == expected


@pytest.mark.parametrize(
    ("play", "options", "message"),
    [
        ([], {}, "no play to mine"),
        ([[]], {}, "no episode is left"),
        ([[0, -1]], {}, "negative"),
        ([[0, 1 << 40]], {}, "larger than 65535"),
        ([[0.5, 1.0]], {}, "integer actions"),
        (["a", [0, 1]], {}, "mix paths"),
        ([[0, 1], "a"], {}, "episode 1: expected a flat sequence"),
        ([0, "a"], {}, "episode 0: expected a flat sequence"),
        ([[0, 1, 5]], {"num_primitives": 3}, "action 5, but the primitives are 0..2"),
        ([[0, 1]], {"k": 0}, "k must be"),
        ([[0, 1]], {"min_length": 5, "max_length": 4}, "below min_length"),
        ([[0, 1]], {"max_length": 2.5}, "max_length must be"),
        ([[0, 1]], {"contained_ratio": 0.0}, "contained_ratio"),
        ([[0, 1]], {"top_scoring": 2.0}, "top_scoring"),
        ([[0, 1]], {"top_scoring": 0.5}, "without a score"),
        ([[0, 1]], {"only_successful": True}, "does not say which episodes were successful"),
        ([[0, 1]], {"literal": True, "min_count": 3}, "leave out min_count"),
    ],
)
def test_invalid_arguments_raise_one_clear_line(play, options, message):
    with pytest.raises(masp.UserError, match=message) as raised:
        mine_macros(play, **options)
    assert "\n" not in str(raised.value)


def test_same_play_same_macros():
    play = np.random.default_rng(0).integers(0, 4, 500)
    assert mine_macros(play) == mine_macros(play)
