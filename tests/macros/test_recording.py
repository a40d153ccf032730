"""The recording format: readable at any time, complete episodes only."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masp.errors import UserError
from masp.macros.recording import RecordedEpisode, RecordingHeader, RecordingWriter, read_header, read_recording

HEADER = RecordingHeader("Tiny-v0", 3, ("NOOP", "LEFT", "RIGHT"))

episodes = st.lists(
    st.builds(
        RecordedEpisode,
        actions=st.lists(st.integers(0, 2), max_size=20),
        score=st.none() | st.floats(-1e6, 1e6),
        success=st.none() | st.booleans(),
        frames=st.none() | st.integers(0, 10**9),
    ),
    max_size=5,
)


def write(path, recorded):
    with RecordingWriter(path, HEADER) as writer:
        for episode in recorded:
            writer.add(episode)


@given(episodes)
def test_round_trip(tmp_path_factory, recorded):
    path = tmp_path_factory.mktemp("recording") / "play.jsonl"
    write(path, recorded)
    assert read_header(path) == HEADER
    assert list(read_recording(path)) == recorded


@given(episodes, st.integers(0, 1000))
def test_truncated_file_keeps_complete_episodes(tmp_path_factory, recorded, cut):
    path = tmp_path_factory.mktemp("recording") / "play.jsonl"
    write(path, recorded)
    data = path.read_bytes()
    first = data.index(b"\n") + 1
    cut = first + cut % (len(data) - first + 1)
    path.write_bytes(data[:cut])
    warnings = []
    num_complete = data[:cut].count(b"\n") - 1
    assert list(read_recording(path, warnings.append)) == recorded[:num_complete]
    has_incomplete_line = not data[:cut].endswith(b"\n")
    assert [f"row {num_complete + 2}: incomplete" in warning for warning in warnings] == [True] * has_incomplete_line
    write(path, recorded[num_complete:])  # a new writer removes the incomplete line and appends
    assert path.read_bytes() == data


def test_readable_while_it_grows(tmp_path):
    path = tmp_path / "play.jsonl"
    writer = RecordingWriter(path, HEADER)
    assert list(read_recording(path)) == []
    writer.add(RecordedEpisode([0, 1, 2], 1.5, True, 12))
    assert list(read_recording(path)) == [RecordedEpisode([0, 1, 2], 1.5, True, 12)]
    writer.close()


def test_empty_file_becomes_a_recording(tmp_path):
    path = tmp_path / "play.jsonl"
    path.write_text("")
    write(path, [RecordedEpisode([1])])
    assert len(list(read_recording(path))) == 1


def test_other_files_are_not_overwritten(tmp_path):
    path = tmp_path / "play.jsonl"
    write(path, [])
    with pytest.raises(UserError, match=r"holds a recording of Tiny-v0 with 3 primitives, not of Other-v0 with 3"):
        RecordingWriter(path, RecordingHeader("Other-v0", 3))
    path.write_text("my notes\n")
    with pytest.raises(UserError, match="row 1: not the header"):
        RecordingWriter(path, HEADER)
    assert path.read_text() == "my notes\n"


def test_writer_rejects_invalid_actions(tmp_path):
    with RecordingWriter(tmp_path / "play.jsonl", HEADER) as writer, pytest.raises(ValueError, match="3 primitives"):
        writer.add(RecordedEpisode([0, 3]))


def header(**changes):
    entry = {"format": "masp-recording", "version": 1, "env_id": "", "num_primitives": 3, "primitive_names": []}
    return json.dumps({**entry, **changes})


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("[1]", "{}", "row 1: not the header"),
        (header(version=2), "{}", "row 1: version 2 is not supported"),
        (header(num_primitives=0), "{}", r"row 1: num_primitives must be in 1\.\."),
        (header(primitive_names=["A"]), "{}", "row 1: primitive_names must be a list of 3"),
        (header(), "{", r"row 2: broken JSON"),
        (header(), "3", "row 2: expected an object"),
        ('{"a":' * 100_000, "{}", "row 1: not the header"),
        (header(), "[" * 100_000, "row 2: broken JSON"),
        (header(), '{"actions": 3}', "row 2: expected an object with a list 'actions'"),
        (header(), '{"actions": [true]}', "row 2: 'actions' must hold integers"),
        (header(), '{"actions": [0, 3]}', r"row 2: action 3 is not one of 0\.\.2"),
        (header(), '{"actions": [0, -1]}', r"row 2: action -1 is not one of 0\.\.2"),
        (header(), '{"actions": [], "score": NaN}', "row 2: 'score' must be a number"),
        (header(), '{"actions": [], "success": 1}', "row 2: 'success' must be"),
        (header(), '{"actions": [], "frames": 1.5}', "row 2: 'frames' must be"),
    ],
)
def test_error_names_the_broken_row(tmp_path, first, second, message):
    path = tmp_path / "play.jsonl"
    path.write_text(f"{first}\n{second}\n")
    with pytest.raises(UserError, match=message) as raised:
        list(read_recording(path))
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
