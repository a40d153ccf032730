"""Which penalty weight the preset `gymnasium` should have: two small tasks, several weights, mean over the run.

    python benchmarks/gymnasium_weight.py [--weights 0 0.03 0.1 0.3] [--seeds 300 301 302 303 304] [--out FOLDER]

Runs in `--out` that are finished are read, others are trained, so the command can be stopped and goes on where it was.
The plan and what came out is docs/log/2026-11-19-gymnasium-weight.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium
import numpy as np

import masp
from masp.report.statistics import compare, difference_of

FRAMES = 40_000
PRESET_WEIGHT = 0.1


class Copies(gymnasium.ActionWrapper):
    """An environment in which every action has so many copies."""

    def __init__(self, env: gymnasium.Env, copies: int):
        super().__init__(env)
        self._primitives = int(env.action_space.n)
        self.action_space = gymnasium.spaces.Discrete(self._primitives * copies)

    def action(self, action: int) -> int:
        return int(action) % self._primitives


def cartpole() -> gymnasium.Env:
    """CartPole with 16 copies of both actions: many actions, most of them interchangeable."""
    return Copies(gymnasium.make("CartPole-v1"), 16)


def acrobot() -> gymnasium.Env:
    """Acrobot as it is: three actions that all differ."""
    return gymnasium.make("Acrobot-v1")


TASKS = {"cartpole-copies": (cartpole, 0.0, 500.0), "acrobot": (acrobot, -500.0, 0.0)}
"""Environment, and the returns that count as 0 and as 1."""


def score(task: str, weight: float, seed: int, folder: Path) -> float:
    """The mean over all evaluations of one run, of the return in units of the task's range."""
    make, low, high = TASKS[task]
    out = folder / task / f"weight-{weight:g}" / f"seed-{seed}"
    if (out / "summary.json").exists():
        run = masp.load_run(out)
    else:
        settings = {"variant": "masp", "penalty_weight": weight, "seed": seed, "frames": FRAMES}
        run = masp.train(make, preset="gymnasium", resume=out.exists(), out=str(out), **settings)
    returns = [row["eval_return"] for row in run.metrics if row.get("eval_return") is not None]
    return (float(np.mean(returns)) - low) / (high - low)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", nargs="+", type=float, default=[0, 0.03, 0.1, 0.3])
    parser.add_argument("--seeds", nargs="+", type=int, default=[300, 301, 302, 303, 304])
    parser.add_argument("--out", default="runs/gymnasium-weight")
    args = parser.parse_args()
    scores: dict[float, list[np.ndarray]] = {weight: [np.zeros(0)] * len(TASKS) for weight in args.weights}
    for seed in args.seeds:  # seeds outside, so that an interrupted measurement has all weights
        for number, task in enumerate(TASKS):
            for weight in args.weights:
                value = score(task, weight, seed, Path(args.out))
                scores[weight][number] = np.append(scores[weight][number], value)
                print(f"{task} weight {weight:g} seed {seed}: {value:.4f}", flush=True)
    for weight, tasks in scores.items():
        line = ", ".join(f"{task} {values.mean():.3f}" for task, values in zip(TASKS, tasks, strict=True))
        if weight != PRESET_WEIGHT and PRESET_WEIGHT in scores:
            value, low, high = compare(tasks, scores[PRESET_WEIGHT], difference_of)
            line += f"; minus weight {PRESET_WEIGHT:g}: {value:+.3f} [{low:+.3f}, {high:+.3f}]"
        print(f"weight {weight:g}: {line}")


if __name__ == "__main__":
    main()
