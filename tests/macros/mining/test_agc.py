"""Reading Atari Grand Challenge text: all layouts, and broken files."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masp.errors import UserError
from masp.macros.mining import agc
from masp.macros.mining.agc import read_agc

HUMAN = Path(__file__).parents[4] / "shared" / "data" / "human" / "trajectories"
V2 = "db traj id : 1\nframe,reward,score,terminal,action\n"


def write(folder, text):
    path = folder / "1.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        V2 + "0,0,0,0,3\n1,5,5,1,4\n2,0,5,0,17\n",
        "db traj id : 99\nframe,reward,score,terminal, action\n0, 0, 0, False, 3\n1, 5, 5, True ,4\n2,0,5,False, 17",
        "db traj id : 1\n0, 0, 0, False, 3\n1, 5, 5, True, 4\n2, 0, 5, False, 17\n",
        "0,0,0,0,3\n1,5,5,1,4\n2,0,5,0,17\n",
        V2.replace("\n", "\r\n") + "0,0,0,0,3\r\n1,5,5,1,4\r\n2,0,5,0,17\r\n",
        V2 + "0,0.0,0.0,0,3\n1,-5,5.0,1,4\n\n2,0,5,0,17\n\n",
        "action,terminal,score\n3,0,0\n4,1,5\n17,0,5\n",
        "\ufeff" + V2 + "0,1e1,0,0,3\n1,5,5,true,4\n2,0,5,false,17",
    ],
    ids=["v2", "v1", "no-columns", "bare", "crlf", "floats-blanks", "own-columns", "bom-exponent"],
)
def test_all_layouts_give_the_same_episodes(tmp_path, text):
    episodes, broken = read_agc(write(tmp_path, text), 18)
    assert broken is None
    assert episodes.actions.tolist() == [3, 4, 17]
    assert episodes.lengths.tolist() == [2, 1]  # the second row is terminal
    assert episodes.scores.tolist() == [5, 5]


def test_without_score_column_scores_are_nan(tmp_path):
    episodes, _ = read_agc(write(tmp_path, "terminal,action\n0,1\n1,2\n0,3\n"), 18)
    assert np.isnan(episodes.scores).all()
    assert episodes.lengths.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("rows", "row", "reason"),
    [
        ("0,0,0,0,3\n1,0,0,0\n", 4, "expected 5 columns (frame,reward,score,terminal,action), got 4: '1,0,0,0'"),
        ("0,0,0,0,3\n1,0,0,0,3,9\n", 4, "got 6"),
        ("0,0,0,0,3\n1,0,0,0,\n", 4, "action '' is not a whole number"),
        ("0,0,0,0,3.5\n", 3, "action '3.5' is not a whole number"),
        ("0,0,0,0,-1\n", 3, "action '-1' is not a whole number"),
        ("0,0,0,0,18\n", 3, "action '18' is not one of 0..17: play of another game?"),
        ("0,0,0,0,99999999999999999999\n", 3, "is not one of 0..17"),
        ("0,0,0,2,1\n", 3, "terminal '2' is not 0, 1, True or False"),
        ("0,0,0,Trze,1\n", 3, "terminal 'Trze'"),
        ("0,0,0,0,1\n0,zero,0,0,1\n", 4, "reward 'zero' is not a number"),
        ("0,0,1.2.3,0,1\n", 3, "score '1.2.3' is not a number"),
        ("0-1,0,0,0,1\n", 3, "frame '0-1' is not a number"),
        ("0,-,0,0,1\n", 3, "reward '-' is not a number"),
        ("0,0,0,0,1\n\x01\x02\n", 4, "got 1: '\\x01\\x02'"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_error_names_the_broken_row(tmp_path, rows, row, reason, skip):
    path = write(tmp_path, V2 + rows)
    message = re.escape(f"{path}, row {row}: ") + ".*" + re.escape(reason)
    if not skip:
        with pytest.raises(UserError, match=message):
            read_agc(path, 18)
        return
    episodes, broken = read_agc(path, 18, skip_broken=True)
    assert re.match(message, str(broken))
    assert len(episodes.actions) == row - 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", r"row 3: a binary file"),
        ("hello world\nfoo\n", "row 1: not Atari Grand Challenge text: 'hello world'"),
        (V2, "row 3: no rows of play"),
        ("db traj id : 1\nframe,action\n0,1\n", "row 2: columns 'frame,action'; expected"),
    ],
)
def test_files_of_other_kinds_are_rejected(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read_agc(write(tmp_path, text), 18)


@pytest.mark.parametrize("columns", [5_000, 1_000_000])
@pytest.mark.parametrize("before", ["", V2, V2 + "0,0,0,0,3\n"])
def test_error_about_a_very_long_row_is_short(tmp_path, columns, before):
    with pytest.raises(UserError, match=r"row \d: .{10,200}$"):
        read_agc(write(tmp_path, before + "0," * columns + "0\n"), 18)


def test_endless_line_is_rejected_without_reading_it(tmp_path, monkeypatch):
    monkeypatch.setattr(agc, "_CHUNK_BYTES", 1 << 14)
    path = write(tmp_path, V2 + "0,0,0,0,3\n" + "7" * 1_000_000)
    with pytest.raises(UserError, match="row 4: longer than 4096 bytes"):
        read_agc(path, 18)


rows = st.lists(
    st.tuples(
        st.integers(0, 99),
        st.sampled_from(["0", "-1", "2.5", "100"]),
        st.integers(-5, 5),
        st.booleans(),
        st.integers(0, 17),
    ),
    min_size=1,
    max_size=30,
)


@given(rows, st.sampled_from([",", ", ", " ,"]), st.booleans())
def test_vectorised_and_row_by_row_parsing_agree(rows, separator, words):
    def line(row):
        frame, reward, score, terminal, action = row
        return separator.join(map(str, [frame, reward, score, terminal if words else int(terminal), action]))

    text = "".join(line(row) + "\n" for row in rows).encode()
    vectorised = agc._parse_vectorised(text.translate(None, b" "), agc.COLUMNS, 18)
    by_row = agc._parse_by_row(text, agc.COLUMNS, 18)
    assert vectorised is not None
    assert vectorised.actions.tolist() == by_row.actions.tolist() == [row[4] for row in rows]
    assert vectorised.ends.tolist() == by_row.ends.tolist() == [i for i, row in enumerate(rows) if row[3]]
    assert vectorised.end_scores == by_row.end_scores
    assert vectorised.last_score == by_row.last_score == rows[-1][2]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 17)), min_size=1, max_size=60), st.integers(12, 100))
def test_chunk_size_does_not_change_the_result(tmp_path_factory, rows, chunk):
    path = write(
        tmp_path_factory.mktemp("agc"), V2 + "".join(f"0,0,{i},{int(t)},{a}\n" for i, (t, a) in enumerate(rows))
    )
    whole, _ = read_agc(path, 18)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agc, "_CHUNK_BYTES", chunk)
        chunked, _ = read_agc(path, 18)
    for name in ("actions", "lengths", "scores", "success"):
        assert getattr(whole, name).tolist() == getattr(chunked, name).tolist()
    ends = [i for i, (terminal, _) in enumerate(rows) if terminal or i == len(rows) - 1]
    assert whole.scores.tolist() == ends


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_rejected(tmp_path_factory, data):
    path = write(tmp_path_factory.mktemp("agc"), V2.encode() + data)
    for skip in (False, True):
        try:
            read_agc(path, 18, skip)
        except UserError as error:
            assert str(path) in str(error) and "\n" not in str(error)


@pytest.mark.skipif(not HUMAN.is_dir(), reason="the recordings of human play are not available")
@pytest.mark.parametrize(
    ("game", "number", "score"),
    [("montezumarevenge", 53061, 71500), ("pitfall", 42036, 48990), ("pong", 22869, 5), ("privateeye", 8749, 100400)],
)
def test_recordings_of_human_play(game, number, score):
    episodes, _ = read_agc(HUMAN / game / "1.txt", 18)
    assert len(episodes.actions) == number
    assert episodes.scores.tolist() == [score]
