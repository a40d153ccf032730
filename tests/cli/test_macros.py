"""The command `masp macros`: output, pictures, noise and errors."""

import json

import pytest

from masp.cli.main import main
from masp.macros.actions import ActionSet, Macro


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "macros.json"
    macros = [Macro((1, 1, 2), "jump", 7), Macro((2, 2, 2)), Macro((1, 2))]
    ActionSet(3, macros, ("NOOP", "LEFT", "[UP]"), "Tiny-v0").save(path)
    return path


def test_show(file, capsys):
    assert main(["macros", "show", str(file)]) == 0
    out = capsys.readouterr().out
    assert "jump: LEFT×2 [UP]" in out
    assert "3 macros on 3 primitives of Tiny-v0; 1 are constant runs" in out


def test_show_json_and_png(file, tmp_path, capsys):
    png = tmp_path / "overlap.png"
    assert main(["macros", "show", str(file), "--json", "--png", str(png)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["macros"][0] == {"actions": [1, 1, 2], "name": "jump", "length": 3, "count": 7}
    # overlaps: jump with the run 1/3, jump with LEFT-UP 2/3, the run with LEFT-UP 1/3
    assert summary["mean_overlap"] == pytest.approx(4 / 9)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert summary["png"] == str(png)


def test_png_of_many_macros(tmp_path, capsys):
    path = tmp_path / "macros.json"
    ActionSet(3, [(i % 3, i % 2, 1) for i in range(100)]).save(path)
    assert main(["macros", "show", str(path), "--png", str(tmp_path / "many.png")]) == 0
    assert (tmp_path / "many.png").stat().st_size > 1000
    out = capsys.readouterr().out
    assert "100 macros" in out
    assert f"heat map written to {tmp_path / 'many.png'}" in out


def test_noise(file, tmp_path, capsys):
    out = tmp_path / "noisy.json"
    argv = ["macros", "noise", str(file), "--p", "0.5", "--seed", "3", "--out", str(out), "--json"]
    assert main(argv) == 0
    first = (json.loads(capsys.readouterr().out), out.read_text())
    assert main(argv) == 0
    assert (json.loads(capsys.readouterr().out), out.read_text()) == first
    before, after = ActionSet.load(file), ActionSet.load(out)
    assert after.lengths.tolist() == before.lengths.tolist()
    kept = set(range(3)) - set(first[0]["replaced"])
    assert all(after.macros[i] == before.macros[i] for i in kept)
    assert main(["macros", "noise", str(file), "--out", str(out)]) == 0
    assert "of 3 macros" in capsys.readouterr().out


def test_a_folder_that_is_not_there_is_an_error_of_the_system(file, capsys):
    assert main(["macros", "show", str(file), "--png", "nowhere/x.png"]) == 1
    assert "nowhere/x.png: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["show", "nowhere.json"], "no such macro file"),
        (["noise", "FILE", "--p", "2", "--out", "OUT"], "probability between 0 and 1"),
        (["noise", "FILE", "--seed", "-1", "--out", "OUT"], "seed must not be negative"),
        (["noise", "FILE", "--out", "nowhere/x.json"], "cannot be written"),
        (["show", "EMPTY", "--png", "x.png"], "no macros to draw"),
    ],
)
def test_invalid_input_exits_with_2_and_one_line(file, tmp_path, capsys, monkeypatch, argv, message):
    monkeypatch.chdir(tmp_path)
    ActionSet(3).save("EMPTY")
    argv = [{"FILE": str(file), "OUT": "out.json"}.get(word, word) for word in argv]
    assert main(["macros", *argv]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_bad_usage_and_help(capsys):
    for argv, code in ((["macros"], 2), (["macros", "show"], 2), (["macros", "--help"], 0)):
        with pytest.raises(SystemExit) as stopped:
            main(argv)
        assert stopped.value.code == code
    assert "noise" in capsys.readouterr().out
