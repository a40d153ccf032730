"""Draw the pictures of docs/concepts.md: a macro, its discount, a similarity, and what the penalty does.

python docs/figures/concepts.py [FOLDER]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from masp.similarity.matrix import smoothing

PRIMITIVE, MACRO, GREY = "#4C78A8", "#E45756", "#888888"
NAMES = ("up", "right", "down", "left")
DECISIONS = ((0,), (1, 1, 2), (2,), (1, 2, 1, 1))
"""Actions of the episode in the first picture."""
GAMMA = 0.9


def macro(folder: Path) -> None:
    """An episode in which the agent decides four times and plays nine steps."""
    figure, axes = plt.subplots(figsize=(8, 1.9), layout="constrained")
    start = 0
    for decision in DECISIONS:
        colour = PRIMITIVE if len(decision) == 1 else MACRO
        axes.add_patch(plt.Rectangle((start + 0.04, 0.95), len(decision) - 0.08, 0.4, color=colour))
        label = "macro" if len(decision) > 1 else ""
        axes.text(start + len(decision) / 2, 1.15, label, ha="center", va="center", color="white", fontsize=10)
        for step, primitive in enumerate(decision):
            axes.add_patch(plt.Rectangle((start + step + 0.04, 0.4), 0.92, 0.4, facecolor="none", edgecolor=colour))
            axes.text(start + step + 0.5, 0.6, NAMES[primitive], ha="center", va="center", fontsize=10)
        start += len(decision)
    axes.text(-0.15, 1.15, "4 decisions", ha="right", va="center")
    axes.text(-0.15, 0.6, "9 steps", ha="right", va="center")
    axes.set(xlim=(-1.6, start + 0.1), ylim=(0.25, 1.5))
    axes.axis("off")
    figure.savefig(folder / "concept-macro.png", dpi=130)


def discount(folder: Path) -> None:
    """Weights of the rewards inside a macro of three steps, and of the value behind it."""
    weights = GAMMA ** np.arange(4)
    figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
    axes.bar(range(3), weights[:3], width=0.6, color=MACRO)
    axes.bar([3], weights[3:], width=0.6, color=PRIMITIVE)
    axes.bar([3], [GAMMA], width=0.6, facecolor="none", edgecolor=GREY, linestyle="--")
    axes.text(3.4, GAMMA, f"wrong: $\\gamma$ = {GAMMA}", va="center", color=GREY)
    axes.text(3.4, weights[3], f"$\\gamma^3$ = {weights[3]:.3f}", va="center", color=PRIMITIVE)
    labels = ("reward of\nstep 1", "reward of\nstep 2", "reward of\nstep 3", "value after\nthe macro")
    axes.set_xticks(range(4), labels)
    axes.set(ylabel="weight in the return", ylim=(0, 1.1), xlim=(-0.5, 4.6))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "concept-discount.png", dpi=130)


def similarity(folder: Path) -> np.ndarray:
    """Example similarities of macros by direction, with noise as a learned matrix has it; returns the matrix."""
    groups = np.array([0, 1, 2, 3, 0, 1, 2, 3])
    order = np.argsort(groups, kind="stable")
    noise = np.random.default_rng(0).uniform(0, 0.12, (8, 8))
    matrix = np.where(groups[:, None] == groups[None], 0.75, 0.05) + (noise + noise.T) / 2
    np.fill_diagonal(matrix, 1.0)
    figure, axes = plt.subplots(figsize=(4.6, 3.8), layout="constrained")
    shown = np.where(np.eye(8, dtype=bool), np.nan, matrix[np.ix_(order, order)])
    image = axes.imshow(shown, cmap=plt.get_cmap("magma").with_extremes(bad="#9a9a9a"), vmin=0, vmax=1)
    names = [NAMES[i % 4] + (" twice" if i > 3 else "") for i in order]
    axes.set_xticks(range(8), names, rotation=45, ha="right")
    axes.set_yticks(range(8), names)
    axes.set_title("grey: an action and itself, 1", fontsize=9, color=GREY)
    figure.colorbar(image, label="similarity")
    figure.savefig(folder / "concept-similarity.png", dpi=130)
    return matrix


def penalty(folder: Path, matrix: np.ndarray) -> None:
    """Noisy values of eight actions in four groups, and their smoothed copy P q."""
    values = np.array([0.9, 0.3, 0.2, 0.5, 0.4, 0.45, 0.05, 0.1])
    smoothed = np.asarray(smoothing(matrix)) @ values
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
    places = np.arange(8)
    axes.vlines(places, values[order], smoothed[order], color=GREY, linewidth=1.5)
    axes.scatter(places, values[order], color=PRIMITIVE, s=60, label="value q", zorder=3)
    axes.scatter(places, smoothed[order], color=MACRO, marker="D", s=45, label="smoothed value P q", zorder=3)
    axes.set_xticks(places, [f"{NAMES[i % 4]}{' twice' if i > 3 else ''}" for i in order], rotation=30, ha="right")
    axes.set(ylabel="value", ylim=(0, 1))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "concept-penalty.png", dpi=130)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    macro(folder)
    discount(folder)
    penalty(folder, similarity(folder))


if __name__ == "__main__":
    main()
