"""Runs with a torso of the user's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import flax.linen as nn
import numpy as np
import pytest

import masp
import own_parts
from masp import UserError
from masp.cli.main import main
from masp.errors import UserCodeError
from own_parts import Raising, Unflattened, Wide, make_corridor

OBSERVATION = np.eye(6, dtype=np.float32)[0]


def test_a_torso_is_part_of_the_run(tiny, tmp_path):
    run = masp.train(make_corridor, **tiny, torso=Wide(12, (5,)), out=tmp_path / "run")
    assert run.config.agent.torso == 'own_parts:Wide {"more": [5], "width": 12}'
    torso = run.params["torso"]
    assert torso["Dense_0"]["kernel"].shape == (6, 12)
    assert torso["Dense_1"]["kernel"].shape == (12, 5)
    assert masp.load_agent(run.path).act(OBSERVATION) in (0, 1)


def test_a_torso_on_the_command_line(tmp_path, capsys):
    numbers = {"--frames": 120, "--min-replay-steps": 40, "--num-envs": 2, "--eval-episodes": 2}
    arguments = ["--variant", "rainbow", *(str(part) for pair in numbers.items() for part in pair)]
    torso, out = ["--torso", "own_parts:Wide"], str(tmp_path / "run")
    assert main(["train", "own_parts:make_corridor", *torso, *arguments, "--out", out]) == 0
    assert masp.load_run(out).params["torso"]["Dense_0"]["kernel"].shape == (6, 8)
    assert "own_parts:make_corridor" in capsys.readouterr().err


def test_a_local_torso_is_asked_for_elsewhere(tiny, tmp_path):
    class Local(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(4)(x)

    with pytest.warns(UserWarning, match="the torso Local cannot be imported again"):
        run = masp.train(make_corridor, **tiny, torso=Local(), variant="rainbow", out=tmp_path / "run")
    assert run.agent.act(OBSERVATION) in (0, 1)
    code = f"""
import flax.linen as nn, numpy as np, masp
try:
    masp.load_agent({str(run.path)!r})
except masp.UserError as error:
    print(error)
class Mine(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(4, name="Dense_0")(x)
print(masp.load_agent({str(run.path)!r}, torso=Mine()).values(np.eye(6, dtype=np.float32)[0]).tolist())
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = process.stdout.splitlines()
    assert "a torso Local that only the process that trained it had" in lines[0]
    assert np.allclose(eval(lines[1]), run.agent.values(OBSERVATION), atol=1e-5)


def test_a_wrong_output_gets_one_line(tiny, tmp_path):
    with pytest.raises(UserError) as caught:
        masp.train(make_corridor, **tiny, torso=Unflattened(), out=tmp_path / "run")
    assert str(caught.value) == (
        "torso Unflattened: expected features of shape [B, F] with B = 1 for observations of shape [1, 6], "
        "got shape [1, 6, 1]"
    )


SCRIPT = """
import flax.linen as nn, masp

class Net(nn.Module):
    width: int = 8
    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.width)(x)

print("begin")
run = masp.train("own_parts:make_corridor", torso=Net(5), out="run", **{settings})
print(run.config.agent.torso, run.params["torso"]["Dense_0"]["kernel"].shape, run.agent.actions.num_primitives)
"""


def test_a_script_that_trains_at_its_top_level_runs_once(tiny, tmp_path):
    """Its class is used as it is; who imports it elsewhere is told that the script must not train then."""
    (tmp_path / "trainer.py").write_text(SCRIPT.replace("{settings}", repr(tiny | {"variant": "rainbow"})))

    def python(*arguments, folder=tmp_path):
        paths = os.pathsep.join([*sys.path, str(Path(own_parts.__file__).parent)])
        env = os.environ | {"PYTHONPATH": paths, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
        return subprocess.run([sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True)

    first = python("trainer.py")
    assert first.stdout.splitlines() == ["begin", 'trainer:Net {"width": 5} (6, 5) 2'], first.stderr
    load = "import masp, sys\ntry: masp.load_agent(sys.argv[1])\nexcept masp.UserError as error: print(error)"
    again = python("-c", load, "run").stdout
    assert "trainer:Net: the module before the colon cannot be imported: it trains when it is imported" in again
    (tmp_path / "elsewhere").mkdir()
    absent = python("-c", load, "../run", folder=tmp_path / "elsewhere").stdout
    assert "No module named 'trainer'; it must be installed, or in the current directory" in absent


def test_a_torso_that_raises_is_named(tiny, tmp_path):
    with pytest.raises(UserCodeError) as caught:
        masp.train(make_corridor, **tiny, torso=Raising(), out=tmp_path / "run")
    assert str(caught.value).startswith(
        "torso Raising raised for observations of shape [1, 6]: KeyError: 'no weights' (own_parts.py, line "
    )
