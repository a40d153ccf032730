"""How well could any method tell the groups of `bandit, noisy rewards` apart, by the number of tries per action?

    python docs/figures/noisy_bandit.py

Every action is tried equally often in every context. Two actions are similar if their mean rewards are close in all
contexts. There is no learning and no network, so this is the information in the data. Prints the ROC AUC, by pairs and
by rows (`masp.similarity.consensus`).
"""

from __future__ import annotations

import numpy as np

from masp.similarity.consensus import consensus
from masp.similarity.matrix import group_auc

CONTEXTS, GROUPS, COPIES, GOOD, BAD, RUNS = 8, 8, 8, 0.6, 0.4, 50


def auc(tries: int, rng: np.random.Generator) -> tuple[float, float]:
    """AUC of one run, by pairs and by rows."""
    groups = np.arange(GROUPS * COPIES) % GROUPS
    chance = np.where(np.arange(CONTEXTS)[:, None] == groups, GOOD, BAD)
    means = rng.binomial(tries, chance) / tries
    apart = np.sum((means[:, :, None] - means[:, None, :]) ** 2, axis=0)
    return group_auc(-apart, groups), group_auc(consensus(np.exp(-5 * apart)), groups)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    for tries in (10, 20, 40, 80, 160):
        results = [auc(tries, rng) for _ in range(RUNS)]
        (pairs, rows), (spread, _) = np.mean(results, axis=0), np.std(results, axis=0)
        print(f"{tries:4d} tries: AUC {pairs:.3f} (standard deviation {spread:.3f}), by rows {rows:.3f}")
