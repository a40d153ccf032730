"""Draw learning curves of the documentation.

python docs/figures/curves.py minigrid|minatar [STORE]    records of `masp reproduce ... --scale laptop`
python docs/figures/curves.py atari RUN                   one run directory, as evaluated and as trained
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from masp import load_run
from masp.experiments.store import Store
from masp.report.figures import COLOURS

FAMILIES = {
    # figure: (environments, curve, number of mined macros, frames)
    "minigrid": (("DoorKey-8x8", "FourRooms", "LockedRoom", "ObstructedMaze-Full-v1"), "success", (None,), 500_000),
    "minatar": (("minatar-breakout",), "return", (None, 32), 150_000),
}
VARIANTS = ("rainbow", "macros", "masp")
RANDOM_BREAKOUT = 1.5
"""Mean score of 30 random episodes with the options of docs/log."""


def from_store(family: str, store: str) -> None:
    tasks, curve, numbers, frames = FAMILIES[family]
    records = [
        record
        for record in Store(store).records().values()
        if record["k"] in numbers and not record["noise"] and record["config"]["frames"] == frames
        if not record["config"].get("intra_option")
    ]
    width = 3.25 * len(tasks) if len(tasks) > 1 else 5.0
    figure, panels = plt.subplots(1, len(tasks), figsize=(width, 3.2), sharey=True, layout="constrained", squeeze=False)
    for axes, task in zip(panels[0], tasks, strict=True):
        for variant in VARIANTS:
            runs = [r for r in records if (r["env"], r["control"]) == (task, variant) and r["seed"] < 100]
            thousands = [np.asarray(run["curve_frames"]) / 1000 for run in runs]
            values = [np.asarray(run[f"curve_{curve}"], float) for run in runs]
            for x, y in zip(thousands, values, strict=True):
                axes.plot(x, y, color=COLOURS[variant], alpha=0.35 if len(runs) > 1 else 1.0, linewidth=1)
            if runs:
                label = f"{variant} ({len(runs)} seed{'s' * (len(runs) > 1)})"
                axes.plot(np.mean(thousands, 0), np.mean(values, 0), color=COLOURS[variant], label=label, marker=".")
        axes.set(title=task, xlabel="thousand frames")
        axes.grid(alpha=0.3)
    if curve == "success":
        panels[0, 0].set_ylim(-0.03, 1.03)
    panels[0, 0].set_ylabel(f"{curve} in evaluation")
    panels[0, 0].legend(frameon=False)
    figure.savefig(Path(__file__).with_name(f"{family}-curves.png"), dpi=110)


def atari(run: str) -> None:
    rows = load_run(run).metrics
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    for column, label, style in (("return", "in training", "-"), ("eval_return", "in evaluation", "o")):
        points = [row for row in rows if row.get(column) is not None]
        axes.plot([r["frames"] / 1000 for r in points], [r[column] for r in points], style, label=label)
    axes.axhline(RANDOM_BREAKOUT, color="grey", linestyle=":", label="random play")
    axes.set(title="Breakout", xlabel="thousand frames", ylabel="score", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(Path(__file__).with_name("atari-breakout.png"), dpi=110)


if __name__ == "__main__":
    which, *rest = sys.argv[1:]
    atari(*rest) if which == "atari" else from_store(which, *(rest or ["results"]))
