"""Every file in examples/ runs from an empty folder and prints what it promises."""

from __future__ import annotations

import importlib.util
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
    "demonstrations": ("10 episodes of MiniGrid-DoorKey-5x5-v0", "demonstrated steps beside", "at the end:"),
    "transfer": ("similarity unchanged: True", "return before learning"),
    "callbacks_and_early_stop": ("4,000 frames: return", "bandit is done", "stopped after"),
    "mining_from_minari": ("mined 4 macros from pole-play", "the agent decides among 6 actions"),
    "sweep_in_one_program": ("{'meta_learning_rate': 0.01}: groups found", "over 3 seeds", "one of the runs: Run("),
    "tracking": ("1 file of events", "1 run\n", "1 curve of evaluation/return", "videos: ['.gif']"),
}
ARGUMENTS = {
    "dqn_purejaxrl": ["--steps", "640", "--seeds", "2"],
    "dqn_cleanrl_jax": ["--total-timesteps", "300", "--learning-starts", "100"],
}
"""For those whose own budget is more than a few seconds."""
TESTED_ELSEWHERE = {"dqn_cleanrl_torch", "tutorial"}
"""tests/interop/test_torch_example.py (needs PyTorch) and tests/docs/test_tutorial.py."""

NEEDS = {"mining_from_minari": ("minari",), "tracking": ("wandb", "mlflow")}
"""Packages of examples that are not installed with masp or for its tests."""


def test_every_example_is_tested():
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(OUTPUT) | TESTED_ELSEWHERE


def test_the_readme_trains_an_agent_that_acts(tmp_path):
    text = (EXAMPLES.parent / "README.md").read_text()
    code = text.partition("## From Python")[2].partition("```python\n")[2].partition("```")[0]
    assert len(code.splitlines()) <= 15
    short = code.replace("frames=50_000", "frames=3000, eval_episodes=4")
    assert short != code
    done = run_python(["-c", short + "\nprint('ended', ended)"], tmp_path)
    assert "Run(runs/pole: CartPole-v1 masp, 3,0" in done and "ended True" in done


@pytest.mark.parametrize("name", OUTPUT)
def test_examples_run(name, tmp_path):
    for package in NEEDS.get(name, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs the package {package}: make extras")
    output = run_python([str(EXAMPLES / f"{name}.py"), *ARGUMENTS.get(name, [])], tmp_path)
    for text in OUTPUT[name]:
        assert text in output
    assert list(tmp_path.iterdir()) == []


def run_python(arguments, folder):
    """What a Python process prints; it runs in `folder`."""
    quick = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, *arguments]
    process = subprocess.run(command, cwd=folder, env=quick, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout
