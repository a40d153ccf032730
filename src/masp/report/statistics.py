"""Statistics of a few seeds on a few tasks, after Agarwal et al., "Deep RL at the edge of the statistical precipice".

`scores` is one array of runs per task, all of one method; tasks may have different numbers of runs. Intervals come from
the stratified bootstrap, which resamples runs within each task and keeps the tasks. rliable needs old versions of
pandas and arch; tests compare our results with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Scores = Sequence[Sequence[float] | np.ndarray]
Statistic = Callable[[list[np.ndarray]], np.ndarray]
"""From one array [samples, runs] per task to [samples] values."""


def bootstrap_interval(
    values: Sequence[float] | np.ndarray, confidence: float = 0.95, samples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean."""
    data = np.asarray(values, float)
    indices = np.random.default_rng(seed).integers(0, len(data), (samples, len(data)))
    return _percentiles(data[indices].mean(axis=1), confidence)


def mean_of(tasks: list[np.ndarray]) -> np.ndarray:
    """[samples] mean over tasks of the mean over runs."""
    return np.mean([task.mean(axis=1) for task in tasks], axis=0)


def iqm_of(tasks: list[np.ndarray]) -> np.ndarray:
    """[samples] interquartile mean: of all runs of all tasks, the middle half."""
    pooled = np.sort(np.concatenate(tasks, axis=1), axis=1)
    cut = pooled.shape[1] // 4
    return pooled[:, cut : pooled.shape[1] - cut].mean(axis=1)


def aggregate(
    scores: Scores, statistic: Statistic, confidence: float = 0.95, samples: int = 5_000, seed: int = 0
) -> tuple[float, float, float]:
    """The statistic and its stratified bootstrap interval."""
    tasks = _tasks(scores)
    generator = np.random.default_rng(seed)
    value = float(statistic([task[None] for task in tasks])[0])
    values = statistic([_resample(task, samples, generator) for task in tasks])
    return (value, *_percentiles(values, confidence))


def performance_profile(scores: Scores, thresholds: np.ndarray) -> np.ndarray:
    """[thresholds] share of runs above each threshold, tasks weighted equally."""
    above = [(task[:, None] > np.asarray(thresholds)[None]).mean(axis=0) for task in _tasks(scores)]
    return np.mean(above, axis=0)


def profile_band(
    scores: Scores, thresholds: np.ndarray, confidence: float = 0.95, samples: int = 2_000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """[thresholds] lower and upper end of the profile's point-wise interval."""
    generator = np.random.default_rng(seed)
    tasks, edges = _tasks(scores), np.asarray(thresholds)
    profiles = np.zeros((samples, len(edges)))
    for task in tasks:
        resampled = np.sort(_resample(task, samples, generator), axis=1)
        for row, sample in zip(profiles, resampled, strict=True):
            row += 1 - np.searchsorted(sample, edges, side="right") / len(task)
    tail = (1 - confidence) / 2 * 100
    low, high = np.percentile(profiles / len(tasks), [tail, 100 - tail], axis=0)
    return low, high


def improvement_of(ours: list[np.ndarray], theirs: list[np.ndarray]) -> np.ndarray:
    """[samples] probability that a run of ours beats one of theirs on the same task, mean over tasks; a tie is half."""
    probabilities = []
    for x, y in zip(ours, theirs, strict=True):
        difference = x[:, :, None] - y[:, None, :]
        probabilities.append((difference > 0).mean(axis=(1, 2)) + 0.5 * (difference == 0).mean(axis=(1, 2)))
    return np.mean(probabilities, axis=0)


def difference_of(ours: list[np.ndarray], theirs: list[np.ndarray]) -> np.ndarray:
    """[samples] mean of ours minus mean of theirs, averaged over tasks."""
    return mean_of(ours) - mean_of(theirs)


def compare(
    ours: Scores,
    theirs: Scores,
    statistic: Callable[[list[np.ndarray], list[np.ndarray]], np.ndarray],
    confidence: float = 0.95,
    samples: int = 5_000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """A statistic of two methods on the same tasks, and its interval; both are resampled."""
    x, y = _tasks(ours), _tasks(theirs)
    if len(x) != len(y):
        raise ValueError(f"two methods are compared on the same tasks, got {len(x)} and {len(y)}")
    generator = np.random.default_rng(seed)
    value = float(statistic([task[None] for task in x], [task[None] for task in y])[0])
    resampled_x = [_resample(task, samples, generator) for task in x]
    resampled_y = [_resample(task, samples, generator) for task in y]
    return (value, *_percentiles(statistic(resampled_x, resampled_y), confidence))


def _tasks(scores: Scores) -> list[np.ndarray]:
    tasks = [np.asarray(task, float) for task in scores]
    if not tasks or any(task.ndim != 1 or not len(task) for task in tasks):
        raise ValueError("scores are one non-empty list of runs per task")
    return tasks


def _resample(task: np.ndarray, samples: int, generator: np.random.Generator) -> np.ndarray:
    """[samples, runs] the runs of one task, resampled with replacement."""
    return task[generator.integers(0, len(task), (samples, len(task)))]


def _percentiles(values: np.ndarray, confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2 * 100
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)
