"""Does it help to mine new macros during training? The same runs with fixed, mined and randomly replaced macros.

  python -m masp.experiments.definitions.adaptive --out runs/adaptive --figures docs/figures

Runs that are finished in --out are not run again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from masp.config import TrainConfig, replace
from masp.environments import make_env
from masp.macros.actions import ActionSet
from masp.presets import from_preset
from masp.report.figures import learning_curves
from masp.report.statistics import bootstrap_interval
from masp.training.history import read_history
from masp.training.run_dir import RunDir
from masp.training.train import train_runs


@dataclass(frozen=True)
class Task:
    """An environment, the macros to begin with and the budget."""

    env: str
    options: tuple[str, ...]
    frames: int
    rounds: int
    """Rounds of replacing macros, evenly over the run."""
    random_macros: int = 0
    """Begin with so many random sequences; 0: the environment's own set."""
    changes: dict[str, Any] = field(default_factory=dict)
    """What differs from the environment's preset."""


MINIGRID = {"epsilon_decay_steps": 50_000, "steps_per_update": 16}
"""A fifth of the preset's budget: explore for half of it, and learn twice as often."""

TASKS = {
    "grid": Task("planted-grid", ("size=9", "copies=1"), 60_000, 10, 12),
    "doorkey": Task("DoorKey-5x5", ("backend=envpool",), 100_000, 10, 0, MINIGRID),
    "doorkey-random": Task("DoorKey-5x5", ("backend=envpool",), 100_000, 10, 8, MINIGRID),
}

ARMS: dict[str, dict[str, Any]] = {
    "fixed": {},
    "mined": {"mine_from": "play"},
    "random": {"mine_from": "random"},
}
"""`random` replaces as often and as many as `mined`, by random sequences of the mined lengths."""


def random_macros(task: Task, path: Path) -> str:
    """A file of random sequences of 3 to 8 primitives; the same for all arms and seeds."""
    primitives = make_env(task.env, task.options).info.actions
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 9, task.random_macros)
    macros = [tuple(rng.integers(0, primitives.num_primitives, length).tolist()) for length in lengths]
    path.parent.mkdir(parents=True, exist_ok=True)
    ActionSet(primitives.num_primitives, macros, primitives.primitive_names, primitives.env_id).save(path)
    return str(path)


def config_of(name: str, arm: str, variant: str, out: Path) -> TrainConfig:
    """The configuration of one arm."""
    task = TASKS[name]
    period = task.frames // task.rounds
    changes = {"env_options": task.options, "frames": task.frames, "variant": variant, **task.changes}
    changes |= {"log_every_frames": period, "eval_every_frames": period, "checkpoint_every_frames": 0}
    if task.random_macros:
        changes["macros"] = random_macros(task, out / f"{name}-macros.json")
    if arm != "fixed":
        changes |= {"mine_every_frames": period, **ARMS[arm]}
    return replace(from_preset("auto", task.env), **changes, out=str(out / f"{name}-{variant}-{arm}"))


def run_arm(name: str, arm: str, variant: str, seeds: int, out: Path) -> list[RunDir]:
    """The runs of one arm; trained now, or as they are there."""
    config = config_of(name, arm, variant, out)
    runs = [RunDir(Path(config.out) / f"seed-{seed}") for seed in range(seeds)]
    missing = [(seed, run) for seed, run in enumerate(runs) if not run.finished]
    if missing:
        begun = any(run.config_file.exists() for _, run in missing)
        train_runs([replace(config, seed=seed, out=str(run.path)) for seed, run in missing], resume=begun)
    return runs


def curve(run: RunDir) -> list[tuple[int, float]]:
    """(frames, success) of every evaluation."""
    return [(row["frames"], row["eval_success"]) for row in run.read_metrics() if row["eval_success"] is not None]


def summarise(runs: list[RunDir], fixed: list[RunDir]) -> dict[str, Any]:
    """Mean success over the run and at its end, and the difference to fixed macros with the same seed."""
    figures: dict[str, Any] = {"seeds": len(runs)}
    for label, of in (
        ("success_over_run", lambda run: float(np.mean([value for _, value in curve(run)]))),
        ("success_at_end", lambda run: curve(run)[-1][1]),
    ):
        values = [of(run) for run in runs]
        differences = [value - of(other) for value, other in zip(values, fixed, strict=True)]
        figures[label], figures[f"{label}_interval"] = float(np.mean(values)), bootstrap_interval(values)
        figures[f"{label}_gain"] = float(np.mean(differences))
        figures[f"{label}_gain_interval"] = bootstrap_interval(differences)
    replaced = [sum(len(row.get("replaced", [])) for row in read_history(run.history_file)) for run in runs]
    figures["macros_replaced"] = float(np.mean(replaced))
    figures["steps_per_decision"] = float(np.mean([run.read_metrics()[-1]["decision_steps"] for run in runs]))
    return figures


def table(rows: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    lines = [
        "| task | macros | success over the run | against fixed | success at the end | against fixed | replaced |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [f"{row['task']}, {row['variant']}", row["arm"]]
        for label in ("success_over_run", "success_at_end"):
            cells.append(_with_interval(row[label], row[f"{label}_interval"]))
            gain = _with_interval(row[f"{label}_gain"], row[f"{label}_gain_interval"], "+")
            cells.append("" if row["arm"] == "fixed" else gain)
        lines.append("| " + " | ".join([*cells, f"{row['macros_replaced']:.0f}"]) + " |")
    return "\n".join(lines)


def _with_interval(value: float, interval: tuple[float, float], sign: str = "") -> str:
    return f"{value:{sign}.3f} ({interval[0]:{sign}.3f} to {interval[1]:{sign}.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/adaptive"), help="where the runs go")
    parser.add_argument("--figures", type=Path, help="folder for the figures")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS), help="fixed is always among them")
    parser.add_argument("--variants", nargs="+", choices=["macros", "masp"], default=["macros", "masp"])
    args = parser.parse_args()
    rows = []
    for name in args.tasks:
        for variant in args.variants:
            arms = list(dict.fromkeys(["fixed", *args.arms]))
            runs = {arm: run_arm(name, arm, variant, args.seeds, args.out) for arm in arms}
            for arm in arms:
                rows.append({"task": name, "variant": variant, "arm": arm, **summarise(runs[arm], runs["fixed"])})
                print(json.dumps(rows[-1]), flush=True)
            if args.figures:
                curves = {arm: [curve(run) for run in arm_runs] for arm, arm_runs in runs.items()}
                title = f"{TASKS[name].env}, {variant}"
                learning_curves(curves, args.figures / f"adaptive-{name}-{variant}.png", title, "success")
    print(table(rows))


if __name__ == "__main__":
    main()
