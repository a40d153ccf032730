"""Speed beside other libraries, on this machine, in turns.

    python benchmarks/peers.py [--turns 7] [--cases atari minigrid minatar] [--out benchmarks/peers.json]

Competitors are installed into an environment of their own, `benchmarks/.peers`. All processes of a case are started and
warmed up first; then each works one turn while the others sleep. Ratios are those of one turn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from masp.ops import kernels_status

HERE = Path(__file__).resolve().parent
PACKAGES = (
    "torch==2.13.0",
    "stable-baselines3==2.9.2",
    "tianshou==2.0.1",
    "minatar==1.0.15",
    "gymnasium==1.4.0",
    "minigrid==3.2.0",
    "ale-py==0.12.1",
    "opencv-python-headless",
)

RAINBOW = {
    "env_options": ["noops=0"],
    "stack": 4,
    "clip_rewards": True,
    "replay_steps": 20_000,
    "min_replay_steps": 1_000,
}
ENVPOOL, PYTHON = ["backend=envpool"], ["backend=minigrid"]
DQN = {"num_atoms": 1, "noisy": False, "dueling": False, "double": False, "prioritised": False, "n_step": 1}


@dataclass(frozen=True)
class Competitor:
    """A script and its arguments."""

    script: str
    arguments: tuple[str, ...]
    ours: bool = False


def ours(env: str, preset: str, iterations: int, **changes: Any) -> Competitor:
    return Competitor("ours.py", (env, preset, str(iterations), json.dumps(changes)), ours=True)


CASES: dict[str, dict[str, Competitor]] = {
    # Nature network, 51 atoms, dueling, noisy, double, n = 3, prioritised, batch 32, one update per four steps
    "atari": {
        "ours": ours("Breakout", "paper-atari", 10, num_envs=8, **RAINBOW),
        "tianshou": Competitor("tianshou_atari.py", ("1", "20")),
        "tianshou, 8 environments": Competitor("tianshou_atari.py", ("8", "20")),
    },
    # DQN, one 3x3 convolution and a hidden layer of 128, batch 64, one update per eight steps
    "minigrid": {
        "ours, envpool": ours("DoorKey-5x5", "minigrid", 200, env_options=ENVPOOL, steps_per_update=8, **DQN),
        "ours": ours("DoorKey-5x5", "minigrid", 200, env_options=PYTHON, steps_per_update=8, **DQN),
        "sb3": Competitor("sb3_dqn.py", ("minigrid", "1", "50", "8", "64", "128")),
        "sb3, 8 environments": Competitor("sb3_dqn.py", ("minigrid", "8", "50", "8", "64", "128")),
    },
    # DQN, one 3x3 convolution and a hidden layer of 128, batch 32, one update per four steps
    "minatar": {
        "ours": ours("minatar-breakout", "minatar", 400, **DQN),
        "sb3": Competitor("sb3_dqn.py", ("minatar", "1", "100", "4", "32", "128")),
        "sb3, 8 environments": Competitor("sb3_dqn.py", ("minatar", "8", "100", "4", "32", "128")),
    },
}


class Process:
    """A competitor that waits for its turn."""

    def __init__(self, competitor: Competitor, peers_python: Path):
        python = sys.executable if competitor.ours else str(peers_python)
        command = [python, str(HERE / "peers" / competitor.script), *competitor.arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.size = self._read()

    def turn(self) -> float:
        """Seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._read()["seconds"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"{' '.join(map(str, self._process.args))} ended: see its message above")  # type: ignore[arg-type]


def peers_python() -> Path:
    """The interpreter of the competitors' environment, made on first use."""
    home = HERE / ".peers"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (home / "ready").touch()
    return python


def measure(case: str, turns: int) -> dict[str, Any]:
    """Steps and updates per second of all competitors, and ours over each."""
    python = peers_python()
    processes = {name: Process(competitor, python) for name, competitor in CASES[case].items()}
    speed: dict[str, list[float]] = {name: [] for name in processes}
    for number in range(turns):
        for name in list(processes)[:: 1 if number % 2 == 0 else -1]:
            speed[name].append(processes[name].size["steps"] / processes[name].turn())
    figures: dict[str, Any] = {"turns": turns}
    for name, process in processes.items():
        process.close()
        per_update = process.size["steps"] / process.size["updates"]
        figures[name] = {
            "steps_per_second": float(np.median(speed[name])),
            "updates_per_second": float(np.median(speed[name])) / per_update,
            "steps_per_update": per_update,
        }
    best = next(iter(processes))
    for name in processes:
        if not CASES[case][name].ours:
            ratios = np.array(speed[best]) / np.array(speed[name])
            figures[name][f"{best} over this, ratio"] = float(np.median(ratios))
            figures[name]["ratio_interval"] = [float(x) for x in np.quantile(ratios, [0.1, 0.9])]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    figures = {}
    for case in args.cases:
        figures[case] = {**measure(case, args.turns), "load_average": os.getloadavg()[0], "kernels": kernels_status()}
        print(json.dumps({case: figures[case]}, indent=1), flush=True)
    if args.out:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
