"""What the penalty does to an agent, in figures: spread of values, effective number of actions, clusters."""

from __future__ import annotations

import numpy as np


def effective_number(weights: np.ndarray) -> np.ndarray:
    """[...] the exponential of the entropy of `weights` [..., A], which need not sum to one; 0 where all are 0.

    n equal weights have the effective number n.
    """
    total = weights.sum(axis=-1, keepdims=True)
    p = weights / np.where(total > 0, total, 1)
    entropy = -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=-1)
    return np.where(total[..., 0] > 0, np.exp(entropy), 0.0)


def spread(values: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """Standard deviation of action values within groups, and of the groups' means; in each state, then averaged.

    In one state, the squares of both add up to the square of the standard deviation over all actions.

    Args:
      values: [B, A] action values.
      groups: [A] group of every action.
    """
    member = groups[:, None] == np.unique(groups)  # [A, G]
    means = (values @ member / member.sum(axis=0)) @ member.T  # [B, A] of each action's group
    within = np.sqrt(np.mean(np.square(values - means), axis=1))
    return float(within.mean()), float(means.std(axis=1).mean())


def advantages(values: np.ndarray) -> np.ndarray:
    """[A] mean over states of each action's value minus the mean over actions; `values` [B, A]."""
    return (values - values.mean(axis=1, keepdims=True)).mean(axis=0)


def macro_lead(values: np.ndarray, num_primitives: int) -> float | None:
    """Mean over states of the best macro's value minus the best primitive's; None without macros.

    A macro is never worth more than its first step followed by the best decisions, so a lead above 0 is
    over-estimation.
    """
    if values.shape[1] == num_primitives:
        return None
    return float(np.mean(values[:, num_primitives:].max(axis=1) - values[:, :num_primitives].max(axis=1)))


def clusters(similarity: np.ndarray) -> np.ndarray | None:
    """[A] the cluster of every action, from the similarity [A, A] alone; None where no pair differs from another.

    Actions are processed by decreasing total similarity. Each joins the cluster with the highest mean similarity to its
    members, or opens a new one if that mean is below a threshold that separates similar from dissimilar pairs.
    """
    count = len(similarity)
    pairs = similarity[~np.eye(count, dtype=bool)]
    if not pairs.size or np.ptp(pairs) < 1e-6:
        return None
    threshold = _valley(pairs)
    labels = np.full(count, -1)
    sums, sizes = np.zeros((0, count)), np.zeros(0)  # similarity of each cluster to all actions, summed over members
    for action in np.argsort(-similarity.sum(axis=1), kind="stable"):
        average = sums[:, action] / sizes
        if not average.size or average.max() < threshold:
            sums, sizes = np.vstack([sums, np.zeros(count)]), np.append(sizes, 0)
            labels[action] = len(sizes) - 1
        else:
            labels[action] = average.argmax()
        sums[labels[action]] += similarity[action]
        sizes[labels[action]] += 1
    return labels


def _valley(numbers: np.ndarray, rounds: int = 20) -> float:
    """A threshold between two groups of numbers: halfway between their means (two-means in one dimension)."""
    middle = float(numbers.min() + numbers.max()) / 2
    for _ in range(rounds):
        middle = float(numbers[numbers > middle].mean() + numbers[numbers <= middle].mean()) / 2
    return middle
