"""Every command and every Python line of the README runs; budgets are cut, nothing else is changed."""

import re
import shlex
from pathlib import Path

import pytest

from masp.cli.main import main

TEXT = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
SMALL = {
    # appended flags: the last one counts
    "train": ["--frames", "3000", "--min-replay-steps", "800", "--eval-episodes", "4"],
    "sweep": ["--frames", "3000", "--min-replay-steps", "800", "--eval-episodes", "4", "--seeds", "2"],
    "eval": ["--episodes", "4"],
    "record": ["--episodes", "4"],
    "reproduce": ["--plan"],
}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def masp_commands():
    lines = [shlex.split(line, comments=True) for block in blocks("bash") for line in block.splitlines()]
    return [words[1:] for words in lines if words and words[0] == "masp"]


def test_readme_has_commands():
    assert {"train", "report", "eval", "sweep", "record", "mine", "similarity"} <= {c[0] for c in masp_commands()}


def test_commands_run(tmp_path, monkeypatch, capsys):
    """In the order of the page, in one folder, because later commands use what earlier ones wrote."""
    monkeypatch.chdir(tmp_path)
    for command in masp_commands():
        code = main([*command, *SMALL.get(command[0], [])])
        assert code == 0, f"masp {shlex.join(command)} ended with {code}: {capsys.readouterr().err}"
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "macros.json").exists() and (tmp_path / "grid.safetensors").exists()


def test_wrapper_lines_run():
    """The second block of Python; tests/test_examples.py runs the first."""
    training, wrapping = blocks("python")
    namespace = {}
    exec("\n".join(line for line in training.splitlines() if line.startswith(("import", "macros"))), namespace)
    exec(wrapping, namespace)
    assert namespace["info"]["steps"] == 2
    assert namespace["info"]["discount"] == pytest.approx(0.99**2)
