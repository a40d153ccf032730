"""Every file in examples/ runs from an empty folder and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

OUTPUT = {
    "own_environment": ("own_environment:Corridor masp", "of the episodes arrive", "similarity of the two macros"),
    "own_network": ('own_network:TwoLayers {"width": 32}', "first layer: (4, 32)"),
    "macro_vector_env": ("value of the first cell 0.599", "by right-right-right-right"),
    "acting_in_a_loop": ("values of all actions", "one episode of", "episodes in 4 environments"),
    "dqn_purejaxrl": ("128 actions, penalty, 640 steps", "learned similarity: "),
    "dqn_cleanrl_jax": ("CartPole-v1: ", "similarity of the first action to all: [1.0"),
    "callbacks_and_early_stop": ("4,000 frames: return", "bandit is done", "stopped after"),
}
ARGUMENTS = {
    "dqn_purejaxrl": ["--steps", "640", "--seeds", "2"],
    "dqn_cleanrl_jax": ["--total-timesteps", "300", "--learning-starts", "100"],
}
"""For those whose own budget is more than a few seconds."""
TESTED_ELSEWHERE = {"dqn_cleanrl_torch"}
"""Needs PyTorch: tests/interop/test_torch_example.py."""


def test_every_example_is_tested():
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(OUTPUT) | TESTED_ELSEWHERE


@pytest.mark.parametrize("name", OUTPUT)
def test_examples_run(name, tmp_path):
    quick = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *ARGUMENTS.get(name, [])]
    process = subprocess.run(command, cwd=tmp_path, env=quick, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    for text in OUTPUT[name]:
        assert text in process.stdout
    assert list(tmp_path.iterdir()) == []
