"""The scripts of `masp completion`, asked for completions in the shells that are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from masp.cli.main import COMMANDS, main

QUESTIONS = {
    ("masp", "rep"): {"reproduce"},
    ("masp", "train", "--vari"): {"--variant"},
    ("masp", "train", "--variant", ""): {"rainbow", "macros", "masp", "outcomes"},
    ("masp", "reproduce", "minatar-"): {"minatar-k", "minatar-noise", "minatar-transfer"},
    ("masp", "macros", "sh"): {"show"},
}


def script(shell, capsys):
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_bash_and_zsh_complete(shell, capsys):
    if shutil.which(shell) is None:
        pytest.skip(f"needs the shell {shell}")
    text, ask = script(shell, capsys), ""
    for words in QUESTIONS:
        ask += f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}\n"
        ask += "_masp; echo ${COMPREPLY[@]}\n"
    if shell == "zsh":
        text += "\nemulate sh\n"  # as bashcompinit does around the function
    done = subprocess.run([shell, "-c", text + ask], capture_output=True, text=True, check=True)
    answers = [set(line.split()) for line in done.stdout.splitlines()]
    for (words, expected), answer in zip(QUESTIONS.items(), answers, strict=True):
        if shell == "zsh":  # which filters by itself
            answer = {word for word in answer if word.startswith(words[-1])}
        assert expected <= answer and all(word.startswith(words[-1]) for word in answer), (words, answer)


def test_fish_completes(capsys, tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("needs the shell fish")
    file = tmp_path / "masp.fish"
    file.write_text(script("fish", capsys))
    for words, expected in QUESTIONS.items():
        line = " ".join(words)
        command = f"source {file}; complete -C '{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", command], capture_output=True, text=True, check=True)
        assert expected <= {answer.split("\t")[0] for answer in done.stdout.splitlines()}, words


def test_scripts_know_every_command_and_start_no_python(capsys):
    for shell in ("bash", "zsh", "fish"):
        text = script(shell, capsys)
        assert all(name in text for name in COMMANDS)
        assert "python" not in text and "$(masp" not in text


def test_help_and_import_load_nothing_heavy():
    code = "import sys, masp, masp.cli.main as m\ntry: m.main(['--help'])\nexcept SystemExit: pass\n"
    code += "heavy = {'jax', 'flax', 'optax', 'numpy', 'gymnasium', 'matplotlib', 'rich', 'wandb', 'mlflow', 'torch'}\n"
    code += "sys.exit(repr(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "completion" in done.stdout
