"""How each control of `structure` depends on the penalty weight: print the table, draw structure-weights.png.

python docs/figures/weights.py [STORE]      candidates of `masp reproduce structure --scale laptop`, seeds 100-102

Weights of records of format 1 are for a sum over actions, those of format 2 for a mean; the newest format is shown.
"""

import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from masp.experiments.store import Store
from masp.report.figures import COLOURS
from masp.report.tables import mean_score

TASKS = (
    "grid, 128 actions",
    "grid, unequal groups",
    "grid, cliff, noisy rewards",
    "grid, 124 macros",
    "grid, 124 macros, cliff",
)
Candidates = dict[tuple[str, str], dict[float, dict[int, dict]]]
"""(task, control) to weight to seed to record."""


def candidates_of(store: str) -> Candidates:
    """The candidates of the sweep, by the labels of their records; of equal labels and seeds, the latest."""
    formats: dict[int, Candidates] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for record in sorted(Store(store).records().values(), key=lambda record: record["finished"]):
        name, _, weight = record["label"].partition(", candidate ")
        for task in TASKS:
            control = name.removeprefix(f"{task} ")
            if weight and control in COLOURS:
                formats[record["format"]][task, control][float(weight)][record["seed"]] = record
    return formats[max(formats)]


def main(store: str) -> None:
    candidates = candidates_of(store)
    weights = sorted({weight for runs in candidates.values() for weight in runs})
    figure, panels = plt.subplots(1, len(TASKS), figsize=(3 * len(TASKS), 3.2), layout="constrained")
    print("| task | control |", " | ".join(f"{weight:g}" for weight in weights), "|\n|---|---|", "---|" * len(weights))
    for axes, task in zip(panels, TASKS, strict=True):
        for control in COLOURS:
            means = {
                w: mean_score(list(runs.values()), judged="run")
                for w, runs in sorted(candidates[task, control].items())
            }
            if means:
                cells = [f"{means[weight]:.3f}" if weight in means else "" for weight in weights]
                print(f"| {task} | {control} |", " | ".join(cells), "|")
                style = {"color": COLOURS[control], "linestyle": ":" if control == "truth" else "-"}
                axes.plot(list(means), list(means.values()), marker=".", label=control, **style)
        axes.set(title=task, xscale="log", xlabel="penalty weight", ylim=(0, None))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("success over the run")
    panels[0].legend(frameon=False)
    figure.savefig(Path(__file__).with_name("structure-weights.png"), dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "results")
