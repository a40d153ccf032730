"""The command `masp mine`: macro file, output and errors."""

import json
from pathlib import Path

import pytest

from masp.cli.main import main
from masp.macros.actions import ActionSet
from masp.macros.recording import RecordedEpisode, RecordingHeader, RecordingWriter

HUMAN = Path(__file__).parents[3] / "shared" / "data" / "human" / "trajectories"
V2 = "db traj id : 1\nframe,reward,score,terminal,action\n"


@pytest.fixture
def play(tmp_path):
    path = tmp_path / "pong" / "1.txt"
    path.parent.mkdir()
    path.write_text(V2 + "".join(f"{i},0,0,0,{a}\n" for i, a in enumerate([0, 0, 0, 0, 3, 3, 1, 4] * 5)))
    return path


def test_macro_file_and_table(play, tmp_path, capsys):
    out = tmp_path / "macros.json"
    assert main(["mine", str(play), "--k", "4", "--out", str(out)]) == 0
    actions = ActionSet.load(out)
    assert actions.num_primitives == 18
    assert 0 < len(actions.macros) <= 4
    assert all(len(set(macro.actions)) > 1 for macro in actions.macros)
    captured = capsys.readouterr()
    assert "RIGHT×2 FIRE LEFT" in captured.out
    assert "constant runs" in captured.out
    assert "stride 4" in captured.err


def test_json_is_one_object(play, tmp_path, capsys):
    out = tmp_path / "macros.json"
    assert main(["mine", str(play), str(play), "--literal", "--k", "5", "--out", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["out"] == str(out)
    assert summary["settings"]["keep_constant"] is True
    assert len(summary["macros"]) == 5
    assert set(summary["macros"][0]) == {"actions", "names", "length", "count", "share", "sources"}
    assert summary["sources"][0]["rows"] == 40
    assert [m["actions"] for m in summary["macros"]] == [list(m.actions) for m in ActionSet.load(out).macros]


def test_every_option(tmp_path, capsys):
    path = tmp_path / "play.jsonl"
    with RecordingWriter(path, RecordingHeader("Tiny-v0", 4, ("WAIT", "A", "B", "C"))) as writer:
        for i in range(4):
            writer.add(RecordedEpisode([0, 0, 1, 1, 2, 2, 3, 3] * 3, float(i), i > 0, 24))
    options = "--k 3 --min-length 2 --max-length 4 --stride 2 --only-successful --top-scoring 0.5 --skip-broken"
    filters = "--keep-constant --keep-noop --keep-contained --contained-ratio 0.8 --drop-same-effect --min-count 3"
    rest = "--by-frequency --num-primitives 4 --env-id Other-v0 --noop 0"
    out = tmp_path / "macros.json"
    assert main(["mine", str(path), *f"{options} {filters} {rest} --json --out {out}".split()]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["env_id"] == "Other-v0"
    assert summary["sources"][0]["episodes_used"] == 2
    assert summary["sources"][0]["rows_used"] == 24
    # Each sequence occurs in 3 rounds of 2 episodes. Of equal counts the longer come first. A B C has the same effect
    # as WAIT A B C, and A B that of WAIT A B.
    assert [m["names"] for m in summary["macros"]] == [["WAIT", "A", "B", "C"], ["WAIT", "A", "B"], ["B", "C"]]
    assert [m["count"] for m in summary["macros"]] == [6, 6, 6]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", "", "1.txt: the file is empty"),
        (b"\x89PNG\r\n\0", "", "1.txt, row 2: a binary file"),
        (V2 + "0,0,0,0,1\n0,0,0,x,1\n", "", "1.txt, row 4: terminal 'x'"),
        (V2 + "0,0,0,0,1\n", "--num-primitives 1", "1.txt, row 3: action '1' is not one of 0..0"),
        (V2 + "0,0,0,0,1\n", "--k 0", "k must be a positive integer"),
        (V2 + "0,0,0,0,1\n", "--literal --min-count 3", "--literal filters no sequences; leave out --min-count"),
        (V2 + "0,0,0,0,1\n", "--only-successful", "does not say which episodes were successful"),
        (V2 + "0,0,0,0,1\n", "--num-primitives 0", "--num-primitives must be positive"),
        (V2 + "," * 1_000_000 + "\n", "", "1.txt, row 3: longer than 4096 bytes"),
    ],
)
def test_invalid_input_exits_with_2_and_one_line(tmp_path, capsys, content, options, message):
    path = tmp_path / "1.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["mine", str(path), *options.split(), "--out", str(tmp_path / "out.json")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out.json").exists()


def test_out_must_be_a_new_file_in_an_existing_folder(play, tmp_path, capsys):
    assert main(["mine", str(play), "--out", str(tmp_path / "no" / "where.json")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert main(["mine", str(play), "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    existing = tmp_path / "notes.json"
    existing.write_text("my notes")
    assert main(["mine", str(play), "--out", str(existing)]) == 2
    assert "notes.json: exists already; choose another file" in capsys.readouterr().err
    assert existing.read_text() == "my notes"


def test_bad_usage_and_help(capsys):
    for argv, code in ((["mine"], 2), (["mine", "x", "--out", "y", "--k", "many"], 2), (["mine", "--help"], 0)):
        with pytest.raises(SystemExit) as stopped:
            main(argv)
        assert stopped.value.code == code
    assert "--top-scoring" in capsys.readouterr().out


@pytest.mark.skipif(not HUMAN.is_dir(), reason="the recordings of human play are not available")
@pytest.mark.parametrize("game", ["montezumarevenge", "pitfall", "pong", "privateeye"])
def test_human_play_literal_and_useful(tmp_path, capsys, game):
    summaries = {}
    for name, options in (("literal", ["--literal"]), ("useful", [])):
        out = str(tmp_path / f"{name}.json")
        assert main(["mine", str(HUMAN / game), "--stride", "4", *options, "--json", "--out", out]) == 0
        summaries[name] = json.loads(capsys.readouterr().out)
    if game == "pitfall":
        assert summaries["literal"]["constant_macros"] == 20
        assert summaries["literal"]["noop_macros"] == 6
    assert summaries["useful"]["constant_macros"] == 0
    assert summaries["useful"]["changes_covered"] > summaries["literal"]["changes_covered"]


@pytest.mark.skipif(not HUMAN.is_dir(), reason="the recordings of human play are not available")
def test_raw_frames_of_pitfall_are_almost_all_constant_runs(tmp_path, capsys):
    assert main(["mine", str(HUMAN / "pitfall"), "--literal", "--json", "--out", str(tmp_path / "m.json")]) == 0
    assert json.loads(capsys.readouterr().out)["constant_macros"] == 30
