"""Draw docs/figures/minigrid-curves.png from run directories RUNS/TASK-VARIANT.

python docs/figures/minigrid_curves.py RUNS
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from masp.analysis.figures import COLOURS
from masp.training.run_dir import RunDir

TASKS = ("DoorKey-8x8", "FourRooms", "LockedRoom", "ObstructedMaze-Full-v1")
VARIANTS = ("rainbow", "macros", "masp")


def main(runs: Path) -> None:
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.2), sharey=True, layout="constrained")
    for axes, task in zip(panels, TASKS, strict=True):
        for variant in VARIANTS:
            rows = RunDir(runs / f"{task}-{variant}").read_metrics()
            points = [(row["frames"] / 1000, row["eval_success"]) for row in rows if row["eval_success"] is not None]
            axes.plot(*zip(*points, strict=True), color=COLOURS[variant], label=variant, marker="o", markersize=3)
        axes.set(title=task, xlabel="thousand frames", ylim=(-0.03, 1.03))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("success in evaluation")
    panels[0].legend(frameon=False)
    figure.savefig(Path(__file__).with_name("minigrid-curves.png"), dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
