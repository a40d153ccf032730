"""A short run on Airstriker from the command line: trained, evaluated, and nothing left running."""

import json
import multiprocessing

import pytest

pytest.importorskip("stable_retro")

from masp.cli.main import main

TINY = "--variant macros --frames 400 --num-envs 2 --hidden 8 --batch-size 4 --stack 2 --num-atoms 1 --n-step 1"
TINY += " --no-noisy --no-dueling --no-prioritised --replay-steps 400 --min-replay-steps 20 --eval-episodes 2"
TINY += " --log-every-frames 200 --eval-every-frames 0 --checkpoint-every-frames 200"
OPTIONS = ["--env-options", "buttons=LEFT,B", "size=36", "noops=5", "max_steps=20", "repeat=2"]


def test_train_and_eval(tmp_path, capsys):
    before = {child.pid for child in multiprocessing.active_children()}
    out = str(tmp_path / "run")
    assert main(["train", "retro-Airstriker", *TINY.split(), *OPTIONS, "--out", out]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["frames"] >= 400  # frames of the emulator: 200 steps of two
    assert rows[-1]["updates"] >= (200 - 20) // 4
    assert rows[-1]["eval_episode_steps"] == 20
    capsys.readouterr()
    assert main(["eval", out, "--episodes", "3", "--env-options", "max_steps=9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episode_steps"] == 9
    assert {child.pid for child in multiprocessing.active_children()} == before


def test_a_missing_rom_is_one_line_and_code_2(capsys):
    assert main(["train", "SuperMarioBros-Nes-v0"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("masp train: SuperMarioBros-Nes-v0: its ROM")
    assert not any("Traceback" in line for line in said)
