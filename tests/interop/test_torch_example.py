"""The PyTorch example runs from an empty folder, with and without the penalty."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "dqn_cleanrl_torch.py"


@pytest.mark.parametrize("penalty", [True, False])
def test_example_runs(penalty, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed; 'make interop' installs it")
    short = ["--total-timesteps", "640", "--learning-starts", "320", "--copies", "4"]
    command = [sys.executable, str(EXAMPLE), *short, *([] if penalty else ["--no-penalty"])]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert f"16 actions, {'penalty' if penalty else 'no penalty'}, 640 steps" in process.stdout
    assert ("learned similarity: " in process.stdout) == penalty
    assert list(tmp_path.iterdir()) == []
