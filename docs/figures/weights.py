"""How each control of `structure` depends on the penalty weight: print the table, draw structure-weights.png.

python docs/figures/weights.py [STORE]      candidates of `masp reproduce structure --scale laptop`, seeds 100-102
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from masp.experiments.definitions.planted import EXPERIMENTS
from masp.experiments.definitions.planted import STRUCTURE_WEIGHTS as WEIGHTS
from masp.experiments.store import Store
from masp.experiments.trial import trial_id
from masp.report.figures import COLOURS
from masp.report.tables import mean_score

TASKS = (
    "grid, 128 actions",
    "grid, unequal groups",
    "grid, cliff, noisy rewards",
    "grid, 124 macros",
    "grid, 124 macros, cliff",
)


def main(store: str) -> None:
    records = Store(store).records()
    figure, panels = plt.subplots(1, len(TASKS), figsize=(3 * len(TASKS), 3.2), layout="constrained")
    print("| task | control |", " | ".join(map(str, WEIGHTS)), "|\n|---|---|", "---|" * len(WEIGHTS), sep="")
    for cell in EXPERIMENTS["structure"].cells("laptop"):
        task = cell.row[0]
        candidates = [[records.get((trial_id(c), seed)) for seed in c.seeds] for c in cell.trial.candidates()]
        if task not in TASKS or not candidates or any(None in runs for runs in candidates):
            continue
        means = [mean_score(runs, judged="run") for runs in candidates]
        print(f"| {task} | {cell.column} |", " | ".join(f"{mean:.3f}" for mean in means), "|")
        if cell.column in COLOURS:
            style = {"color": COLOURS[cell.column], "linestyle": ":" if cell.column == "truth" else "-"}
            panels[TASKS.index(task)].plot(WEIGHTS, means, marker=".", label=cell.column, **style)
    for axes, task in zip(panels, TASKS, strict=True):
        axes.set(title=task, xscale="log", xlabel="penalty weight", ylim=(0, None))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("success over the run")
    panels[0].legend(frameon=False)
    figure.savefig(Path(__file__).with_name("structure-weights.png"), dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "results")
