"""Pages name only commands, flags, files and extras that exist."""

import importlib
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from masp.cli.main import COMMANDS, Parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OF_SCRIPTS = {
    # examples/dqn_*.py and tests/campaign/*.py
    *("--total-timesteps", "--exploration-steps", "--no-penalty", "--copies", "--start"),
    *("--minutes", "--damages", "--kills", "--every"),
    "--signal",  # sbatch
}
"""Flags of other programs than masp that pages name."""


def parser_of(name):
    module = importlib.import_module(COMMANDS[name][0])
    parser = Parser(prog=f"masp {name}")
    module.add_arguments(parser)
    return parser


def commands(text):
    """Words of the complete `masp` commands in blocks of code."""
    blocks = re.findall(r"```(?:bash)?\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"(?:^    .*\n)+", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in map(str.strip, lines) if line.startswith("masp ")]


def inline_flags(text):
    """Flags that prose names in backticks."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return {flag for code in re.findall(r"`([^`]*)`", prose) for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", code)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_pages_parse(page):
    for name, *words in commands(page.read_text(encoding="utf-8")):
        assert name in COMMANDS, f"{page.name}: there is no command masp {name}"
        words = [word for word in words if word not in ("...", "\\")]
        try:
            parser_of(name).parse_args(words)
        except SystemExit as error:
            pytest.fail(f"{page.name}: masp {name} {shlex.join(words)} is not understood ({error})")


@pytest.fixture(scope="module")
def known_flags():
    return {flag for name in COMMANDS for flag in parser_of(name)._flags()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_flags_in_prose_exist(page, known_flags):
    unknown = inline_flags(page.read_text(encoding="utf-8")) - known_flags - OF_SCRIPTS
    assert not unknown, f"{page.name}: {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_and_extras_of_pages_exist(page):
    text = page.read_text(encoding="utf-8")
    names = re.findall(r"\b((?:examples|tests|benchmarks|docs|src)/[\w/.-]+\w)", text)
    assert not [name for name in names if not (ROOT / name).exists()]
    modules = re.findall(r"`((?:agent|similarity|environments|macros|training|masp)/[\w/]+\.py)`", text)
    package = ROOT / "src/masp"
    assert not [name for name in modules if not (package / name.removeprefix("masp/")).exists()]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {name for group in re.findall(r"(?:masp-rl|\.)\[([a-z0-9,]+)\]", text) for name in group.split(",")}
    assert named <= extras.keys()


def test_wrong_commands_and_flags_are_found(known_flags):
    assert commands("```bash\nmasp train X --framse 3  # no\n```\n\n    masp eval RUN\n") == [
        ["train", "X", "--framse", "3"],
        ["eval", "RUN"],
    ]
    assert inline_flags("`masp mine --kk 3` and `--frames`, ```--no```") - known_flags == {"--kk"}
