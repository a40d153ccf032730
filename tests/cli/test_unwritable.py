"""What the system refuses: a command says it in one line and exits with 1, whatever it was about to read or write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import masp
from masp.cli.main import main

FULL = Path("/dev/full")
needs_full_device = pytest.mark.skipif(not FULL.exists(), reason="Linux has /dev/full")
TINY = "--frames 400 --min-replay-steps 60 --num-envs 4 --eval-episodes 4"
LONG = "n" * 300
COMMANDS = [
    f"train planted-bandit {TINY} --out {LONG}",
    f"train planted-bandit {TINY} --out file/run",
    f"train planted-bandit {TINY} --config {LONG}",
    f"sweep planted-bandit --vary penalty_weight=0.1 --seeds 1 {TINY} --out {LONG}",
    f"demo --frames 400 --seeds 1 --out {LONG}",
    "demo --frames 400 --seeds 1 --out file/demo",
    f"eval {LONG}",
    f"record planted-bandit --policy random --episodes 2 --out {LONG}",
    f"record planted-bandit --policy {LONG} --episodes 2 --out play.jsonl",
    f"mine {LONG} --out macros2.json",
    f"macros show {LONG}",
    f"macros show macros.json --png {LONG}.png",
    "macros show macros.json --png file/picture.png",
    "macros show macros.json --png /dev/full",
    f"macros noise macros.json --out {LONG}",
    "macros noise macros.json --out /dev/full",
    f"similarity show {LONG}",
    f"similarity show b.safetensors --png {LONG}.png",
    "similarity show b.safetensors --png file/picture.png",
    "similarity show b.safetensors --png /dev/full",
    f"plot {LONG}",
    f"report {LONG}",
    f"watch {LONG}",
    f"push b.safetensors ./{LONG}",
    "push b.safetensors ./file/shared",
    f"pull ./{LONG} --out b2.safetensors",
    f"reproduce planted --only rainbow --jobs 1 --store {LONG}",
    f"table planted --store {LONG}",
    f"table planted --store . --figures {LONG}",
    f"results --store {LONG}",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    actions = masp.ActionSet(4, [(0, 1), (2, 2)])
    actions.save(tmp_path / "macros.json")
    masp.save_bundle(tmp_path / "b.safetensors", masp.Bundle(actions, np.eye(6)))
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.replace(LONG, "LONG"))
def test_one_line_and_exit_code_1(command, folder, capsys):
    if str(FULL) in command and not FULL.exists():
        pytest.skip("Linux has /dev/full")
    before = sorted(folder.rglob("*"))
    assert main(command.split()) == 1
    said = capsys.readouterr().err
    reason = said.splitlines()[-1]
    assert reason.startswith(f"masp {command.split()[0]}: ") and "Traceback" not in said
    assert any(text in reason for text in ("File name too long", "Not a directory", "File exists", "No space left"))
    assert ".partial" not in reason
    assert sorted(folder.rglob("*")) == before


def masp_process(arguments, folder, **streams):
    """Exit code and stderr of `masp` with other streams."""
    code = "import sys; from masp.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *arguments.split()]
    process = subprocess.run(command, cwd=folder, text=True, **{"stderr": subprocess.PIPE} | streams)
    return process.returncode, process.stderr


@pytest.mark.parametrize(
    "arguments", ["macros show macros.json", "completion bash", "--help", "--version", "mine --help"]
)
@pytest.mark.parametrize("buffered", [True, False])
@needs_full_device
def test_output_on_a_full_disk(arguments, buffered, folder):
    env = os.environ | {"PYTHONUNBUFFERED": "" if buffered else "1"}
    with open(FULL, "w") as full:
        code, said = masp_process(arguments, folder, stdout=full, env=env)
    assert code == 1 and "No space left on device" in said and len(said.splitlines()) == 1


@pytest.mark.parametrize("arguments", ["macros show macros.json --json", "--help"])
def test_output_into_a_closed_pipe(arguments, folder):
    read, write = os.pipe()
    os.close(read)
    try:
        assert masp_process(arguments, folder, stdout=write) == (1, "")
    finally:
        os.close(write)


@pytest.mark.parametrize(
    ("arguments", "expected"), [("macros show macros.json", 0), ("macros show none", 2), ("none", 2)]
)
@pytest.mark.parametrize("stream", [1, 2])
def test_closed_streams(arguments, expected, stream, folder):
    code = "import sys; from masp.cli.main import main; sys.exit(main())"
    command = ["sh", "-c", f'exec "$@" {stream}>&-', "sh", sys.executable, "-c", code, *arguments.split()]
    process = subprocess.run(command, cwd=folder, text=True, capture_output=True)
    assert process.returncode == expected and "Traceback" not in process.stdout + process.stderr


@needs_full_device
def test_errors_on_a_full_disk_keep_their_exit_code(folder):
    with open(FULL, "w") as full:
        for arguments in ("macros show none", "none"):
            assert masp_process(arguments, folder, stderr=full)[0] == 2
