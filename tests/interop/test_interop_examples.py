"""Every file in examples/interop/ runs from an empty folder and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "interop"

OUTPUT = {
    "sb3_dqn": ("stable_baselines3", ("DQN: 3,0", "MaspDQN: 3,0", "loaded: similarity of 'left-right'")),
    "tune_and_train": ("optuna", ("best of 3 trials", "trained with penalty weight")),
}
"""The package that an example needs, and parts of its output."""


def test_every_example_is_tested():
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(OUTPUT)


@pytest.mark.parametrize("name", OUTPUT)
def test_examples_run(name, tmp_path):
    package, texts = OUTPUT[name]
    pytest.importorskip(package)
    quick = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    process = subprocess.run(command, cwd=tmp_path, env=quick, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    for text in texts:
        assert text in process.stdout
    assert list(tmp_path.iterdir()) == []
