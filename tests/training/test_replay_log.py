"""The log of the replay: rings come back whole, whatever the chunks were, or not at all."""

from __future__ import annotations

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masp.errors import UserError
from masp.training import compiled, replay_log
from masp.training.compiled import ring_ticks
from masp.training.host import HostLoop
from masp.training.replay_log import ReplayLog, read_ring

CAPACITY = 7


def row(tick):
    """[N, D] the row of one tick."""
    return np.full((2, 3), tick % 251, np.uint8)


def logged_ring(folder, chunks, segment_bytes):
    """The ring after chunks of so many ticks, as it is in memory and as a checkpoint names it."""
    log, ring, tick = ReplayLog(folder, CAPACITY), np.zeros((CAPACITY, 2, 3), np.uint8), 0
    original, replay_log.SEGMENT_BYTES = replay_log.SEGMENT_BYTES, segment_bytes
    try:
        for ticks in chunks:
            for t in range(tick, tick + ticks):
                ring[t % CAPACITY] = row(t)
            first, slots = ring_ticks(tick, tick + ticks - 1, CAPACITY)
            log.append(first, ring[slots])
            tick += ticks
        entries = log.entries()
        log.delete_unless({entry["file"] for entry in entries})
        return ring, entries, tick
    finally:
        replay_log.SEGMENT_BYTES = original
        log.close()


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 60))
def test_ring_comes_back(tmp_path_factory, chunks, segment_bytes):
    """Also where a chunk is longer than the ring, so that rows are gone before they are logged."""
    folder = tmp_path_factory.mktemp("log")
    ring, entries, tick = logged_ring(folder, chunks, segment_bytes)
    restored = np.zeros_like(ring)
    read_ring(folder, entries, restored, tick)
    np.testing.assert_array_equal(restored, ring)


def test_every_damage_is_found(tmp_path):
    ring, entries, tick = logged_ring(tmp_path, [3, 2, 4], 12)
    for entry in entries:
        path = tmp_path / entry["file"]
        content = path.read_bytes()
        damaged = [content[:size] for size in range(len(content))]
        damaged += [bytes(b ^ (1 << bit) * (i == at) for i, b in enumerate(content)) for at in (0, 5) for bit in (0, 7)]
        for data in damaged:
            path.write_bytes(data)
            with pytest.raises(UserError, match="checksum does not fit"):
                read_ring(tmp_path, entries, ring.copy(), tick)
        path.write_bytes(content)
    with pytest.raises(UserError, match="rows of the replay are missing"):
        read_ring(tmp_path, entries[1:], ring, tick)
    (tmp_path / entries[0]["file"]).unlink()
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_ring(tmp_path, entries, ring, tick)


@pytest.mark.parametrize(
    "change",
    [
        {"file": "../../etc/passwd"},
        {"file": 3},
        {"ticks": -1},
        {"ticks": 10**30, "bytes": 6 * 10**30},
        {"ticks": 10**15, "bytes": 6 * 10**15},
        {"bytes": None},
        {"sha256": None},
        {"first_tick": "0"},
    ],
)
def test_hostile_entries_are_refused(change, tmp_path):
    ring, entries, tick = logged_ring(tmp_path, [5], 1000)
    with pytest.raises(UserError):
        read_ring(tmp_path, [{**entries[0], **change}], ring, tick)


def test_only_new_rows_are_copied():
    observations = np.arange(40).reshape(10, 2, 2)
    memory = SimpleNamespace(observations=observations)
    state = SimpleNamespace(agent=SimpleNamespace(memory=memory))
    ((first, rows),) = HostLoop.replay_rows(None, state, 12, 14)
    assert first == 12 and rows.shape == (3, 2, 2)
    np.testing.assert_array_equal(rows, observations[2:5])
    assert not np.shares_memory(rows, observations)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("count", [1, 3, 4, 5])
def test_rows_of_a_device_are_those_of_the_host(monkeypatch, axis, count):
    """A device hands over a power of two of rows; what is more than asked for is left out."""
    observations = np.arange(240).reshape(10, 12, 2)
    ticks = np.arange(8, 8 + count) % 10
    expected = observations.take(ticks, axis)
    np.testing.assert_array_equal(compiled.rows_on_host(observations, ticks, axis), expected)
    monkeypatch.setattr(compiled, "_on_host", lambda array: False)
    np.testing.assert_array_equal(compiled.rows_on_host(jnp.asarray(observations), ticks, axis), expected)
