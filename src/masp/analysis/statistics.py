"""Statistics of a few seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def bootstrap_interval(
    values: Sequence[float] | np.ndarray, confidence: float = 0.95, samples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean."""
    data = np.asarray(values, float)
    draws = np.random.default_rng(seed).integers(0, len(data), (samples, len(data)))
    tail = (1 - confidence) / 2 * 100
    low, high = np.percentile(data[draws].mean(axis=1), [tail, 100 - tail])
    return float(low), float(high)
