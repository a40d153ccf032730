"""Draw docs/figures/minigrid-curves.png from the records of `masp reproduce minigrid --scale laptop`.

python docs/figures/minigrid_curves.py [STORE]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from masp.analysis.figures import COLOURS
from masp.experiments.store import Store

TASKS = ("DoorKey-8x8", "FourRooms", "LockedRoom", "ObstructedMaze-Full-v1")
VARIANTS = ("rainbow", "macros", "masp")


def main(store: str) -> None:
    records = Store(store).records().values()
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.2), sharey=True, layout="constrained")
    for axes, task in zip(panels, TASKS, strict=True):
        for variant in VARIANTS:
            for record in records:
                if (record["env"], record["control"]) == (task, variant):
                    thousands = [frames / 1000 for frames in record["curve_frames"]]
                    axes.plot(thousands, record["curve_success"], color=COLOURS[variant], label=variant, marker=".")
        axes.set(title=task, xlabel="thousand frames", ylim=(-0.03, 1.03))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("success in evaluation")
    panels[0].legend(frameon=False)
    figure.savefig(Path(__file__).with_name("minigrid-curves.png"), dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "results")
