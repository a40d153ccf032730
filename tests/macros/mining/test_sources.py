"""Reading files, folders and data sets into pooled episodes."""

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masp.errors import UserError
from masp.macros.minari import read_minari
from masp.macros.mining import MiningSettings, mine_macros
from masp.macros.mining.mine import mine
from masp.macros.mining.report import report
from masp.macros.mining.sources import open_sources
from masp.macros.recording import RecordedEpisode, RecordingHeader, RecordingWriter

V2 = "db traj id : 1\nframe,reward,score,terminal,action\n"


def agc(path, actions, score=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(V2 + "".join(f"{i},0,{score},0,{a}\n" for i, a in enumerate(actions)))
    return path


def recording(path, episodes, header=None):
    with RecordingWriter(path, header or RecordingHeader("Tiny-v0", 18)) as writer:
        for episode in episodes:
            writer.add(episode)
    return path


def test_folder_is_read_in_natural_order_and_nothing_crosses_files(tmp_path):
    agc(tmp_path / "pong" / "10.txt", [4, 5])
    agc(tmp_path / "pong" / "2.txt", [2, 3])
    recording(tmp_path / "pong" / "own.jsonl", [RecordedEpisode([1])])
    (tmp_path / "pong" / "picture.png").write_bytes(b"\0")
    (source,) = open_sources([tmp_path])
    assert source.episodes.actions.tolist() == [1, 2, 3, 4, 5]
    assert source.episodes.lengths.tolist() == [1, 2, 2]
    assert source.files == 3
    assert source.games == ("pong",)


def test_report_counts_macros_per_source(tmp_path):
    a = agc(tmp_path / "pong" / "1.txt", [1, 2, 3, 1, 2, 3])
    b = agc(tmp_path / "qbert" / "1.txt", [0, 1, 2, 3])
    summary = report(mine(open_sources([a, b]), MiningSettings(k=1, max_length=3)))
    (macro,) = summary["macros"]
    assert macro["actions"] == [1, 2, 3]
    assert macro["names"] == ["FIRE", "UP", "RIGHT"]
    assert macro["count"] == 3
    assert macro["share"] == 3 / (4 + 2)
    assert macro["sources"] == {str(a): 2, str(b): 1}
    assert summary["rows_covered"] == 9 / 10
    assert summary["changes_covered"] == 6 / 8  # of five and three changes, 3-1 and 0-1 are not inside a macro
    assert any("pong, qbert" in warning for warning in summary["warnings"])
    assert any("stride 4" in warning for warning in summary["warnings"])


def test_same_source_twice_counts_twice(tmp_path):
    path = agc(tmp_path / "1.txt", [1, 2, 3])
    summary = report(mine(open_sources([path, path]), MiningSettings(k=1)))
    assert summary["macros"][0]["sources"] == {str(path): 2}
    assert any("listed twice" in warning for warning in summary["warnings"])


def test_ten_thousand_files(tmp_path):
    for i in range(10_000):
        (tmp_path / f"{i}.txt").write_bytes(b"0,0,0,0,1\n1,0,0,0,2\n2,0,0,1,3\n")
    assert [m.count for m in mine_macros(tmp_path, literal=True).macros] == [10_000]


def test_reading_needs_memory_for_a_few_chunks_only(tmp_path):
    path = tmp_path / "1.txt"
    path.write_bytes(V2.encode() + b"123456,0,7890,0,3\n" * 1_000_000)  # 18 MB of text, 1 MB of actions
    tracemalloc.start()
    try:
        (source,) = open_sources([path])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(source.episodes.actions) == 1_000_000
    assert peak < 120e6


def test_successful_and_top_scoring_episodes(tmp_path):
    good = RecordedEpisode([1, 2, 3], score=2.0, success=True)
    bad = RecordedEpisode([3, 2, 1], score=1.0, success=False)
    path = recording(tmp_path / "play.jsonl", [bad, good])
    for options in ({"only_successful": True}, {"top_scoring": 0.5}):
        assert [m.actions for m in mine_macros(path, literal=True, **options).macros] == [(1, 2, 3)]


def test_incomplete_line_is_reported(tmp_path):
    path = recording(tmp_path / "play.jsonl", [RecordedEpisode([1, 2, 3])])
    path.write_bytes(path.read_bytes() + b'{"actions":[1,')
    (source,) = open_sources([path])
    assert source.episodes.count == 1
    assert "row 3: incomplete" in source.warnings[0]


def test_action_sets_must_agree(tmp_path):
    a = agc(tmp_path / "1.txt", [1, 2, 3])
    b = recording(tmp_path / "b.jsonl", [RecordedEpisode([1])], RecordingHeader("Tiny-v0", 6))
    with pytest.raises(UserError, match=r"b.jsonl: its play has 6 primitive actions, that of .*1.txt has 18"):
        mine_macros([a, b])
    with pytest.raises(UserError, match=r"its play has"):
        mine_macros(tmp_path)
    named = [RecordingHeader("Tiny-v0", 2, names) for names in (("A", "B"), ("B", "A"))]
    c = recording(tmp_path / "c.jsonl", [RecordedEpisode([1])], named[0])
    d = recording(tmp_path / "d.jsonl", [RecordedEpisode([1])], named[1])
    with pytest.raises(UserError, match=r"d.jsonl: its actions have other names"):
        mine_macros([c, d])


def test_actions_beyond_num_primitives_are_rejected(tmp_path):
    path = agc(tmp_path / "1.txt", [1, 2, 17])
    with pytest.raises(UserError, match=r"1.txt, row 5: action '17' is not one of 0\.\.5: play of another game\?"):
        mine_macros(path, num_primitives=6)
    own = recording(tmp_path / "own.jsonl", [RecordedEpisode([17])])
    with pytest.raises(UserError, match=r"own.jsonl: contains action 17, but the primitives are 0\.\.5"):
        mine_macros(own, num_primitives=6)


def test_skip_broken_keeps_intact_files(tmp_path):
    agc(tmp_path / "1.txt", [1, 2, 3])
    (tmp_path / "2.txt").write_text("")
    (tmp_path / "3.txt").write_text(V2 + "0,0,0,0,4\nbroken\n0,0,0,0,5\n")
    with pytest.raises(UserError, match=r"2.txt: the file is empty"):
        open_sources([tmp_path])
    (source,) = open_sources([tmp_path], skip_broken=True)
    assert source.episodes.actions.tolist() == [1, 2, 3, 4]
    assert "2.txt: the file is empty" in source.warnings[0]
    assert "3.txt, row 4: expected 5 columns" in source.warnings[1]


def test_missing_or_empty_sources(tmp_path):
    agc(tmp_path / "pong" / "1.txt", [1])
    with pytest.raises(UserError, match=r"qbert: no such file or folder; .* has pong"):
        open_sources([tmp_path / "qbert"])
    with pytest.raises(UserError, match=r"write minari:ID"):
        open_sources([tmp_path / "no" / "where"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"holds no recorded play"):
        open_sources([tmp_path / "empty"])
    with pytest.raises(UserError, match=r"neither a file nor a folder"):
        open_sources(["/dev/null"])


LINES = st.sampled_from(
    [
        b"db traj id : 1",
        b"frame,reward,score,terminal,action",
        b"0,0,0,0,1",
        b"1, 0, 0, True, 2",
        b"2,0,0,x,3",
        b'{"format":"masp-recording","version":1,"env_id":"a","num_primitives":18,"primitive_names":[]}',
        b'{"actions":[0,1,2],"score":1.0,"success":true,"frames":3}',
        b'{"actions":' + b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe\x00",
        b"",
    ]
)


@given(st.binary(max_size=200) | st.lists(LINES | st.binary(max_size=30), max_size=6).map(b"\n".join), st.booleans())
@settings(deadline=None)
def test_any_file_is_read_or_rejected_with_one_line(tmp_path_factory, content, skip_broken):
    path = tmp_path_factory.mktemp("any") / "1.txt"
    path.write_bytes(content)
    try:
        (source,) = open_sources([path], skip_broken=skip_broken)
    except UserError as error:
        assert str(path) in str(error) and "\n" not in str(error) and len(str(error)) < 500 + len(str(path))
    else:
        assert source.episodes.lengths.sum() == len(source.episodes.actions)


def test_files_of_another_action_set_are_rejected(tmp_path):
    agc(tmp_path / "pong" / "1.txt", [1, 2, 3, 1, 2, 3])
    recording(tmp_path / "pong" / "2.jsonl", [RecordedEpisode([5])], RecordingHeader("Other-v0", 6))
    with pytest.raises(UserError, match=r"2\.jsonl: its play has 6 primitive actions, that of .*1\.txt has 18"):
        open_sources([tmp_path])
    with pytest.raises(UserError, match=r"action '3' is not one of 0\.\.2: play of another game"):
        open_sources([tmp_path / "pong" / "1.txt"], num_primitives=3)


def write_minari(tmp_path, monkeypatch, space):
    minari = pytest.importorskip("minari")
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    gym = pytest.importorskip("gymnasium")
    buffers = [
        EpisodeBuffer(
            id=i,
            observations=[np.zeros(1, np.float32)] * 4,
            actions=[
                space.dtype.type(a) if space.shape == () else np.zeros(space.shape, space.dtype) for a in (1, 2, i)
            ],
            rewards=[0.0, 0.0, float(i)],
            terminations=[False, False, True],
            truncations=[False] * 3,
            infos={"success": [False, False, False, bool(i)]},
        )
        for i in range(2)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari warns about missing descriptions
        minari.create_dataset_from_buffers(
            dataset_id="tiny/play-v0",
            buffer=buffers,
            observation_space=gym.spaces.Box(-1, 1, (1,)),
            action_space=space,
            algorithm_name="hand",
            author="nobody",
            author_email="nobody@example.org",
            code_permalink="none",
        )


def test_reading_minari(tmp_path, monkeypatch):
    gym = pytest.importorskip("gymnasium")
    write_minari(tmp_path, monkeypatch, gym.spaces.Discrete(3))
    for name in ("minari:tiny/play-v0", str(tmp_path / "tiny" / "play-v0")):
        (source,) = open_sources([name])
        assert source.header.num_primitives == 3
        assert source.episodes.actions.tolist() == [1, 2, 0, 1, 2, 1]
        assert source.episodes.lengths.tolist() == [3, 3]
        assert source.episodes.scores.tolist() == [0, 1]
        assert source.episodes.success.tolist() == [0, 1]
    with pytest.raises(UserError, match="cannot be opened as a local Minari data set"):
        read_minari("tiny/other-v0")


def test_minari_with_continuous_actions_is_rejected(tmp_path, monkeypatch):
    gym = pytest.importorskip("gymnasium")
    write_minari(tmp_path, monkeypatch, gym.spaces.Box(-1, 1, (2,)))
    with pytest.raises(UserError, match="macros need discrete actions"):
        open_sources(["minari:tiny/play-v0"])


def test_missing_minari_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "minari", None)
    with pytest.raises(UserError, match=r"pip install 'masp-rl\[minari\]'"):
        open_sources(["minari:tiny/play-v0"])
