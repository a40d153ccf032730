"""Search for settings with Optuna, then train with the winner.

    pip install "masp-rl[tune]"
    python examples/interop/tune_and_train.py

In a shell, the same is `masp tune planted-bandit ...` and `masp train --config FILE`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import masp
from masp.cli.main import main as run_command


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "search"
        command = "tune planted-bandit --trials 3 --seeds 2 --frames 2000 --eval-every-frames 500"
        command += " --min-replay-steps 500 --vary penalty_weight=0.01:1"
        if run_command([*command.split(), "--out", str(out)]):
            raise SystemExit("the search failed")
        run = masp.train(config=out / "best.toml", seed=7, out=str(Path(folder) / "run"))
        print(f"trained with penalty weight {run.config.similarity.penalty_weight:.3g}: {run}")


if __name__ == "__main__":
    main()
