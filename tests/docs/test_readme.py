"""Every command of README and quickstart and every Python line of the README runs; only budgets are cut."""

import glob
import re
import shlex
from pathlib import Path

import pytest

from masp.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
QUICKSTART = (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")
SMALL = {
    # appended flags: the last one counts
    "train": ["--frames", "3000", "--min-replay-steps", "800", "--eval-episodes", "4"],
    "sweep": ["--frames", "3000", "--min-replay-steps", "800", "--eval-episodes", "4", "--seeds", "2"],
    "eval": ["--episodes", "4"],
    "record": ["--episodes", "4"],
    "reproduce": ["--plan"],
}


def blocks(language, text=TEXT):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def masp_commands(text=TEXT):
    lines = [shlex.split(line, comments=True) for block in blocks("bash", text) for line in block.splitlines()]
    return [words[1:] for words in lines if words and words[0] == "masp"]


def test_readme_has_commands():
    assert {"train", "report", "eval", "sweep", "record", "mine", "similarity"} <= {c[0] for c in masp_commands()}


def run_all(text, capsys):
    """In the order of the page, in one folder, because later commands use what earlier ones wrote."""
    for command in masp_commands(text):
        words = [word for argument in command for word in (glob.glob(argument) if "*" in argument else [argument])]
        code = main([*words, *SMALL.get(words[0], [])])
        assert code == 0, f"masp {shlex.join(words)} ended with {code}: {capsys.readouterr().err}"


def test_commands_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_all(TEXT, capsys)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "macros.json").exists() and (tmp_path / "grid.safetensors").exists()


def test_commands_of_the_quickstart_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_all(QUICKSTART, capsys)
    assert len(list((tmp_path / "runs").iterdir())) == 4
    assert (tmp_path / "compare.html").exists() and (tmp_path / "macros.json").exists()


def test_wrapper_lines_run():
    """The second block of Python; tests/test_examples.py runs the first."""
    training, wrapping = blocks("python")
    namespace = {}
    exec("\n".join(line for line in training.splitlines() if line.startswith(("import", "macros"))), namespace)
    exec(wrapping, namespace)
    assert namespace["info"]["steps"] == 2
    assert namespace["info"]["discount"] == pytest.approx(0.99**2)
