"""What is learned on tasks with known groups: is the truth found, and does it help?

  python -m masp.experiments.planted --out runs/planted --seeds 8

Trials that are finished in --out are not run again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from masp.analysis.statistics import bootstrap_interval
from masp.config import TrainConfig, replace
from masp.presets import from_preset
from masp.training.run_dir import RunDir
from masp.training.train import train_seeds

TRIALS: dict[str, dict[str, Any]] = {
    # name: environment and what differs from the preset `planted`
    "bandit-masp": {"env": "planted-bandit"},
    "bandit-literal": {"env": "planted-bandit", "penalty_form": "literal"},
    "bandit-sgd": {"env": "planted-bandit", "meta_optimiser": "sgd"},
    "grid32-macros": {"env": "planted-grid", "variant": "macros", "env_options": ("copies=8",)},
    "grid32-masp": {"env": "planted-grid", "env_options": ("copies=8",)},
    "grid4-rainbow": {"env": "planted-grid", "variant": "rainbow", "env_options": ("copies=32",)},
    "grid128-macros": {"env": "planted-grid", "variant": "macros", "env_options": ("copies=32",)},
    "grid128-masp": {"env": "planted-grid", "env_options": ("copies=32",)},
    "grid128-uniform": {"env": "planted-grid", "env_options": ("copies=32",), "learn_similarity": False},
}


def config_of(name: str, frames: int, out: Path) -> TrainConfig:
    """The configuration of a trial."""
    changes = dict(TRIALS[name])
    env = changes.pop("env")
    return replace(from_preset("auto", env), frames=frames, checkpoint_every_frames=0, out=str(out / name), **changes)


def run_trial(name: str, frames: int, seeds: int, out: Path) -> list[list[dict[str, Any]]]:
    """The metrics of every seed; trained now, or read if they are there."""
    runs = [RunDir(out / name / f"seed-{seed}") for seed in range(seeds)]
    if not all(run.finished for run in runs):
        train_seeds(config_of(name, frames, out), list(range(seeds)))
    return [run.read_metrics() for run in runs]


def summarise(metrics: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Final figures and success halfway, with intervals over seeds."""
    final = [rows[-1] for rows in metrics]
    evaluated = [[row for row in rows if row["eval_success"] is not None] for rows in metrics]
    halfway = [rows[len(rows) // 2 - 1] for rows in evaluated]
    figures: dict[str, Any] = {
        "seeds": len(metrics),
        "frames": final[0]["frames"],
        "halfway_frames": halfway[0]["frames"],
    }
    for label, rows, column in (
        ("success_halfway", halfway, "eval_success"),
        ("success", final, "eval_success"),
        ("auc", final, "similarity_auc"),
        ("similarity_mean", final, "similarity_mean"),
        ("similarity_std", final, "similarity_std"),
    ):
        values = [row[column] for row in rows if row[column] is not None]
        figures[label] = sum(values) / len(values) if values else None
        figures[f"{label}_interval"] = bootstrap_interval(values) if values else None
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/planted"))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--frames", type=int, default=60_000)
    parser.add_argument("--trials", nargs="+", choices=list(TRIALS), default=list(TRIALS))
    args = parser.parse_args()
    for name in args.trials:
        figures = summarise(run_trial(name, args.frames, args.seeds, args.out))
        print(json.dumps({"trial": name, **figures}), flush=True)


if __name__ == "__main__":
    main()
