"""Training and looking at runs from the command line, as a user would; the output is read."""

import base64
import dataclasses
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import masp
from masp.cli import demo
from masp.cli.demo import conclusion
from masp.cli.main import COMMANDS, main
from masp.similarity.bundle import load_bundle
from masp.similarity.consensus import consensus
from masp.training.run_dir import RunDir
from masp.training.similarity_history import read_history

SMALL = ["--frames", "400", "--num-envs", "4", "--hidden", "8", "--batch-size", "8", "--min-replay-steps", "100"]
SMALL += ["--replay-steps", "1000", "--log-every-frames", "200", "--eval-every-frames", "200", "--eval-episodes", "4"]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """One trained run that the tests look at."""
    out = tmp_path_factory.mktemp("runs") / "grid"
    options = ["--env-options", "size=4", "copies=2", "max_steps=8"]
    assert main(["train", "planted-grid", *SMALL, *options, "--seed", "2", "--out", str(out)]) == 0
    return out


def test_train_writes_what_was_asked_for(run_dir):
    config = json.loads((run_dir / "config.json").read_text())
    assert config["env"] == "planted-grid" and config["frames"] == 400 and config["seed"] == 2
    assert config["batch_size"] == 8 and config["num_atoms"] == 1  # a flag, and the preset
    assert json.loads((run_dir / "summary.json").read_text())["frames"] >= 400


def test_history_of_similarities_begins_at_the_start_and_has_a_moment_per_row(run_dir):
    run = RunDir(run_dir)
    history = read_history(run.history_file, len(run.read_actions()))
    assert history.frames.tolist() == [0, *(row["frames"] for row in run.read_metrics())]
    start = 1 / (len(run.read_actions()) - 1)  # the constant start: each row sums to one plus the diagonal
    np.testing.assert_allclose(history.matrix(0)[0, 1:], start, rtol=1e-5)
    similarity = load_bundle(run.bundle_file).similarity
    np.testing.assert_allclose(history.matrix(len(history.frames) - 1), similarity, atol=similarity[0, 1:].max() / 255)


def test_rewards_of_all_actions_add_up_to_the_returns(run_dir):
    rows = RunDir(run_dir).read_metrics()
    for row in rows:  # the grid pays at the end of an episode only
        assert len(row["rewards"]) == len(row["decisions"])
        assert sum(row["rewards"]) == pytest.approx(row["episodes"] * (row["return"] or 0))
    assert sum(map(sum, (row["rewards"] for row in rows))) > 0


