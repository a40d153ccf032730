"""The list of environments, and what a command says where something is not installed."""

import json
import subprocess
import sys

import pytest

from masp.cli.main import main
from masp.environments.registry import FAMILIES

WITHOUT = """
import contextlib, io, json, sys
for module in {modules!r}:
    sys.modules[module] = None  # as if it were not installed, to importlib.util.find_spec and to import
from masp.cli.main import main
answers = []
for command in {commands!r}:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(command)
    answers.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(answers))
"""


def run_without(modules, commands):
    """Exit code, output and errors of commands in a Python that lacks these modules."""
    code = WITHOUT.format(modules=list(modules), commands=list(commands))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def train(env_id, *options):
    return ["train", env_id, "--out", "never-written", *(("--env-options", *options) if options else ())]


COMMANDS = {
    # what is typed, and the extra it needs
    "minatar": train("minatar-breakout"),
    "atari": train("Pong"),
    "envpool": train("DoorKey-5x5", "backend=envpool"),
    "box2d": train("LunarLander-v3"),
    "retro": train("street-fighter"),
    "minari": ["mine", "minari:some/dataset-v0", "--out", "never-written.json"],
}
MODULES = {
    "minatar": "pgx",
    "atari": "ale_py",
    "envpool": "envpool",
    "box2d": "Box2D",
    "retro": "stable_retro",
    "minari": "minari",
}


@pytest.fixture(scope="module")
def answers():
    """What each command answers where nothing optional is installed, but what it needs before its own extra."""
    bare = {extra for extra in COMMANDS if extra != "envpool"}
    listing = [["envs"], ["envs", "--json"], ["envs", "MinAtar"]]
    said = run_without([*MODULES.values(), "cv2"], [*(COMMANDS[extra] for extra in sorted(bare)), *listing])
    (envpool,) = run_without(["envpool"], [COMMANDS["envpool"]])
    return dict(zip([*sorted(bare), "table", "json", "one"], said, strict=True)) | {"envpool": envpool}


@pytest.mark.parametrize("extra", COMMANDS)
def test_a_missing_extra_is_named(answers, extra):
    code, _, said = answers[extra]
    assert code == 2
    line = said.splitlines()[-1]
    assert f"pip install 'masp-rl[{extra}]'" in line
    assert "Traceback" not in said


def test_every_optional_family_is_asked_for():
    """A family that comes with an extra has a command above."""
    extras = {family.extra for family in FAMILIES if family.extra}
    extras |= {package.extra for family in FAMILIES for package in (*family.backends, *family.optional)}
    assert extras <= set(COMMANDS)


def test_the_list_without_extras(answers):
    code, out, _ = answers["table"]
    assert code == 0
    assert all(f"pip install 'masp-rl[{extra}]'" in out for extra in ("minatar", "atari", "retro", "box2d"))
    (row,) = [line for line in out.splitlines() if line.startswith("MinAtar")]
    assert "missing" in row and "minatar-breakout" in row
    code, out, _ = answers["json"]
    families = {family["name"]: family for family in json.loads(out)["families"]}
    assert code == 0 and not families["MinAtar"]["installed"] and families["MinAtar"]["ids"] is None
    assert families["MiniGrid"]["installed"]
    assert "LunarLander-v3" not in families["Gymnasium"]["ids"]
    code, out, said = answers["one"]
    assert (code, out) == (2, "")
    assert said == "masp envs: MinAtar needs the package pgx: pip install 'masp-rl[minatar]'\n"


def test_the_list(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["envs"]) == 0
    table = capsys.readouterr().out
    for family in FAMILIES:
        (row,) = [line for line in table.splitlines() if line.startswith(family.name + " ")]
        assert family.examples[0] in row and family.preset in row
        assert ("installed" if family.installed else "missing") in row
    assert main(["envs", "--json"]) == 0
    about = json.loads(capsys.readouterr().out)["families"]
    assert [family["name"] for family in about] == [family.name for family in FAMILIES]
    assert set(about[0]["ids"]) == {"planted-bandit", "planted-grid"}
    assert main(["envs", "--all"]) == 0
    ids = capsys.readouterr().out.split()
    assert {"planted-grid", "CartPole-v1"} <= set(ids)


def test_ids_of_one_family(capsys):
    for asked in ("planted", "PLANT"):
        assert main(["envs", asked]) == 0
        assert capsys.readouterr().out == "planted-bandit\nplanted-grid\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "there is no family 'nothing'; there are planted, MinAtar, MiniGrid"),
        (["m"], "there is no family 'm'"),  # two begin so
        (["planted", "--all"], "exclude each other"),
    ],
)
def test_mistakes(arguments, says, capsys):
    assert main(["envs", *arguments]) == 2
    assert says in capsys.readouterr().err