def test_eval(run_dir, capsys):
    assert main(["eval", str(run_dir), "--episodes", "10", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["episodes"] == 10
    assert report["success"] == pytest.approx(report["return"])  # the grid pays 1 for an arrival and nothing else
    low, high = report["return_interval"]
    assert low <= report["return"] <= high
    assert main(["eval", str(run_dir), "--episodes", "10"]) == 0
    assert f"return {report['return']:.3f}" in capsys.readouterr().out


def test_eval_with_a_video(run_dir, tmp_path, capsys):
    video = tmp_path / "episode.gif"
    assert main(["eval", str(run_dir), "--episodes", "1", "--video", str(video), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    with Image.open(video) as frames:
        assert frames.n_frames == said["video_steps"] > 0
    assert main(["eval", str(run_dir), "--video", str(tmp_path / "episode.avi")]) == 2
    assert main(["eval", str(run_dir), "--video", str(tmp_path / "nowhere" / "episode.gif")]) == 2
    assert "there is no such directory" in capsys.readouterr().err


def test_folders_that_are_not_there_get_one_line(run_dir, tmp_path, capsys):
    assert main(["similarity", "export", str(run_dir), "--out", str(tmp_path / "nowhere" / "b")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    file = tmp_path / "file"
    file.touch()
    assert main(["demo", "--out", str(file)]) == 2
    error = capsys.readouterr().err
    assert str(file) in error and error.count("\n") == 1


def test_similarity_show_and_export(run_dir, tmp_path, capsys):
    assert main(["similarity", "show", str(run_dir), "--json", "--png", str(tmp_path / "map.png")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["actions"]) == 8 and shown["actions"][0] == "up" and len(shown["similarity"]) == 8
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert main(["similarity", "show", str(run_dir), "--effects", str(tmp_path / "effects.png")]) == 0
    assert "what the penalty did" in capsys.readouterr().out
    assert (tmp_path / "effects.png").read_bytes().startswith(b"\x89PNG")
    bundle = str(tmp_path / "grid.safetensors")
    assert main(["similarity", "export", str(run_dir), "--out", bundle]) == 0
    capsys.readouterr()
    assert main(["similarity", "show", bundle, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == shown
    assert main(["similarity", "export", bundle, "--consensus", "--out", str(tmp_path / "rows.safetensors")]) == 0
    capsys.readouterr()
    assert main(["similarity", "show", str(tmp_path / "rows.safetensors"), "--json"]) == 0
    np.testing.assert_array_equal(
        json.loads(capsys.readouterr().out)["similarity"], consensus(np.array(shown["similarity"]))
    )
    assert main(["similarity", "show", bundle, "--effects", str(tmp_path / "none.png")]) == 2
    assert "needs the metrics of a run" in capsys.readouterr().err
    assert main(["similarity", "export", str(run_dir), "--out", bundle]) == 2


def test_demo_small(tmp_path, capsys, monkeypatch):
    tiny = dataclasses.replace(demo.TASKS[0], options=("size=4", "copies=2"))
    monkeypatch.setattr(demo, "TASKS", (tiny,))  # the other task trains in the same way
    out = tmp_path / "demo"
    assert main(["demo", "--frames", "2500", "--seeds", "2", "--out", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    variants = report["tasks"]["copies"]
    assert [(name, row["actions"]) for name, row in variants.items()] == [("rainbow", 4), ("macros", 8), ("masp", 8)]
    assert all(Path(file).stat().st_size > 5000 for file in report["figures"]) and len(report["figures"]) == 2
    packed = re.search(r'id="content">([^<]*)</script>', Path(report["page"]).read_text()).group(1)
    page = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert page["title"] == "masp demo" and [lead for lead, _ in page["story"]] == [
        *("What was compared", tiny.title, "What to do next")
    ]
    assert "as if unrelated" in page["story"][0][1] and "success over training" in page["story"][1][1]
    assert "`masp envs`" in page["story"][2][1]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    assert main(["demo", "--out", str(tmp_path / "other")]) == 2
    assert (tmp_path / "other" / "file").exists()


def test_the_demo_concludes_from_its_figures_alone():
    def said(rainbow, macros, masp, half=0.01, seeds=3):
        figures = {"rainbow": (rainbow, 4), "macros": (macros, 12), "masp": (masp, 12)}
        return conclusion(
            {
                name: {
                    "success_over_training": x,
                    "success_over_training_interval": (x - half, x + half),
                    "actions": actions,
                    "seeds": seeds,
                }
                for name, (x, actions) in figures.items()
            }
        )

    costs = "The 8 additional actions cost 0.20 of success over training (0.80 to 0.60). masp wins back "
    assert said(0.8, 0.6, 0.7) == costs + "50 % of it (0.70)."
    assert said(0.8, 0.6, 0.9) == costs + "all of it (0.90)."
    assert said(0.8, 0.6, 0.5) == costs + "nothing of it on these seeds (0.50)."
    helps = "The 8 additional actions help: success over training 0.20 without, 0.30 with them"
    assert said(0.2, 0.3, 0.4) == helps + ". masp adds to that (0.40)."
    assert said(0.2, 0.3, 0.25) == helps + ". masp adds nothing to that on these seeds (0.25)."
    overlap = ", but the intervals overlap: more seeds would have to tell"
    assert said(0.2, 0.3, 0.6, half=0.1) == f"{helps}{overlap}. masp adds to that (0.60)."
    assert said(0.2, 0.3, 0.31) == f"{helps}. masp adds to that (0.31){overlap}."
    one = ", but one seed tells little"
    assert said(0.2, 0.3, 0.4, half=0.0, seeds=1) == f"{helps}{one}. masp adds to that (0.40){one}."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "NoSuchGame-v9"], "NoSuchGame"),
        (["train", "planted-grid", "--no-such-flag", "3"], "--no-such-flag"),
        (["train", "planted-grid", "--batch-size", "many"], "--batch-size"),
        (["train", "planted-grid", "--batch-size", "2.5"], "whole number"),
        (["train", "planted-grid", "--gamma", "1.5"], "gamma must be at least 0 and at most 1"),
        (["train", "planted-grid", "--variant", "best"], "--variant"),
        (["train", "planted-grid", "--preset", "mine"], "no preset 'mine'"),
        (["train", "planted-grid", "--macros", "{tmp}/none.json"], "no such macro file"),
        (["train", "planted-grid", "--macros", "{tmp}/broken.json"], "broken JSON at line 1"),
        (["train", "planted-grid", "--macros", "{tmp}/wrong.json"], "macro 1 uses action 9"),
        (["train", "planted-grid", "--bundle", "{tmp}/broken.json"], "not a bundle"),
        (["train", "planted-grid", "--env-options", "colour=red"], "colour"),
        (["train", "Pendulum-v1"], "continuous"),
        (["eval", "{tmp}"], "not a run directory"),
        (["similarity", "show", "{tmp}/none"], "no such run directory"),
        (["dance"], "dance"),
    ],
)
def test_bad_input_gets_one_line(arguments, says, tmp_path, capfd):
    (tmp_path / "broken.json").write_text("{")
    wrong = {"format": "masp-macros", "version": 1, "num_primitives": 4, "macros": [{"actions": [0]}, {"actions": [9]}]}
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    before = sorted(p.name for p in tmp_path.iterdir())
    filled = [argument.format(tmp=tmp_path) for argument in arguments]
    if arguments[0] == "train":
        filled += ["--out", str(tmp_path / "run")]
    try:
        code = main(filled)
    except SystemExit as error:  # argparse leaves this way
        code = error.code
    said = capfd.readouterr().err
    assert code == 2 and says in said
    assert len([line for line in said.splitlines() if line.startswith("masp")]) == 1 and "Traceback" not in said
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_used_directory_is_left_alone(run_dir, capfd):
    before = {p: p.read_bytes() for p in run_dir.rglob("*") if p.is_file()}
    assert main(["train", "planted-grid", *SMALL, "--out", str(run_dir)]) == 2
    assert "holds a finished run" in capfd.readouterr().err
    assert {p: p.read_bytes() for p in run_dir.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    assert len(capsys.readouterr().out) > 200


def test_help_does_not_wait_for_jax():
    code = (
        "import sys; from masp.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\nassert 'jax' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0 and "similarity" in done.stdout


def test_a_run_is_shared_with_its_card(run_dir, tmp_path, capsys):
    assert main(["push", str(run_dir), str(tmp_path / "shared")]) == 0
    assert main(["pull", str(tmp_path / "shared"), "--out", str(tmp_path / "b.safetensors")]) == 0
    assert "trained on planted-grid" in capsys.readouterr().out
    bundle, summary = load_bundle(tmp_path / "b.safetensors"), json.loads((run_dir / "summary.json").read_text())
    assert (bundle.card.env, bundle.card.seed, bundle.card.frames) == ("planted-grid", 2, summary["frames"])
    assert bundle.card.versions["masp"] == masp.__version__
    assert bundle.card.figures["updates"] == summary["updates"]
